// Draws the cluster in device pixels: cells as pixels, words and marks over them. Shapes tell apart what colours do not.
import { CELL, PITCH, ROW } from "./layout.js";
import { paintWords } from "./lettering.js";
import { colourOf, keyOf, shapeOf } from "./looks.js";
import { Sheet, mixed, pixel } from "./pixels.js";

const DIM = 0.16;
const FLASH_MS = 900;
const WORDS_FROM = 11;   // a cell's size in CSS pixels from which words lie among the cells

// Where the drawing's units lie on the canvas, in device pixels.
export class Ruler {
  constructor(camera) {
    this.scale = camera.scale * camera.ratio;
    this.left = Math.round(camera.x * camera.ratio);
    this.top = Math.round(camera.y * camera.ratio);
    this.pitch = Math.round(PITCH * this.scale);
    this.cell = Math.max(2, Math.min(this.pitch - 1, Math.round(CELL * this.scale)));
    this.line = Math.max(1, Math.round(this.cell / 11));
  }

  x(units) { return this.left + Math.round(units * this.scale); }
  y(units) { return this.top + Math.round(units * this.scale); }
  length(units) { return Math.round(units * this.scale); }
}

function isLit(scene, job, key) {
  if (scene.job) return job?.id === scene.job;
  if (scene.team) return job?.team === scene.team;
  if (scene.only) return key === scene.only;
  return true;
}

export function overlaps(box, view) {
  return box.x < view.x + view.width && box.x + box.width > view.x && box.y < view.y + view.height && box.y + box.height > view.y;
}

// Cells and words are kept on a canvas of their own: a pointer that moves costs a copy, not 10,000 cells. Hosts that
// changed are drawn anew on it one by one.
export class Painter {
  constructor(canvas) {
    this.front = canvas.getContext("2d", { alpha: false });
    this.back = document.createElement("canvas").getContext("2d", { alpha: false });
    this.stale = true;
    this.changed = new Set();
  }

  resize(width, height) {
    for (const { canvas } of [this.front, this.back]) Object.assign(canvas, { width, height });
    this.sheet = new Sheet(width, height);
    this.stale = true;
  }

  // Answers whether something fades, so that the next frame differs even if nothing changes.
  paint(scene, camera, now) {
    if (this.stale) this.paintAll(scene, camera);
    else if (this.changed.size) this.paintChanged(scene, camera);
    this.stale = false;
    this.changed.clear();
    this.front.drawImage(this.back.canvas, 0, 0);
    return paintOver(this.front, scene, camera, now);
  }

  paintAll(scene, camera) {
    const view = camera.view(), ruler = new Ruler(camera), context = this.back, began = performance.now();
    this.sheet.clear(pixel(scene.palette.surface), ruler.cell, ruler.line);
    for (const rack of scene.layout.racks) {
      if (!overlaps(rack, view)) continue;
      for (const host of rack.hosts) {
        if (host.y + ROW >= view.y && host.y <= view.y + view.height) paintHost(this.sheet, scene, host, ruler);
      }
    }
    context.putImageData(this.sheet.image, 0, 0);
    paintRacks(context, scene, view, ruler);
    for (const rack of scene.layout.racks) if (overlaps(rack, view)) rack.hosts.forEach((host) => markHost(context, scene, host, ruler));
    paintWords(context, scene, camera, view, ruler);
    this.fullMs = performance.now() - began;
  }

  // Near enough for letters in the cells, the words lie over them: then everything is drawn again.
  paintChanged(scene, camera) {
    const ruler = new Ruler(camera), hosts = [...this.changed].map((name) => scene.layout.hosts.get(name)).filter(Boolean);
    if (hosts.length > 200 || ruler.cell / camera.ratio >= WORDS_FROM) return this.paintAll(scene, camera);
    for (const host of hosts) {
      paintHost(this.sheet, scene, host, ruler);
      const left = ruler.x(host.x), top = ruler.y(host.y);
      this.back.putImageData(this.sheet.image, 0, 0, left, top, host.size * ruler.pitch, ruler.cell);
      this.back.fillStyle = scene.palette.surface;
      this.back.fillRect(...gutter(host, ruler));
      markHost(this.back, scene, host, ruler);
    }
    return undefined;
  }
}

