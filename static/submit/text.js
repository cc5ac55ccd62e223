// The job as text: what is typed there goes into the form, what is typed in the form comes here.

const PAUSE_MS = 400;

export class JobText {
  // `filled()` is called after the form has taken over what the text says.
  constructor(form, filled) {
    this.form = form;
    this.filled = filled;
    this.area = document.getElementById("text");
    this.error = document.getElementById("text-error");
    this.choice = document.getElementById("text-format");
    this.asking = null;
    this.later = null;
    this.choice.hidden = false;
    this.area.form.querySelector("button[name=fill]").hidden = true;
    this.area.addEventListener("input", () => { clearTimeout(this.later); this.later = setTimeout(() => this.fill(), PAUSE_MS); });
    this.choice.addEventListener("click", (event) => this.choose(event.target.closest("button")));
  }

  style() { return this.choice.querySelector("[aria-pressed=true]").value; }

  choose(button) {
    if (!button) return;
    for (const one of this.choice.children) one.setAttribute("aria-pressed", String(one === button));
    this.filled();
  }

  // What somebody is writing, or has not got right yet, is theirs.
  write(text) {
    if (document.activeElement === this.area || !this.error.hidden) return;
    this.area.value = text;
  }

  async fill() {
    this.asking?.abort();
    const asking = this.asking = new AbortController();
    const body = new FormData(this.area.form);
    try {
      const answer = await fetch(this.form.dataset.fields, { method: "POST", body, signal: asking.signal });
      if (!answer.ok) throw new Error(`The server answered ${answer.status}.`);
      const { fields, error } = await answer.json();
      this.tell(error);
      if (!fields) return;
      for (const [name, value] of Object.entries(fields)) this.put(this.form.elements[name], value);
      this.filled();
    } catch (error) {
      if (!asking.signal.aborted) this.tell(`${error.message} The form was left as it is.`);
    }
  }

  // A choice that the form does not have stays unchosen, and the form says so when it is sent.
  put(field, value) {
    if (field.value === value) return;
    field.value = value;
    if (field.value !== value) field.selectedIndex = -1;
  }

  tell(error) {
    this.error.hidden = !error;
    this.error.textContent = error ?? "";
    if (error) this.area.setAttribute("aria-invalid", "true");
    else this.area.removeAttribute("aria-invalid");
  }
}
