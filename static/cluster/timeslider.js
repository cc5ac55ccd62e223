// The map of an earlier moment: asked of the server when the hand rests, shown until one comes back to now.

const STEP_MS = 5 * 60_000;
const DAYS_MS = 7 * 86_400_000;
const REST_MS = 120;

export class TimeSlider {
  constructor(on) {
    this.on = on;
    this.shown = null;
    this.range = document.getElementById("when");
    this.label = document.getElementById("when-words");
    this.back = document.getElementById("when-now");
    this.range.max = String(DAYS_MS / STEP_MS);
    this.range.value = this.range.max;
    this.range.addEventListener("input", () => this.moved());
    this.back.addEventListener("click", () => this.toNow());
  }

  moved() {
    const steps = Number(this.range.max) - Number(this.range.value);
    if (steps === 0) return this.toNow();
    const at = new Date(Math.floor(Date.now() / STEP_MS) * STEP_MS - (steps - 1) * STEP_MS);
    this.say(at);
    clearTimeout(this.resting);
    this.resting = setTimeout(() => this.ask(at), REST_MS);
    return undefined;
  }

  show(text) {
    const at = new Date(text);
    if (Number.isNaN(at.getTime())) return;
    this.range.value = String(Number(this.range.max) - Math.ceil((Date.now() - at) / STEP_MS));
    this.say(at);
    this.ask(at);
  }

  say(at) {
    this.label.textContent = at.toLocaleString("en-GB", { weekday: "short", day: "2-digit", month: "short", hour: "2-digit", minute: "2-digit" });
    this.label.title = `${at.toISOString().slice(0, 16).replace("T", " ")} UTC`;
    this.range.setAttribute("aria-valuetext", this.label.textContent);
    document.body.classList.add("past");
    this.back.hidden = false;
  }

  async ask(at) {
    this.wanted = at;
    const answer = await fetch(`/api/v1/cluster/map?at=${encodeURIComponent(at.toISOString())}`).catch(() => null);
    if (this.wanted !== at) return;
    if (!answer?.ok) {
      this.label.textContent = "That moment could not be read.";
      return;
    }
    const message = await answer.json();
    if (this.wanted !== at) return;
    this.shown = at.toISOString();
    this.on.past(message);
    this.on.moved();
  }

  toNow() {
    clearTimeout(this.resting);
    this.wanted = this.shown = null;
    this.range.value = this.range.max;
    this.label.textContent = "now";
    this.label.title = "";
    this.range.setAttribute("aria-valuetext", "now");
    this.back.hidden = true;
    document.body.classList.remove("past");
    this.on.present();
  }
}
