// What the colours and shapes mean now, with how many GPUs each stands for. Choosing one lights it alone.
import { WAYS, colourOf, keyOf } from "./looks.js";
import { initials } from "./palette.js";

const MOST_TEAMS = 12;

export class Legend {
  constructor(box, scene, act) {
    this.box = box;
    this.scene = scene;
    this.act = act;
    this.entries = new Map();
  }

  show() {
    const { by } = this.scene;
    this.reconcile(by === "team" ? this.teams() : by === "job" ? this.jobs() : this.keys(WAYS[by]));
  }

  keys(entries) {
    const { by, only, palette, cluster, nowS } = this.scene, counts = new Map();
    for (const node of cluster.nodes.values()) {
      for (let gpu = 0; gpu < node.states.length; gpu += 1) {
        const key = keyOf(by, node, gpu, nowS);
        counts.set(key, (counts.get(key) ?? 0) + 1);
      }
    }
    return entries.map(({ key, word, shape }) => ({
      key: `${by} ${key}`, word, count: counts.get(key) ?? 0, colour: colourOf(by, palette, key, null), shape,
      chosen: only === key,
      choose: () => this.only({ only: this.scene.only === key ? null : key }),
    })).filter(({ count, chosen }, index) => count || chosen || index === 0);
  }

  teams() {
    return this.scene.cluster.teams().slice(0, MOST_TEAMS).map(([team, count]) => ({
      key: `team ${team}`, word: team, count, colour: this.scene.palette.team(team), shape: "full", mark: initials(team),
      chosen: this.scene.team === team,
      choose: () => this.only({ team: this.scene.team === team ? null : team }),
    }));
  }

  jobs() {
    const all = [...this.scene.cluster.jobs.values()].sort((a, b) => b.gpus - a.gpus || (a.id < b.id ? -1 : 1));
    return all.slice(0, MOST_TEAMS).map((job) => ({
      key: `job ${job.id}`, word: `…${job.id.slice(-6)} of ${job.team}`, count: job.gpus, colour: this.scene.palette.job(job.id), shape: "full",
      chosen: this.scene.job === job.id,
      choose: () => this.act.light(this.scene.job === job.id ? null : job.id),
    }));
  }

  only(what) {
    Object.assign(this.scene, { team: null, only: null }, what);
    this.show();
    this.act.redraw();
  }

  // Entries are kept, not made anew: a button that has the focus, or is being pressed, stays the same button.
  reconcile(rows) {
    const wanted = new Set(rows.map((row) => row.key));
    for (const [key, button] of this.entries) {
      if (!wanted.has(key)) {
        button.remove();
        this.entries.delete(key);
      }
    }
    rows.forEach((row, index) => {
      const button = this.entries.get(row.key) ?? this.make(row.key);
      button.onclick = row.choose;
      button.setAttribute("aria-pressed", String(row.chosen));
      button.querySelector(".swatch").className = `swatch ${row.shape}`;
      button.querySelector(".swatch").style.color = row.colour;
      button.querySelector(".word").textContent = row.mark ? `${row.mark}  ${row.word}` : row.word;
      button.querySelector(".count").textContent = row.count.toLocaleString("en").replaceAll(",", "\u202f");
      if (this.box.children[index] !== button) this.box.insertBefore(button, this.box.children[index] ?? null);
    });
  }

  make(key) {
    const button = document.createElement("button");
    button.type = "button";
    for (const name of ["swatch", "word", "count"]) {
      const part = document.createElement("span");
      part.className = name;
      button.append(part);
    }
    this.entries.set(key, button);
    return button;
  }
}
