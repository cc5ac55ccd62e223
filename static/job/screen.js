// The lines of a log as they are shown. Only text nodes are made, so whatever a program wrote stays text.
import { Terminal } from "./ansi.js";

const MOST_LINES = 5000;
const LONGEST_LINE = 8192;

export class Screen {
  constructor(box) {
    this.box = box;
    this.clear();
  }

  clear() {
    this.box.replaceChildren();
    this.terminal = new Terminal();
    this.line = null;
    this.back = false;
    this.wanted = this.wanted ?? "";
    this.dropped = 0;
  }

  get atBottom() {
    return this.box.scrollHeight - this.box.scrollTop - this.box.clientHeight < 24;
  }

  toBottom() {
    this.box.scrollTop = this.box.scrollHeight;
  }

  add(text) {
    const touched = new Set();
    for (const token of this.terminal.take(text)) {
      if (token.end) this.line = null;
      else if (token.back) this.back = this.line !== null;
      else touched.add(this.write(token));
      if (token.end) this.back = false;
    }
    for (const line of touched) this.mark(line);
    this.trim();
  }

  note(words) {
    this.line = null;
    const line = this.begin();
    line.classList.add("log-gap");
    line.textContent = words;
    this.line = null;
  }

  write({ text, classes }) {
    if (this.line === null || this.length > LONGEST_LINE) this.begin();
    if (this.back) {
      this.line.replaceChildren();
      this.length = 0;
      this.back = false;
    }
    const part = classes ? document.createElement("span") : document.createTextNode(text);
    if (classes) { part.className = classes; part.textContent = text; }
    this.line.append(part);
    this.length += text.length;
    return this.line;
  }

  begin() {
    this.line = document.createElement("div");
    this.length = 0;
    this.box.append(this.line);
    return this.line;
  }

  trim() {
    while (this.box.childElementCount > MOST_LINES) {
      this.box.firstElementChild.remove();
      this.dropped += 1;
    }
  }

  // --- finding

  find(words) {
    this.wanted = words.toLowerCase();
    for (const line of this.box.children) this.mark(line);
  }

  mark(line) {
    line.classList.toggle("hit", this.wanted !== "" && line.textContent.toLowerCase().includes(this.wanted));
  }

  hits() {
    return [...this.box.getElementsByClassName("hit")];
  }
}
