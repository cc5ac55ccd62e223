// Around the map: figures, legend, hover card, panel, search, and the words that a screen reader is told.
import { Legend } from "./legend.js";
import { Panel } from "./panel.js";
import { Search } from "./search.js";

const number = (n) => n.toLocaleString("en").replaceAll(",", "\u202f");
const byId = (id) => document.getElementById(id);

export class Surroundings {
  constructor(scene, act) {
    this.scene = scene;
    this.act = act;
    this.card = byId("card");
    this.gang = byId("gang");
    this.panel = new Panel(byId("panel"), act);
    this.legend = new Legend(byId("legend"), scene, act);
    this.search = new Search(byId("map-search"), byId("found"), scene, act);
    for (const button of document.querySelectorAll("[data-by]")) {
      button.addEventListener("click", () => { act.recolour(button.dataset.by); this.follow(); });
    }
    byId("zoom-in").addEventListener("click", () => act.zoom(1.5));
    byId("zoom-out").addEventListener("click", () => act.zoom(1 / 1.5));
    byId("zoom-fit").addEventListener("click", () => act.fit());
  }

  loaded() {
    byId("waiting").hidden = true;
    byId("nothing").hidden = this.scene.cluster.nodes.size > 0;
    this.panel.refresh();
    this.follow();
  }

  changed(message, touched) {
    byId("nothing").hidden = this.scene.cluster.nodes.size > 0;
    if (this.scene.pinned && touched.includes(this.scene.pinned.node)) this.panel.refresh();
    this.follow();
  }

  // Everything that is derived from the model, again.
  follow() {
    this.figures();
    this.legend.show();
    this.showGang();
    if (this.lastHover) this.fillCard(this.lastHover);
    for (const button of document.querySelectorAll("[data-by]")) {
      button.setAttribute("aria-pressed", String(button.dataset.by === this.scene.by));
    }
  }

  figures() {
    const { byType } = this.scene.cluster.counts();
    for (const [type, { total, free, used }] of byType) {
      const tile = document.querySelector(`[data-type="${CSS.escape(type)}"]`);
      if (!tile) continue;
      tile.querySelector("[data-free]").textContent = number(free);
      tile.querySelector("[data-used]").textContent = number(used);
      tile.querySelector("[data-total]").textContent = number(total);
    }
    const troubled = [...this.scene.cluster.hostStates()].filter(([state]) => state !== "READY");
    const all = troubled.reduce((sum, [, n]) => sum + n, 0);
    byId("troubled").textContent = number(all);
    byId("troubled-words").textContent = all
      ? troubled.map(([state, n]) => `${n} ${state.toLowerCase()}`).join(", ")
      : this.scene.cluster.nodes.size ? "every host is ready" : "no hosts yet";
  }

  // The map's data holds no names: whoever may know one hands it over.
  name(job, name) {
    if (!name) return;
    this.gang.dataset.job = job;
    this.gang.dataset.name = name;
  }

  showGang() {
    const { job } = this.scene;
    this.gang.hidden = !job;
    if (!job) return;
    const found = this.scene.cluster.gang(job);
    const link = this.gang.querySelector("a");
    link.href = `/jobs/${encodeURIComponent(job)}/`;
    link.textContent = this.gang.dataset.job === job && this.gang.dataset.name ? this.gang.dataset.name : job;
    const words = this.gang.querySelector("[data-gang]");
    const text = found.job
      ? `${found.job.phase} on ${count(found.hosts.length, "host")} in ${count(found.racks.length, "rack")}` +
        ` (${found.racks.join("; ")}): ${count(found.gpus, "GPU")} of ${found.job.team}`
      : "holds no GPUs now";
    if (words.textContent !== text) words.textContent = text;
    this.gang.dataset.phase = found.job?.phase ?? "";
    this.gang.dataset.hosts = String(found.hosts.length);
    this.gang.dataset.racks = String(found.racks.length);
    this.gang.dataset.gpus = String(found.gpus);
  }

