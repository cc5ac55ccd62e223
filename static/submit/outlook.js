// Asks the server, while one types, what would become of the job, and writes its answer into the panel and the text.
import { localise } from "../js/times.js";

const PAUSE_MS = 250;

export class Outlook {
  // `written(text)` is given the job as text after each answer; `style()` says in which format;
  // `said(words)` is given the answer in a few words.
  constructor(form, { style, written, said }) {
    this.form = form;
    this.panel = document.getElementById("outlook");
    this.state = document.getElementById("outlook-state");
    this.style = style;
    this.written = written;
    this.said = said;
    this.asking = null;
    this.later = null;
    this.panel.addEventListener("click", (event) => this.take(event));
  }

  soon(pause = PAUSE_MS) {
    clearTimeout(this.later);
    this.later = setTimeout(() => this.ask(), pause);
  }

  async ask() {
    this.asking?.abort();
    const asking = this.asking = new AbortController();
    this.panel.setAttribute("aria-busy", "true");
    const body = new FormData(this.form);
    body.set("format", this.style());
    try {
      const answer = await fetch(this.form.dataset.outlook, { method: "POST", body, signal: asking.signal });
      if (!answer.ok) throw new Error(`${answer.status}`);
      const { html, text } = await answer.json();
      if (asking.signal.aborted) return;
      this.show(html);
      this.state.textContent = "";
      this.written(text);
    } catch (error) {
      if (asking.signal.aborted) return;
      this.state.textContent = "The server does not answer; trying again";
      this.soon(2000);
    }
    this.panel.removeAttribute("aria-busy");
  }

  show(html) {
    const open = this.panel.querySelector("details[open]") !== null;
    const focused = this.panel.contains(document.activeElement);
    this.panel.innerHTML = html;
    this.said(this.panel.querySelector(".verdict strong")?.textContent ?? "");
    localise(this.panel);
    if (open) this.panel.querySelector("details")?.setAttribute("open", "");
    if (focused) this.panel.querySelector("button, a")?.focus();
  }

  take(event) {
    const button = event.target.closest("button[name=take]");
    if (!button) return;
    event.preventDefault();
    const at = button.value.indexOf("=");
    const field = this.form.elements[button.value.slice(0, at)];
    field.value = button.value.slice(at + 1);
    field.classList.remove("changed");
    void field.offsetWidth;
    field.classList.add("changed");
    field.dispatchEvent(new Event("input", { bubbles: true }));
    this.soon(0);
  }
}
