// One live view over a WebSocket: a snapshot first, then deltas that each name the revision they start from.
// A gap, a silence or a broken line makes the view stale; a new snapshot heals it. The page says which it is.

const SILENCE_MS = 12000;   // the server sends a pulse every 5 s
const BACKOFF_MS = [500, 1000, 2000, 4000, 8000, 15000];

export class LiveView {
  // handlers: snapshot(message), delta(message), freshness("fresh" | "stale", sinceMs | null)
  constructor(path, handlers) {
    this.address = new URL(path, location.href);
    this.address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    this.handlers = handlers;
    this.revision = null;
    this.failures = 0;
    this.staleSince = null;
    this.open();
    setInterval(() => this.listenForSilence(), 1000);
    addEventListener("online", () => this.reopenNow());
    document.addEventListener("visibilitychange", () => { if (!document.hidden) this.listenForSilence(); });
  }

  open() {
    clearTimeout(this.waiting);
    this.waiting = null;
    this.heard = Date.now();
    const socket = new WebSocket(this.address);
    this.socket = socket;
    socket.onmessage = (event) => { if (socket === this.socket) this.take(JSON.parse(event.data)); };
    socket.onclose = (event) => { if (socket === this.socket) this.closed(event.code); };
  }

  closed(code) {
    this.revision = null;
    this.stale();
    if (code === 4401) return location.reload();   // signed out elsewhere: the sign-in page says so
    if (code === 4404) return;
    const wait = BACKOFF_MS[Math.min(this.failures, BACKOFF_MS.length - 1)];
    this.failures += 1;
    this.waiting = setTimeout(() => this.open(), wait * (0.75 + Math.random() / 2));
  }

  reopenNow() {
    if (this.waiting === null) return;
    this.failures = 0;
    this.open();
  }

  listenForSilence() {
    if (this.waiting !== null || Date.now() - this.heard < SILENCE_MS) return;
    const dead = this.socket;
    this.socket = null;
    dead.close();
    this.closed(0);
  }

  take(message) {
    this.heard = Date.now();
    if (message.type === "snapshot") {
      this.revision = message.revision;
      this.failures = 0;
      this.handlers.snapshot(message);
      this.fresh();
    } else if (message.type === "delta") {
      if (this.revision === null) return;
      if (message.from !== this.revision) return this.ask();
      this.revision = message.revision;
      this.handlers.delta(message);
    } else if (message.type === "stale") {
      this.revision = null;
      this.stale(message.since_ms ?? Date.now());
    } else if (message.type !== "pulse") {
      this.handlers.other?.(message);
    }
  }

  ask() {
    this.revision = null;
    this.stale();
    this.socket.send(JSON.stringify({ type: "resync" }));
  }

  fresh() {
    this.staleSince = null;
    this.handlers.freshness("fresh", null);
  }

  stale(since = Date.now()) {
    this.staleSince ??= since;
    this.handlers.freshness("stale", this.staleSince);
  }
}

export function showFreshness(badge) {
  return (state, since) => {
    badge.dataset.live = state;
    badge.textContent = state === "fresh" ? "Live" : `Stale since ${new Date(since).toTimeString().slice(0, 8)}`;
  };
}
