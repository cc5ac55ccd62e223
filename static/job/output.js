// The output of a job's ranks: chosen by attempt and rank, followed while it grows, or read from the start at leisure.
import { Screen } from "./screen.js";

const TAIL = 131072, PART = 262144;
const LOOK_AGAIN_MS = 10000;   // also tells the portal that somebody looks, so that agents ship at once
const RETRY_MS = 5000;

const root = document.getElementById("output");
const at = (name) => root.querySelector(`[data-${name}]`);
const screen = new Screen(at("log"));
const attemptBox = at("attempt"), rankBox = at("rank"), followButton = at("follow"), findBox = at("find");

let attempts = [], next = 0, size = 0, over = false, follows = true, loading = null, current = -1, failed = false;
let generation = 0, again = false;   // again: something came while a part was on its way

// --- which logs there are

async function lookForLogs() {
  const response = await fetch(root.dataset.index);
  if (!response.ok) throw new Error(String(response.status));
  const newest = attempts[0]?.number;
  attempts = (await response.json()).attempts;
  for (const tools of root.querySelectorAll("[data-tools]")) tools.hidden = !attempts.length;
  at("log").hidden = at("note").hidden = !attempts.length;
  at("empty").hidden = attempts.length > 0;
  if (!attempts.length) return empty("No output", "Nothing that its ranks wrote has been kept so far. Hosts of a simulated fleet write none.");
  const wanted = newest !== attempts[0].number && follows ? attempts[0].number : Number(attemptBox.value);
  fill(attemptBox, attempts.map((one) => one.number), wanted);
  fillRanks();
  return undefined;
}

function fill(box, values, wanted) {
  const kept = values.includes(wanted) ? wanted : values[0];
  if (box.options.length !== values.length || values.some((value, i) => box.options[i].value !== String(value))) {
    box.replaceChildren(...values.map((value) => new Option(String(value), String(value))));
  }
  box.value = String(kept);
}

function fillRanks() {
  const chosen = attempts.find((one) => one.number === Number(attemptBox.value)) ?? attempts[0];
  fill(rankBox, chosen.ranks, Number(rankBox.value));
  const address = `${root.dataset.index}${attemptBox.value}/${rankBox.value}/`;
  if (at("download").getAttribute("href") !== address) {
    at("download").href = address;
    open(follows);
  }
}

function empty(title, words) {
  at("empty-title").textContent = title;
  at("empty-words").textContent = words;
}

// --- reading one

function open(following) {
  generation += 1;
  loading = null;
  next = size = 0;
  over = false;
  screen.clear();
  setFollow(following);
  more(following ? { tail: TAIL } : { offset: 0 });
}

async function more(where = { offset: next }) {
  if (!attempts.length) return;
  if (loading !== null) { again = true; return; }
  again = false;
  const mine = generation;
  loading = ask(where);
  try {
    const part = await loading;
    if (mine === generation) take(part, where);
    failed = false;
  } catch (error) {
    if (mine === generation) complain(error);
  } finally {
    if (mine === generation) loading = null;
  }
  if (mine !== generation || failed) return;
  tell();
  if (follows && (again || next < size)) more();
}

async function ask(where) {
  const query = new URLSearchParams({ attempt: attemptBox.value, rank: rankBox.value, limit: PART, ...where });
  const response = await fetch(`${root.dataset.text}?${query}`);
  if (!response.ok) throw new Error(response.status === 503 ? "storage" : String(response.status));
  return response.json();
}

function take(part, where) {
  if ("tail" in where && part.offset > 0) screen.note(`${bytes(part.offset)} before this are not shown`);
  else if (part.skipped > 0) screen.note(`${bytes(part.skipped)} are not kept`);
  next = part.next_offset;
  size = part.size;
  over = part.over;
  screen.add(part.text);
  if (follows) screen.toBottom();
  count();
}

function complain(error) {
  failed = true;
  at("note").textContent = error.message === "storage"
    ? "The output cannot be read now: object storage does not answer. Trying again."
    : "The output could not be read. Trying again.";
  setTimeout(() => more(next || !follows ? { offset: next } : { tail: TAIL }), RETRY_MS);
}

function tell() {
  const rest = size - next;
  const state = over && rest <= 0 ? "the rank has ended" : follows ? "following" : rest > 0 ? `paused, ${bytes(rest)} more` : "paused";
  at("note").textContent = `${bytes(size)} written, ${state}`;
}

function bytes(n) {
  if (n < 1000) return `${n} byte${n === 1 ? "" : "s"}`;
  for (const [unit, per] of [["kB", 1e3], ["MB", 1e6], ["GB", 1e9]]) if (n < per * 1000 || unit === "GB") return `${(n / per).toFixed(1)} ${unit}`;
  return "";
}

// --- following, pausing, finding

function setFollow(on) {
  follows = on;
  followButton.setAttribute("aria-pressed", String(on));
  followButton.textContent = on ? "Following" : "Follow";
}

function pause() {
  if (!follows) return;
  setFollow(false);
  tell();
}

followButton.addEventListener("click", () => {
  if (follows) return pause();
  // Whoever is far behind is taken to the end rather than through all of it.
  if (size - next > TAIL) return open(true);
  setFollow(true);
  screen.toBottom();
  return more();
});
at("first").addEventListener("click", () => { open(false); at("log").focus(); });
attemptBox.addEventListener("change", fillRanks);
rankBox.addEventListener("change", fillRanks);

at("log").addEventListener("wheel", (event) => { if (event.deltaY < 0) pause(); }, { passive: true });
at("log").addEventListener("keydown", (event) => { if (["ArrowUp", "PageUp", "Home"].includes(event.key)) pause(); });
at("log").addEventListener("touchmove", () => { if (!screen.atBottom) pause(); }, { passive: true });
at("log").addEventListener("scroll", () => { if (!follows && screen.atBottom && next < size) more(); }, { passive: true });

function count() {
  const hits = screen.hits();
  if (current >= hits.length) current = -1;
  at("found").textContent = screen.wanted ? (hits.length ? `${current < 0 ? "" : `${current + 1} of `}${hits.length}` : "none") : "";
  for (const button of root.querySelectorAll("[data-step]")) button.disabled = !hits.length;
  return hits;
}

function step(by) {
  const hits = count();
  if (!hits.length) return;
  pause();
  hits[current]?.classList.remove("current");
  current = current < 0 ? (by > 0 ? 0 : hits.length - 1) : (current + by + hits.length) % hits.length;
  hits[current].classList.add("current");
  hits[current].scrollIntoView({ block: "center" });
  count();
}

findBox.addEventListener("input", () => { current = -1; screen.find(findBox.value.trim()); count(); });
findBox.addEventListener("keydown", (event) => {
  if (event.key === "Enter") { event.preventDefault(); step(event.shiftKey ? -1 : 1); }
});
for (const button of root.querySelectorAll("[data-step]")) button.addEventListener("click", () => step(Number(button.dataset.step)));

// --- news

document.addEventListener("job:logged", (event) => {
  const { attempt, rank } = event.detail;
  const known = attempts.find((one) => one.number === attempt)?.ranks.includes(rank);
  if (!known) look();
  else if (follows && String(attempt) === attemptBox.value && String(rank) === rankBox.value) more();
});

async function look() {
  try {
    await lookForLogs();
  } catch {
    empty("The output cannot be looked for", "The portal did not answer. It is asked again.");
  }
}

setInterval(async () => {
  if (document.hidden) return;
  const done = over && next >= size;
  if (!done || root.dataset.over !== "yes") await look();
  if (!done && !failed && (follows || next >= size)) more();
}, LOOK_AGAIN_MS);
look();
