// The job page follows its job: the socket says that something changed, the server writes the words.
import { LiveView, showFreshness } from "../js/socket.js";
import { localise } from "../js/times.js";

const AGAIN_MS = 400;
let asked = 0, later = null, last = ["waiting", null];

const part = () => document.getElementById("live");
const busy = () => part().querySelector("details[open]") !== null;

function refresh() {
  if (later) return;
  later = setTimeout(() => {
    later = null;
    if (busy()) return refresh();
    asked = performance.now();
    htmx.trigger(part(), "refresh");
    return undefined;
  }, Math.max(0, asked + AGAIN_MS - performance.now()));
}

// That a log has grown changes nothing in the words of the page: the panel of the output asks for it.
function hear(message) {
  if (message.type === "logged") document.dispatchEvent(new CustomEvent("job:logged", { detail: message }));
  else refresh();
}

function freshness(state, since) {
  last = [state, since];
  const badge = part().querySelector("[data-live]");
  if (badge) showFreshness(badge)(state, since);
}

// The part is replaced as a whole; what changed is said by a region that stays.
function sayIfMoved() {
  const phase = part().querySelector("#phase").textContent.trim();
  const said = document.getElementById("said");
  if (said.dataset.phase && said.dataset.phase !== phase) said.textContent = `Now ${phase}`;
  said.dataset.phase = phase;
}

document.body.addEventListener("htmx:afterSwap", (event) => {
  localise(event.detail.elt);
  freshness(...last);
  sayIfMoved();
});
sayIfMoved();

if (part().querySelector("[data-live]")) {
  new LiveView(`/ws/jobs/${part().dataset.job}/`, { snapshot: refresh, delta: refresh, other: hear, freshness });
}
