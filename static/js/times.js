// Times in the reader's own zone, and spans that count on while the page is open.

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const SOON_MS = 15000;
const two = (n) => String(n).padStart(2, "0");

// The server writes times in the zone of this cookie; on the first visit it cannot know it yet.
function tellZone() {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
  document.cookie = `zone=${zone}; path=/; max-age=31536000; samesite=lax`;
  for (const name of document.querySelectorAll("[data-zone-name]")) name.textContent = zone;
}

export function spanWords(ms) {
  const s = Math.max(0, Math.floor(ms / 1000));
  const m = Math.floor(s / 60), h = Math.floor(s / 3600), d = Math.floor(s / 86400);
  if (d) return `${d} d ${h % 24} h`;
  if (h) return `${h} h ${two(m % 60)} min`;
  if (m) return `${m} min ${two(s % 60)} s`;
  return `${s} s`;
}

// How long until an expected moment; 0 stands for any moment.
export function untilWords(at, now = Date.now()) {
  return at - now < SOON_MS ? "any moment" : `in ${spanWords(at - now)}`;
}

const short = (at) => `${two(at.getDate())} ${MONTHS[at.getMonth()]} ${two(at.getHours())}:${two(at.getMinutes())}`;

// An expected start in a cell of its own: counted down, with the moment itself on hover.
export function showExpected(cell, at) {
  if (cell.dataset.told === String(at)) return;
  cell.dataset.told = at;
  const span = document.createElement("span");
  span.className = at === null ? "quiet" : "figures nowrap";
  span.textContent = at === null ? "unknown" : untilWords(at);
  if (at) {
    span.dataset.until = at;
    span.title = short(new Date(at));
  }
  cell.replaceChildren(span);
}

// When a job starts: likely by, and nine times in ten by; else at the latest, by limits.
export function showLikely(cell, row) {
  if (row.p50_ms === null || row.p90_ms === 0) {
    showExpected(cell, row.p50_ms === null ? row.eta_ms : 0);
    return;
  }
  const told = `${row.p50_ms} ${row.p90_ms}`;
  if (cell.dataset.told === told) return;
  const half = document.createElement("span");
  const most = document.createElement("span");
  showExpected(half, row.p50_ms);
  showExpected(most, row.p90_ms);
  const late = document.createElement("span");
  late.className = "quiet small";
  late.append("90 %: ", ...most.childNodes);
  const likely = document.createElement("span");
  likely.className = "likely";
  likely.append(...half.childNodes, " ", late);
  cell.dataset.told = told;
  cell.replaceChildren(likely);
}

export function localise(root = document) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    time.textContent =
      `${two(at.getDate())} ${MONTHS[at.getMonth()]} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  }
}

function countOn() {
  const now = Date.now();
  for (const span of document.querySelectorAll("[data-since]")) {
    span.textContent = spanWords(now - Number(span.dataset.since));
  }
  for (const span of document.querySelectorAll("[data-until]")) span.textContent = untilWords(Number(span.dataset.until), now);
}

export function keepTimes() {
  tellZone();
  localise();
  countOn();
  setInterval(countOn, 1000);
}
