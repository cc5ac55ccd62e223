// What every page has: preferences without a reload, times in the reader's zone, toasts that come once.
import { keepKeys } from "./keys.js";
import { keepTimes } from "./times.js";
import { adoptToasts } from "./toasts.js";

function keepPreferences(form) {
  form.addEventListener("submit", async (event) => {
    const { name, value } = event.submitter;
    event.preventDefault();
    const body = new FormData(form, event.submitter);
    document.documentElement.dataset[name] = value;
    for (const button of form.querySelectorAll(`button[name="${name}"]`)) {
      button.setAttribute("aria-pressed", String(button.value === value));
    }
    document.dispatchEvent(new CustomEvent("preferences"));
    const answer = await fetch(form.action, { method: "POST", body, redirect: "manual" });
    if (answer.status >= 400) location.reload();
  });
}

function closeMenusOutside(event) {
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
}

document.querySelectorAll("form[data-preferences]").forEach(keepPreferences);
document.addEventListener("click", closeMenusOutside);
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  const menu = document.querySelector("details.menu[open]");
  if (menu) {
    menu.open = false;
    menu.querySelector("summary").focus();
  }
});
keepKeys();
keepTimes();
adoptToasts();
