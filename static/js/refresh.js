// Keeps a part of the page up to date by asking for it again: not while the page is hidden, while somebody points at
// it or has the focus in it, nor while something in it is unfolded. The badge says how fresh it is.
import { localise } from "./times.js";

const badge = document.querySelector(".live[data-live]");
let since = null;

function busy(part) {
  return document.hidden || part.matches(":hover") || part.contains(document.activeElement) || part.querySelector("details[open], [data-pick]:checked");
}

function tell(fresh) {
  if (!badge) return;
  since = fresh ? null : since ?? new Date();
  badge.dataset.live = fresh ? "fresh" : "stale";
  badge.textContent = fresh ? "Live" : `Stale since ${since.toTimeString().slice(0, 8)}`;
}

// The server may answer well and still not see the live state itself.
const serverIsFresh = () => document.querySelector("[data-fresh='no']") === null;

function tick() {
  for (const part of document.querySelectorAll("[data-refresh]")) {
    const now = performance.now();
    part.nextRefresh ??= now + Number(part.dataset.refresh);
    if (now < part.nextRefresh || busy(part)) continue;
    part.nextRefresh = now + Number(part.dataset.refresh);
    htmx.trigger(part, "refresh");
  }
}

document.body.addEventListener("htmx:afterSwap", (event) => localise(event.detail.elt));
document.body.addEventListener("htmx:afterRequest", (event) => tell(event.detail.successful && serverIsFresh()));
document.body.addEventListener("htmx:sendError", () => tell(false));
tell(serverIsFresh());
setInterval(tick, 500);
