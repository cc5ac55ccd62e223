// The list by keyboard, and what is picked in it. The list is replaced as a whole when it is refreshed, so everything
// is looked up when it is needed.
import { onKey } from "../js/keys.js";

const rows = () => [...document.querySelectorAll("#results tbody tr")];
const picks = () => [...document.querySelectorAll("#results [data-pick]")];
const here = () => document.activeElement?.closest("#results tbody tr");

function move(by) {
  const all = rows();
  const at = all.indexOf(here());
  const next = all[at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, at + by))];
  next?.querySelector("th a").focus();
}

function show() {
  const form = document.getElementById("together");
  if (!form) return;
  const n = picks().filter((one) => one.checked).length;
  form.dataset.some = n ? "yes" : "no";
  const words = n ? `${n} job${n === 1 ? "" : "s"} picked` : "Pick jobs to act on several at once";
  const said = form.querySelector("[data-picked]");
  if (said.textContent !== words) said.textContent = words;
}

function set(boxes, checked) {
  for (const one of boxes) one.checked = checked;
  show();
}

function press(act) {
  if (picks().some((one) => one.checked)) document.querySelector(`#together [value="${act}"]`).click();
}

onKey("j", () => move(1));
onKey("k", () => move(-1));
onKey("x", () => { const box = here()?.querySelector("[data-pick]"); if (box) set([box], !box.checked); });
onKey("a", () => set(picks(), !picks().every((one) => one.checked)));
onKey("c", () => press("cancel"));
onKey("p", () => document.querySelector("#together select")?.focus());
document.addEventListener("change", (event) => { if (event.target.matches("[data-pick]")) show(); });
document.body.addEventListener("htmx:afterSettle", show);
show();