function paintHost(sheet, scene, host, ruler) {
  const node = scene.cluster.nodes.get(host.node), { by, palette } = scene;
  const x = ruler.x(host.x), y = ruler.y(host.y);
  for (let gpu = 0; gpu < host.size; gpu += 1) {
    const job = node.holders[gpu], key = keyOf(by, node, gpu, scene.nowS);
    const colour = pixel(colourOf(by, palette, key, job));
    const shown = isLit(scene, job, key) ? colour : mixed(colour, sheet.ground, DIM);
    sheet.put(sheet.sprite(shown, shapeOf(by, key)), x + gpu * ruler.pitch, y);
  }
}

function paintOver(context, scene, camera, now) {
  const ruler = new Ruler(camera);
  if (scene.job) paintGang(context, scene, ruler, camera.ratio);
  const fading = paintFlashes(context, scene, now, ruler, camera.ratio);
  paintMarks(context, scene, ruler, camera.ratio);
  return fading;
}

// A rectangle drawn with a line that lies inside it, of whole pixels.
function outline(context, x, y, width, height, line) {
  context.lineWidth = line;
  context.strokeRect(x + line / 2, y + line / 2, width - line, height - line);
}

function paintRacks(context, scene, view, ruler) {
  context.strokeStyle = scene.palette.line;
  for (const rack of scene.layout.racks) if (overlaps(rack, view)) rackOutline(context, rack, ruler, 1);
}

function rackOutline(context, rack, ruler, line) {
  outline(context, ruler.x(rack.x), ruler.y(rack.y), ruler.length(rack.width + 3), ruler.length(rack.height + 2), line);
}

const gutter = (host, ruler) => [ruler.x(host.rack.x + 1.5), ruler.y(host.y), Math.max(2, ruler.length(2.4)), ruler.cell];

// A host that is not READY carries a mark of its state's colour in the gutter before it.
function markHost(context, scene, host, ruler) {
  const { state } = scene.cluster.nodes.get(host.node);
  if (state === "READY") return;
  context.fillStyle = scene.palette.hosts[state];
  context.fillRect(...gutter(host, ruler));
}

function paintGang(context, scene, ruler, ratio) {
  context.strokeStyle = scene.palette.accent;
  const racks = new Set();
  for (const node of scene.cluster.nodes.values()) {
    const first = node.holders.findIndex((job) => job?.id === scene.job);
    if (first < 0) continue;
    const host = scene.layout.hosts.get(node.name), last = node.holders.findLastIndex((job) => job?.id === scene.job);
    racks.add(host.rack);
    cellsOutline(context, host, first, last, ruler, Math.max(1, Math.round(1.5 * ratio)));
  }
  for (const rack of racks) rackOutline(context, rack, ruler, Math.round(2 * ratio));
}

// Around the cells `first` to `last` of a host, in the gaps beside them.
function cellsOutline(context, host, first, last, ruler, line) {
  const out = Math.max(line, ruler.pitch - ruler.cell);
  const x = ruler.x(host.x) + first * ruler.pitch - out, y = ruler.y(host.y) - out;
  outline(context, x, y, (last - first) * ruler.pitch + ruler.cell + 2 * out, ruler.cell + 2 * out, line);
}

function paintFlashes(context, scene, now, ruler, ratio) {
  context.strokeStyle = scene.palette.accent;
  for (const [name, since] of scene.flashes) {
    const host = scene.layout.hosts.get(name);
    const age = (now - since) / FLASH_MS;
    if (age >= 1 || !host) {
      scene.flashes.delete(name);
      continue;
    }
    context.globalAlpha = Math.min(1, 1 - age);
    cellsOutline(context, host, 0, host.size - 1, ruler, Math.round(2 * ratio));
  }
  context.globalAlpha = 1;
  return scene.flashes.size > 0;
}

function paintMarks(context, scene, ruler, ratio) {
  const mark = (at, width, colour) => {
    const host = at && scene.layout.hosts.get(at.node);
    if (!host) return;
    context.strokeStyle = colour;
    const [first, last] = at.gpu === null ? [0, host.size - 1] : [at.gpu, at.gpu];
    cellsOutline(context, host, first, last, ruler, Math.round(width * ratio));
  };
  context.strokeStyle = scene.palette.accent;
  for (const rack of scene.layout.racks) {
    const chosen = rack.hosts.filter((host) => scene.selected.has(host.node));
    if (chosen.length && chosen.length === rack.hosts.length) rackOutline(context, rack, ruler, Math.round(2.5 * ratio));
    else for (const host of chosen) mark({ node: host.node, gpu: null }, 2, scene.palette.accent);
  }
  mark(scene.hover, 1.5, scene.palette.ink);
  mark(scene.pinned, 2.5, scene.palette.ink);
  mark(scene.cursor, 2.5, scene.palette.accent);
}
