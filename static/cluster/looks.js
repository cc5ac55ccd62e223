// What a GPU looks like under each way to colour: a key that the legend explains, a colour and a shape.
import { STATES } from "./palette.js";

const MINUTE = 60, HOUR = 3600;

// How long until a GPU comes free by plan; the fuller a cell, the longer.
export const SPANS = [
  { key: "free", word: "Free now", shape: "hollow", most: 0 },
  { key: "10min", word: "within 10 min", shape: "level1", most: 10 * MINUTE },
  { key: "1h", word: "within 1 h", shape: "level2", most: HOUR },
  { key: "6h", word: "within 6 h", shape: "level3", most: 6 * HOUR },
  { key: "1d", word: "within a day", shape: "level4", most: 24 * HOUR },
  { key: "later", word: "later", shape: "full", most: Infinity },
  { key: "none", word: "not known", shape: "cross", most: Infinity },
];

export const KEPT = [
  { key: "team", word: "Reserved for a team", shape: "corner" },
  { key: "gang", word: "Promised to a waiting gang", shape: "half" },
  { key: "maintenance", word: "Maintenance planned", shape: "cross" },
  { key: "used", word: "In use, not kept", shape: "full" },
  { key: "open", word: "Free, not kept", shape: "hollow" },
];

export const HEALTH = [
  { key: "READY", word: "Ready", shape: "full" },
  { key: "SUSPECT", word: "Suspect: not heard of", shape: "half" },
  { key: "DOWN", word: "Down", shape: "cross" },
  { key: "QUARANTINED", word: "Quarantined", shape: "corner" },
  { key: "DRAINING", word: "Draining", shape: "level2" },
  { key: "CORDONED", word: "Cordoned", shape: "slash" },
  { key: "PROBATION", word: "On probation", shape: "level3" },
  { key: "FAULTY", word: "GPU faulty", shape: "dot" },
];

const index = (entries) => Object.fromEntries(entries.map((entry) => [entry.key, entry]));
const SPAN = index(SPANS), KEEPS = index(KEPT), CONDITION = index(HEALTH), STATE = index(STATES);

export const WAYS = { state: STATES, free: SPANS, kept: KEPT, health: HEALTH };

// The key of a GPU under `by`; for teams and jobs its state's, as shapes go by that.
export function keyOf(by, node, gpu, nowS) {
  if (by === "free") return spanOf(node, gpu, nowS);
  if (by === "kept") return node.kept[gpu] ?? (node.holders[gpu] ? "used" : "open");
  if (by === "health") return node.states[gpu] === "faulty" ? "FAULTY" : node.state;
  return node.states[gpu];
}

function spanOf(node, gpu, nowS) {
  const job = node.holders[gpu];
  if (!job) return node.states[gpu] === "free" ? "free" : "none";
  if (job.ends === null) return "none";
  const left = job.ends - nowS;
  return SPANS.find((span) => span.most > 0 && left <= span.most).key;
}

export function shapeOf(by, key) {
  if (by === "free") return SPAN[key].shape;
  if (by === "kept") return KEEPS[key].shape;
  if (by === "health") return CONDITION[key].shape;
  return STATE[key].shape;
}

export function colourOf(by, palette, key, job) {
  if (by === "free") return palette.spans[key];
  if (by === "kept") return palette.kept[key];
  if (by === "health") return palette.health[key];
  if (by === "state" || !job) return palette.states[key];
  return by === "team" ? palette.team(job.team) : palette.job(job.id);
}
