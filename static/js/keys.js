// Single keys: what they do on every page, and a way for a page to add its own. They never act while one types, and one
// can switch them off (WCAG 2.1.4); the sheet that lists them says how.

const GO = { o: "home", j: "jobs", q: "queue", c: "cluster", h: "nodes", s: "submit" };
const PREFIX_MS = 1500;
const bound = new Map();
let going = 0;

export function onKey(key, act) {
  bound.set(key, act);
}

const sheet = () => document.getElementById("keys");
const switchedOff = () => document.documentElement.dataset.keys === "off";

function typing(target) {
  return target.isContentEditable || target.matches("input:not([type='checkbox'], [type='radio']), textarea, select");
}

function pressed(event) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
  if (event.key === "?") return act(event, () => sheet()?.showModal());
  if (switchedOff() || document.querySelector("dialog[open]")) return;
  if (performance.now() < going) {
    going = 0;
    const link = document.querySelector(`[data-go="${GO[event.key]}"]`);
    if (link) return act(event, () => link.click());
  } else if (event.key === "g") {
    going = performance.now() + PREFIX_MS;
  } else if (event.key === "/") {
    act(event, () => document.getElementById("search")?.select());
  } else if (bound.has(event.key)) {
    act(event, bound.get(event.key));
  }
}

function act(event, done) {
  event.preventDefault();
  done();
}

export function keepKeys() {
  document.addEventListener("keydown", pressed);
  const opener = document.querySelector("[data-keys-open]");
  if (!opener) return;
  opener.hidden = false;
  opener.addEventListener("click", () => sheet().showModal());
}
