// The map's words: zones, racks, and, from near enough, hosts and whose a GPU is. Sizes are CSS pixels.
import { initials } from "./palette.js";
import { overlaps } from "./paint.js";

const FONT = "system-ui, sans-serif";
const INITIALS_FROM = 13;     // a cell's size from which letters in it are legible
const HOST_NAMES_FROM = 11;
const RACK_NAMES_FROM = 30;

const clamp = (value, least, most) => Math.min(most, Math.max(least, value));

export function paintWords(context, scene, camera, view, ruler) {
  const { ratio, scale } = camera;
  const font = (size, weight = "") => { context.font = `${weight} ${size * ratio}px ${FONT}`; };
  context.textBaseline = "alphabetic";
  context.fillStyle = scene.palette.ink;
  font(clamp(13 * scale, 12, 16), "600");
  for (const zone of scene.layout.zones) {
    context.fillText(zone.name, Math.max(ruler.x(zone.x), 6 * ratio), ruler.y(zone.y + 16));
  }
  for (const rack of scene.layout.racks) {
    if (!overlaps(rack, view) || rack.width * scale < RACK_NAMES_FROM) continue;
    font(clamp(9.5 * scale, 9, 14));
    context.fillStyle = scene.palette.ink2;
    context.fillText(fitted(context, scene, rack, ruler.length(rack.width - 4)), ruler.x(rack.x + 4), ruler.y(rack.y + 12.5));
    if (ruler.cell / ratio >= HOST_NAMES_FROM) hostWords(context, scene, camera, rack, ruler, font);
  }
}

const fits = new Map();

// Measured once for each rack, size and width: measuring costs more than drawing.
function fitted(context, scene, rack, width) {
  const key = `${context.font} ${rack.az} ${rack.name} ${width} ${rack.hosts.length}`;
  if (!fits.has(key)) fits.set(key, measured(context, scene, rack, width));
  return fits.get(key);
}

function measured(context, scene, rack, width) {
  const types = new Set(rack.hosts.map((host) => scene.cluster.nodes.get(host.node).type));
  const whole = `${rack.name} · ${[...types].join(", ")}`;
  return context.measureText(whole).width <= width ? whole : rack.name;
}

function hostWords(context, scene, camera, rack, ruler, font) {
  const size = ruler.cell / camera.ratio;
  for (const host of rack.hosts) {
    const baseline = ruler.y(host.y) + Math.round(ruler.cell * 0.74);
    if (baseline < 0 || baseline > context.canvas.height + ruler.cell) continue;
    font(clamp(size * 0.5, 8, 12));
    context.fillStyle = scene.palette.ink2;
    context.fillText(host.node.match(/\d+$/)?.[0].slice(-3) ?? host.node.slice(-3), ruler.x(rack.x + 5), baseline);
    if (size >= INITIALS_FROM && (scene.by === "team" || scene.by === "job")) gpuWords(context, scene, host, ruler, baseline, font, size);
  }
}

// A filled cell takes two letters in the colour of the ground; the other shapes stay as they are.
function gpuWords(context, scene, host, ruler, baseline, font, size) {
  const node = scene.cluster.nodes.get(host.node);
  font(clamp(size * 0.5, 7, 13), "600");
  context.fillStyle = scene.palette.surface;
  context.textAlign = "center";
  for (let gpu = 0; gpu < host.size; gpu += 1) {
    const job = node.holders[gpu];
    if (job?.phase !== "RUNNING") continue;
    const letters = scene.by === "team" ? initials(job.team) : job.id.slice(-2);
    context.fillText(letters, ruler.x(host.x) + gpu * ruler.pitch + ruler.cell / 2, baseline);
  }
  context.textAlign = "start";
}
