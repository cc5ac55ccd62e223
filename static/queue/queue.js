// The live queue. Rows change in place at once; what would move rows waits while somebody points at them or is among
// them with the keyboard, and a button says how much is waiting.
import { LiveView, showFreshness } from "../js/socket.js";
import { showLikely, spanWords } from "../js/times.js";

const table = document.getElementById("queue");
const body = table.tBodies[0];
const blank = document.getElementById("row").content.firstElementChild;
const reasons = JSON.parse(document.getElementById("reasons").textContent);
const held = document.getElementById("held");
const rows = new Map();       // key → what the server says
const shown = new Map([...body.rows].map((line) => [line.dataset.key, line]));
let order = [...shown.keys()];
let total = shown.size;
let known = false;
const narrow = document.getElementById("narrow");
const wanted = Object.fromEntries(new FormData(narrow));
const FIELDS = { team: "team", type: "gpu_type", why: "reason" };

const number = (n) => n.toLocaleString("en").replaceAll(",", "\u202f");
const put = (line, name, text) => {
  const cell = line.querySelector(`[data-${name}]`);
  if (cell && cell.textContent !== text) cell.textContent = text;
};

function fill(line, row) {
  put(line, "team", row.team);
  put(line, "priority", `P${row.priority}`);
  put(line, "gpus", number(row.gpus));
  put(line, "type", row.gpu_type);
  put(line, "why", row.hold ? "held by a person" : reasons[row.reason ?? ""] ?? row.reason);
  showLikely(line.querySelector("[data-start]"), row);
  line.querySelector("[data-wait]").dataset.since = row.submitted_ms;
  put(line, "wait", spanWords(Date.now() - row.submitted_ms));
  const link = line.querySelector("[data-name]");
  line.querySelector("[data-other]").hidden = row.id !== null;
  if (!link) return;
  link.hidden = row.id === null;
  if (row.id === null) return;
  link.href = `/jobs/${row.id}/`;
  if (link.textContent !== row.name) link.textContent = row.name;
}

function places() {
  let place = 0;
  for (const key of order) {
    const row = rows.get(key), line = shown.get(key);
    if (row?.tried) place += 1;
    if (line && row) put(line, "place", row.tried ? number(place) : "not now");
  }
}

function pending() {
  const now = [...body.rows].filter((line) => !line.classList.contains("left")).map((line) => line.dataset.key);
  const left = [...body.rows].length - now.length;
  const view = inView();
  const fresh = view.filter((key) => !shown.has(key)).length;
  const moved = now.join() !== view.filter((key) => shown.has(key)).join();
  return { left, fresh, moved };
}

const reading = () => body.matches(":hover") || body.contains(document.activeElement);

const fits = (row) => Object.entries(FIELDS).every(([name, field]) => !wanted[name] || row[field] === wanted[name]);
const narrowed = () => Object.keys(FIELDS).some((name) => wanted[name]);

// The keys of the rows wanted, in the order wanted.
function inView() {
  const keys = order.filter((key) => fits(rows.get(key)));
  return wanted.order === "age" ? keys.sort((a, b) => rows.get(a).submitted_ms - rows.get(b).submitted_ms) : keys;
}

// Brings the rows into the order wanted, with the fewest moves.
function settle() {
  const order = inView();
  for (const [key, line] of shown) {
    if (rows.has(key) && fits(rows.get(key))) continue;
    line.remove();
    shown.delete(key);
  }
  order.forEach((key, index) => {
    let line = shown.get(key);
    if (!line) {
      line = blank.cloneNode(true);
      line.dataset.key = key;
      fill(line, rows.get(key));
      line.classList.add("changed");
      shown.set(key, line);
    }
    if (body.rows[index] !== line) body.insertBefore(line, body.rows[index] ?? null);
  });
  places();
  held.hidden = true;
}

function show() {
  for (const [key, line] of shown) {
    const row = rows.get(key);
    line.classList.toggle("left", !row);
    if (row) fill(line, row);
  }
  places();
  const waiting = pending();
  if (!waiting.left && !waiting.fresh && !waiting.moved) held.hidden = true;
  else if (reading()) hold(waiting);
  else settle();
  figures();
}

function hold({ left, fresh, moved }) {
  const words = [fresh && `${fresh} new`, left && `${left} left`, moved && !fresh && !left && "order changed"];
  held.textContent = `Show: ${words.filter(Boolean).join(", ") || "order changed"}`;
  held.hidden = false;
}

function figures() {
  document.getElementById("total").textContent = number(total);
  const oldest = Math.min(...[...rows.values()].map((row) => row.submitted_ms));
  const longest = document.getElementById("longest");
  if (Number.isFinite(oldest)) longest.dataset.since = oldest;
  else delete longest.dataset.since;
  longest.textContent = Number.isFinite(oldest) ? spanWords(Date.now() - oldest) : "–";
  const seen = inView(), asked = seen.reduce((sum, key) => sum + rows.get(key).gpus, 0);
  document.getElementById("empty").hidden = order.length > 0;
  document.getElementById("none").hidden = order.length === 0 || seen.length > 0;
  table.hidden = seen.length === 0;
  choices("team", (row) => [row.team, row.team]);
  choices("type", (row) => [row.gpu_type, row.gpu_type]);
  choices("why", (row) => [row.reason ?? "", capital(reasons[row.reason ?? ""] ?? row.reason)]);
  document.getElementById("narrowed").textContent = narrowed() ? `${number(seen.length)} jobs for ${number(asked)} GPUs` : "";
  const cut = document.getElementById("cut");
  cut.hidden = total <= order.length;
  cut.textContent = `the first ${order.length}`;
}

const capital = (text) => text[0].toUpperCase() + text.slice(1);

// What there is to choose from; the choice made stays even when nobody of it waits any more.
function choices(name, of) {
  const select = narrow.elements[name];
  const found = new Map([...rows.values()].map(of).filter(([value]) => value));
  const chosen = select.selectedOptions[0];
  if (chosen.value && !found.has(chosen.value)) found.set(chosen.value, chosen.textContent);
  const sorted = [...found].sort((a, b) => (a[1] < b[1] ? -1 : 1));
  if (sorted.map(([value]) => value).join() === [...select.options].slice(1).map((option) => option.value).join()) return;
  select.replaceChildren(select.options[0], ...sorted.map(([value, words]) => new Option(words, value, false, value === wanted[name])));
}

// The address says what is shown, so that it can be passed on.
function remember() {
  const query = new URLSearchParams(Object.entries(wanted).filter(([, value]) => value)).toString();
  history.replaceState(null, "", query ? `?${query}` : location.pathname);
}

narrow.addEventListener("change", (event) => {
  wanted[event.target.name] = event.target.value;
  remember();
  settle();
  figures();
});
narrow.querySelector("[data-plain]").hidden = true;
narrow.addEventListener("submit", (event) => event.preventDefault());

function take(message) {
  for (const key of message.gone ?? []) rows.delete(key);
  for (const row of message.put) rows.set(row.key, row);
  if (message.order) order = message.order;
  total = message.total;
  document.getElementById("gpus").textContent = number(message.gpus);
  show();
}

held.addEventListener("click", () => { settle(); body.parentElement.focus(); });
body.addEventListener("pointerleave", () => { if (known && !reading()) show(); });
body.addEventListener("focusout", () => setTimeout(() => { if (known && !reading()) show(); }, 0));

new LiveView("/ws/queue/", {
  snapshot(message) { known = true; rows.clear(); take({ gone: [], ...message }); },
  delta: take,
  freshness: showFreshness(document.querySelector("[data-live]")),
});
