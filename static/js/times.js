// Times in the reader's own zone, and spans that count on while the page is open.

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
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
}

export function keepTimes() {
  tellZone();
  localise();
  countOn();
  setInterval(countOn, 1000);
}
