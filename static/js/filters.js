// A form of filters that htmx sends as one changes it: no change is lost, whenever it was made.
//
// One that was made before the scripts ran is sent when they do. The form has autocomplete="off", so the browser puts
// nothing back into it: what differs from the page as it was written is somebody's own. An answer is not shown where the
// form has gone on since the question: its next one waits already (htmx keeps the last), or will be asked in a moment.

const FORM = "form.filters[hx-get]";
const asked = new WeakMap();

const values = (form) => JSON.stringify([...new FormData(form)]);

// Without a choice in the page the browser takes the first.
const writtenChoice = (select) => [...select.options].find((one) => one.defaultSelected) ?? select.options[0];

function asWritten(form) {
  return [...form.elements].every((field) =>
    field.matches("select") ? writtenChoice(field).selected : field.defaultValue === undefined || field.value === field.defaultValue);
}

// htmx was listening for this event before and has set its forms up.
document.addEventListener("DOMContentLoaded", () => {
  for (const form of document.querySelectorAll(FORM)) if (!asWritten(form)) htmx.trigger(form, "change");
});
document.addEventListener("htmx:beforeRequest", ({ detail: { elt } }) => {
  if (elt.matches(FORM)) asked.set(elt, values(elt));
});
document.addEventListener("htmx:beforeSwap", ({ detail }) => {
  const form = detail.target.querySelector(FORM);
  if (!form) return;
  const current = detail.requestConfig.elt === form ? asked.get(form) === values(form) : asWritten(form);
  if (!current) detail.shouldSwap = false;
});
