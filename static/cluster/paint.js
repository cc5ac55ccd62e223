// Draws the cluster in device pixels: every cell is made of whole-pixel rectangles, gathered by colour first, so that
// 10,000 of them are a few dozen changes of colour. Shapes tell states apart where colours do not.
import { CELL, PITCH, ROW } from "./layout.js";
import { SHAPE_OF } from "./palette.js";
import { paintWords } from "./lettering.js";

const DIM = 0.16;
const FLASH_MS = 900;

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

// Each draws one cell with the fill that is set; `clear` takes a rectangle out of it again.
const SHAPES = {
  full: (c, x, y, r) => c.fillRect(x, y, r.cell, r.cell),
  hollow: (c, x, y, r) => frame(c, x, y, r),
  half: (c, x, y, r) => { frame(c, x, y, r); c.fillRect(x, y + (r.cell >> 1), r.cell, r.cell - (r.cell >> 1)); },
  corner: (c, x, y, r) => { frame(c, x, y, r); staircase(c, x, y, r, (at) => [x + r.cell - 1 - at, at + 1]); },
  slash: (c, x, y, r) => { frame(c, x, y, r); staircase(c, x, y, r, (at) => [x + r.cell - 1 - at, r.line]); },
  cross: (c, x, y, r) => {
    const wide = Math.max(r.line, Math.round(r.cell / 5));
    staircase(c, x, y, r, (at) => [x + Math.min(at, r.cell - wide), wide]);
    staircase(c, x, y, r, (at) => [x + Math.max(0, r.cell - wide - at), wide]);
  },
  dot: (c, x, y, r) => {
    frame(c, x, y, r);
    const size = Math.max(1, Math.round(r.cell / 3)), inset = (r.cell - size) >> 1;
    c.fillRect(x + inset, y + inset, size, size);
  },
};

function frame(c, x, y, r) {
  c.fillRect(x, y, r.cell, r.line);
  c.fillRect(x, y + r.cell - r.line, r.cell, r.line);
  c.fillRect(x, y + r.line, r.line, r.cell - 2 * r.line);
  c.fillRect(x + r.cell - r.line, y + r.line, r.line, r.cell - 2 * r.line);
}

// One rectangle for each row of the cell: span(row) answers [x, width].
function staircase(c, x, y, r, span) {
  for (let at = 0; at < r.cell; at += 1) {
    const [from, width] = span(at);
    const start = Math.max(x, from);
    c.fillRect(start, y + at, Math.min(width, x + r.cell - start), 1);
  }
}

function colourOf({ palette, by }, job, state) {
  if (by === "state" || !job) return palette.states[state];
  return by === "team" ? palette.team(job.team) : palette.job(job.id);
}

function isLit(scene, job, state) {
  if (scene.job) return job?.id === scene.job;
  if (scene.team) return job?.team === scene.team;
  if (scene.onlyState) return state === scene.onlyState;
  return true;
}

// The cells in view by colour and dimness: flat lists of shape, x, y.
function gather(scene, view, ruler) {
  const groups = new Map();
  for (const rack of scene.layout.racks) {
    if (!overlaps(rack, view)) continue;
    for (const host of rack.hosts) {
      if (host.y + ROW < view.y || host.y > view.y + view.height) continue;
      const node = scene.cluster.nodes.get(host.node);
      const x = ruler.x(host.x), y = ruler.y(host.y);
      for (let gpu = 0; gpu < host.size; gpu += 1) {
        const state = node.states[gpu], job = node.holders[gpu];
        const lit = isLit(scene, job, state);
        const colour = colourOf(scene, job, state);
        const key = lit ? colour : `${colour} dim`;
        let group = groups.get(key);
        if (!group) groups.set(key, (group = { colour, lit, cells: [] }));
        group.cells.push(SHAPES[SHAPE_OF[state]], x + gpu * ruler.pitch, y);
      }
    }
  }
  return groups.values();
}

export function overlaps(box, view) {
  return box.x < view.x + view.width && box.x + box.width > view.x && box.y < view.y + view.height && box.y + box.height > view.y;
}

// Cells and words are kept on a canvas of their own: a pointer that moves costs a copy, not 10,000 cells.
export class Painter {
  constructor(canvas) {
    this.front = canvas.getContext("2d", { alpha: false });
    this.back = document.createElement("canvas").getContext("2d", { alpha: false });
    this.stale = true;
  }

  resize(width, height) {
    for (const { canvas } of [this.front, this.back]) Object.assign(canvas, { width, height });
    this.stale = true;
  }

  // Answers whether something fades, so that the next frame differs even if nothing changes.
  paint(scene, camera, now) {
    if (this.stale) paintCells(this.back, scene, camera);
    this.stale = false;
    this.front.drawImage(this.back.canvas, 0, 0);
    return paintOver(this.front, scene, camera, now);
  }
}

function paintCells(context, scene, camera) {
  const view = camera.view(), ruler = new Ruler(camera);
  context.fillStyle = scene.palette.surface;
  context.fillRect(0, 0, context.canvas.width, context.canvas.height);
  paintRacks(context, scene, view, ruler);
  for (const { colour, lit, cells } of gather(scene, view, ruler)) {
    context.globalAlpha = lit ? 1 : DIM;
    context.fillStyle = colour;
    for (let i = 0; i < cells.length; i += 3) cells[i](context, cells[i + 1], cells[i + 2], ruler);
  }
  context.globalAlpha = 1;
  paintHostStates(context, scene, view, ruler);
  paintWords(context, scene, camera, view, ruler);
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

// A host that is not READY carries a mark of its state's colour in the gutter before it, and a line below.
function paintHostStates(context, scene, view, ruler) {
  for (const rack of scene.layout.racks) {
    if (!overlaps(rack, view)) continue;
    for (const host of rack.hosts) {
      const { state } = scene.cluster.nodes.get(host.node);
      if (state === "READY") continue;
      context.fillStyle = scene.palette.hosts[state];
      context.fillRect(ruler.x(rack.x + 1.5), ruler.y(host.y), Math.max(2, ruler.length(2.4)), ruler.cell);
    }
  }
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
  mark(scene.hover, 1.5, scene.palette.ink);
  mark(scene.pinned, 2.5, scene.palette.ink);
  mark(scene.cursor, 2.5, scene.palette.accent);
}
