// Colours and patterns of the map, read from the tokens, so that both themes and the legend agree with it.

const TEAM_HUES = [212, 28, 158, 320, 82, 262, 188, 350, 120, 48, 290, 232];

// Every state has a shape of its own besides its colour: see paint.js and the legend.
export const STATES = [
  { key: "running", word: "Running", token: "--map-running", shape: "full" },
  { key: "starting", word: "Starting", token: "--state-starting", shape: "half" },
  { key: "stopping", word: "Stopping", token: "--state-stopping", shape: "corner" },
  { key: "free", word: "Free", token: "--line-strong", shape: "hollow" },
  { key: "closed", word: "Free, but closed", token: "--state-cordoned", shape: "slash" },
  { key: "down", word: "On a lost host", token: "--state-failed", shape: "cross" },
  { key: "faulty", word: "Faulty", token: "--state-failed", shape: "dot" },
];

const SPAN_TOKENS = [
  ["free", "--line-strong"], ["10min", "--map-span-1"], ["1h", "--map-span-2"], ["6h", "--map-span-3"],
  ["1d", "--map-span-4"], ["later", "--map-span-5"], ["none", "--state-cancelled"],
];

export class Palette {
  constructor() {
    this.probe = document.createElement("span");
    this.probe.hidden = true;
    document.body.append(this.probe);
    this.read();
  }

  // light-dark() resolves only on an element, so each token is asked of one.
  resolve(token) {
    this.probe.style.color = `var(${token})`;
    return getComputedStyle(this.probe).color;
  }

  read() {
    this.dark = this.isDark();
    this.states = Object.fromEntries(STATES.map(({ key, token }) => [key, this.resolve(token)]));
    this.ink = this.resolve("--ink");
    this.ink2 = this.resolve("--ink-2");
    this.line = this.resolve("--line");
    this.surface = this.resolve("--surface");
    this.sunken = this.resolve("--sunken");
    this.accent = this.resolve("--accent");
    this.hosts = {
      DOWN: this.resolve("--state-failed"),
      SUSPECT: this.resolve("--state-suspect"),
      QUARANTINED: this.resolve("--state-quarantined"),
      DRAINING: this.resolve("--state-stopping"),
      CORDONED: this.resolve("--state-cordoned"),
      PROBATION: this.resolve("--state-probation"),
    };
    this.health = { ...this.hosts, READY: this.resolve("--map-running"), FAULTY: this.resolve("--state-failed") };
    this.spans = Object.fromEntries(SPAN_TOKENS.map(([key, token]) => [key, this.resolve(token)]));
    this.kept = {
      team: this.resolve("--accent"),
      gang: this.resolve("--state-starting"),
      maintenance: this.resolve("--state-cordoned"),
      used: this.resolve("--line"),
      open: this.resolve("--line-strong"),
    };
    this.teams = new Map();
    this.jobs = new Map();
  }

  isDark() {
    const theme = document.documentElement.dataset.theme;
    return theme === "dark" || (theme !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  }

  // Teams keep the colour that they were first given for as long as the page is open.
  team(name) {
    let colour = this.teams.get(name);
    if (!colour) {
      const index = this.teams.size;
      const hue = TEAM_HUES[index % TEAM_HUES.length];
      const light = (this.dark ? 68 : 44) + (Math.floor(index / TEAM_HUES.length) % 2 ? -12 : 0);
      colour = `hsl(${hue} ${this.dark ? 48 : 52}% ${light}%)`;
      this.teams.set(name, colour);
    }
    return colour;
  }

  job(id) {
    let colour = this.jobs.get(id);
    if (!colour) this.jobs.set(id, (colour = this.hashed(id)));
    return colour;
  }

  hashed(id) {
    let hash = 2166136261;
    for (let i = 0; i < id.length; i += 1) hash = Math.imul(hash ^ id.charCodeAt(i), 16777619);
    const hue = (hash >>> 0) % 360, tone = ((hash >>> 10) & 3) * 5;
    return `hsl(${hue} 46% ${(this.dark ? 58 : 38) + tone}%)`;
  }
}

// Two letters by which a team or a job is told apart where colour is not enough.
export function initials(name) {
  const words = name.split(/[^A-Za-z0-9]+/).filter(Boolean);
  return (words.length > 1 ? words[words.length - 2][0] + words[words.length - 1][0] : name.slice(0, 2)).toUpperCase();
}