  hover(at, x, y) {
    this.lastHover = at;
    this.card.hidden = !at;
    if (!at) return;
    this.fillCard(at);
    const frame = this.card.parentElement.getBoundingClientRect();
    const { offsetWidth: width, offsetHeight: height } = this.card;
    const left = x + 16 + width > frame.width ? x - 12 - width : x + 16;
    const top = y + 16 + height > frame.height ? y - 12 - height : y + 16;
    this.card.style.translate = `${Math.max(4, left)}px ${Math.max(4, top)}px`;
  }

  fillCard(at) {
    const lines = this.words(at);
    this.card.replaceChildren(...lines.map((line, index) => {
      const row = document.createElement(index === 0 ? "strong" : "span");
      row.textContent = line;
      return row;
    }));
  }

  // What a GPU or a host is, as lines of text: for the hover card and for a screen reader.
  words({ node: name, gpu, az, rack }) {
    if (!name) return this.wordsOfGroup(az, rack);
    const node = this.scene.cluster.nodes.get(name);
    if (!node) return [name, "is gone"];
    const where = `${node.az} · ${node.rack} · ${node.states.length} × ${node.type} · ${node.state}`;
    const kept = (this.scene.cluster.holdsOf.get(name) ?? []).map(holdWords);
    if (gpu === null) {
      const free = node.states.filter((state) => state === "free").length;
      return [name, where, `${free} of ${node.states.length} GPUs free`, ...kept];
    }
    const job = node.holders[gpu], state = node.states[gpu];
    const doing = job
      ? [`${job.phase} · ${job.team}`, `${count(job.gpus, "GPU")} · P${job.priority} · ${job.id}`, ...endWords(job, this.scene.nowS)]
      : [{ free: "Free", closed: "Free, but the host takes no new work", down: "Its host is not heard of", faulty: "Faulty" }[state]];
    return [`${name} · GPU ${gpu}`, ...doing, where, ...kept];
  }

  wordsOfGroup(az, rack) {
    const nodes = [...this.scene.cluster.nodes.values()].filter((node) => node.az === az && (!rack || node.rack === rack));
    const free = nodes.reduce((sum, node) => sum + node.states.filter((state) => state === "free").length, 0);
    const total = nodes.reduce((sum, node) => sum + node.states.length, 0);
    const lines = [rack ? `${az} · ${rack}` : az, `${count(nodes.length, "host")}, ${number(free)} of ${number(total)} GPUs free`];
    const byType = new Map();
    for (const node of nodes) byType.set(node.type, [...(byType.get(node.type) ?? []), node.name]);
    if (rack) for (const [type, names] of byType) lines.push(`largest gang now: ${number(this.scene.cluster.largestGang(names))} ${type}`);
    return lines;
  }

  say(at) {
    byId("said").textContent = this.words(at).join(". ");
    this.card.hidden = true;
  }

  showPanel(at) {
    this.panel.show(at);
  }
}

function spanWords(seconds) {
  if (seconds < 60) return "any moment";
  if (seconds < 3600) return `in ${Math.round(seconds / 60)} min`;
  return seconds < 172_800 ? `in ${(seconds / 3600).toFixed(1)} h` : `in ${Math.round(seconds / 86_400)} d`;
}

const endWords = (job, nowS) => (job.ends === null ? [] : [`comes free ${spanWords(job.ends - nowS)} at the latest`]);

function holdWords({ kind, team, gpus, start }) {
  const from = new Date(start * 1000).toLocaleString("en-GB", { weekday: "short", hour: "2-digit", minute: "2-digit" });
  if (kind === "maintenance") return `maintenance from ${from}`;
  return `${count(gpus, "GPU")} ${kind === "team" ? "reserved for" : "promised to a job of"} ${team} from ${from}`;
}

const count = (n, word) => `${number(n)} ${word}${n === 1 ? "" : "s"}`;
