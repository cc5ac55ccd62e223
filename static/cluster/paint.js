// Draws the cluster. Cells are gathered by colour and shape first: 10,000 of them are a few dozen fills.
import { CELL, PITCH, ROW } from "./layout.js";
import { SHAPE_OF, initials } from "./palette.js";

const DIM = 0.16;
const FLASH_MS = 900;
const TEXT_FROM = 15;        // pixels of a cell from which its text is legible
const HOST_NAMES_FROM = 12;

// Adds one cell's outline to a path. Every shape stays apart from the others without its colour.
const SHAPES = {
  full: (path, x, y) => path.rect(x, y, CELL, CELL),
  half: (path, x, y) => { frame(path, x, y); path.rect(x, y + CELL / 2, CELL, CELL / 2); },
  corner: (path, x, y) => { frame(path, x, y); path.moveTo(x + CELL, y); path.lineTo(x + CELL, y + CELL); path.lineTo(x, y + CELL); path.closePath(); },
  hollow: (path, x, y) => frame(path, x, y),
  slash: (path, x, y) => { frame(path, x, y); bar(path, x, y); },
  cross: (path, x, y) => { bar(path, x, y); path.moveTo(x, y); path.lineTo(x + 1.6, y); path.lineTo(x + CELL, y + CELL - 1.6); path.lineTo(x + CELL, y + CELL); path.lineTo(x + CELL - 1.6, y + CELL); path.lineTo(x, y + 1.6); path.closePath(); },
  dot: (path, x, y) => { frame(path, x, y); path.rect(x + 2.6, y + 2.6, CELL - 5.2, CELL - 5.2); },
};

function frame(path, x, y) {
  const w = 1;
  path.rect(x, y, CELL, w);
  path.rect(x, y + CELL - w, CELL, w);
  path.rect(x, y + w, w, CELL - 2 * w);
  path.rect(x + CELL - w, y + w, w, CELL - 2 * w);
}

function bar(path, x, y) {
  path.moveTo(x, y + CELL);
  path.lineTo(x, y + CELL - 1.6);
  path.lineTo(x + CELL - 1.6, y);
  path.lineTo(x + CELL, y);
  path.lineTo(x + CELL, y + 1.6);
  path.lineTo(x + 1.6, y + CELL);
  path.closePath();
}

export function colourOf(scene, node, gpu, state) {
  const { palette, by } = scene;
  const job = by === "state" ? null : scene.cluster.jobAt(node, gpu);
  if (!job) return palette.states[state];
  return by === "team" ? palette.team(job.team) : palette.job(job.id);
}

function isLit(scene, node, gpu) {
  if (scene.job) return node.slots[gpu] === scene.job;
  if (scene.team) return scene.cluster.jobAt(node, gpu)?.team === scene.team;
  if (scene.onlyState) return scene.cluster.stateOf(node, gpu) === scene.onlyState;
  return true;
}

// One path for each colour and dimness; what lies outside the view is left out.
function gather(scene, view) {
  const groups = new Map();
  for (const rack of scene.layout.racks) {
    if (!overlaps(rack, view)) continue;
    for (const host of rack.hosts) {
      if (host.y + ROW < view.y || host.y > view.y + view.height) continue;
      const node = scene.cluster.nodes.get(host.node);
      for (let gpu = 0; gpu < host.size; gpu += 1) {
        const state = scene.cluster.stateOf(node, gpu);
        const lit = isLit(scene, node, gpu);
        const colour = colourOf(scene, node, gpu, state);
        const key = lit ? colour : `${colour} dim`;
        let group = groups.get(key);
        if (!group) groups.set(key, (group = { colour, lit, path: new Path2D() }));
        SHAPES[SHAPE_OF[state]](group.path, host.x + gpu * PITCH, host.y + 1);
      }
    }
  }
  return groups.values();
}

function overlaps(box, view) {
  return box.x < view.x + view.width && box.x + box.width > view.x && box.y < view.y + view.height && box.y + box.height > view.y;
}

export function paint(context, scene, camera, now) {
  const { palette } = scene;
  const scale = camera.scale, pixel = 1 / scale;
  const view = camera.view();
  context.setTransform(camera.ratio, 0, 0, camera.ratio, 0, 0);
  context.fillStyle = palette.surface;
  context.fillRect(0, 0, camera.width, camera.height);
  context.setTransform(camera.ratio * scale, 0, 0, camera.ratio * scale, camera.x * camera.ratio, camera.y * camera.ratio);
  paintRacks(context, scene, view, pixel);
  for (const { colour, lit, path } of gather(scene, view)) {
    context.globalAlpha = lit ? 1 : DIM;
    context.fillStyle = colour;
    context.fill(path);
  }
  context.globalAlpha = 1;
  paintHostStates(context, scene, view, pixel);
  if (scene.job) paintGang(context, scene, pixel);
  const flashing = paintFlashes(context, scene, now, pixel);
  paintMarks(context, scene, pixel);
  context.setTransform(camera.ratio, 0, 0, camera.ratio, 0, 0);
  paintWords(context, scene, camera, view);
  return flashing;
}

function paintRacks(context, scene, view, pixel) {
  context.lineWidth = pixel;
  context.strokeStyle = scene.palette.line;
  for (const rack of scene.layout.racks) {
    if (overlaps(rack, view)) context.strokeRect(rack.x, rack.y, rack.width + 2, rack.height + 1);
  }
}

// A host that is not READY carries a tick of its state's colour and letter in the gutter before it.
function paintHostStates(context, scene, view, pixel) {
  for (const rack of scene.layout.racks) {
    if (!overlaps(rack, view)) continue;
    for (const host of rack.hosts) {
      const { state } = scene.cluster.nodes.get(host.node);
      if (state === "READY") continue;
      context.fillStyle = scene.palette.hosts[state];
      context.fillRect(rack.x + 1.5, host.y + 1, Math.max(3, 2 * pixel), CELL);
      context.fillRect(host.x, host.y + CELL + 1.2, host.size * PITCH - (PITCH - CELL), Math.max(0.9, pixel));
    }
  }
}

function paintGang(context, scene, pixel) {
  context.strokeStyle = scene.palette.accent;
  context.lineWidth = Math.max(1.2, 1.5 * pixel);
  const racks = new Set();
  for (const node of scene.cluster.nodes.values()) {
    const first = node.slots.indexOf(scene.job);
    if (first < 0) continue;
    const host = scene.layout.hosts.get(node.name);
    racks.add(host.rack);
    node.slots.forEach((slot, gpu) => {
      if (slot === scene.job) context.strokeRect(host.x + gpu * PITCH - 0.5, host.y + 0.5, CELL + 1, CELL + 1);
    });
  }
  context.lineWidth = 2 * pixel;
  for (const rack of racks) context.strokeRect(rack.x, rack.y, rack.width + 2, rack.height + 1);
}

function paintFlashes(context, scene, now, pixel) {
  context.strokeStyle = scene.palette.accent;
  context.lineWidth = 2 * pixel;
  for (const [name, since] of scene.flashes) {
    const host = scene.layout.hosts.get(name);
    const age = (now - since) / FLASH_MS;
    if (age >= 1 || !host) {
      scene.flashes.delete(name);
      continue;
    }
    context.globalAlpha = 1 - age;
    context.strokeRect(host.x - 1, host.y, host.size * PITCH, ROW - 0.5);
  }
  context.globalAlpha = 1;
  return scene.flashes.size > 0;
}

function paintMarks(context, scene, pixel) {
  const mark = (at, width, colour) => {
    const host = at && scene.layout.hosts.get(at.node);
    if (!host) return;
    context.strokeStyle = colour;
    context.lineWidth = width * pixel;
    if (at.gpu === null) context.strokeRect(host.x - 1.5, host.y - 0.3, host.size * PITCH + 1.4, ROW);
    else context.strokeRect(host.x + at.gpu * PITCH - 1, host.y, CELL + 2, CELL + 2);
  };
  mark(scene.hover, 1.5, scene.palette.ink);
  mark(scene.pinned, 2.5, scene.palette.ink);
  mark(scene.cursor, 2.5, scene.palette.accent);
}

function paintWords(context, scene, camera, view) {
  const { palette } = scene;
  const at = (x, y) => [camera.x + x * camera.scale, camera.y + y * camera.scale];
  context.textBaseline = "alphabetic";
  context.fillStyle = palette.ink;
  for (const zone of scene.layout.zones) {
    const [x, y] = at(zone.x, zone.y);
    if (y < -40 || y > camera.height) continue;
    context.font = `600 ${clamp(13 * camera.scale, 11, 16)}px system-ui, sans-serif`;
    context.fillText(zone.name, Math.max(x, 6), y + 12 * camera.scale);
  }
  context.fillStyle = palette.ink2;
  const size = clamp(9.5 * camera.scale, 8, 14);
  for (const rack of scene.layout.racks) {
    if (!overlaps(rack, view) || rack.width * camera.scale < 30) continue;
    context.font = `${size}px system-ui, sans-serif`;
    const [x, y] = at(rack.x + 3, rack.y + 11);
    context.fillText(fitted(context, rackTitle(scene, rack), (rack.width - 4) * camera.scale), x, y);
    if (CELL * camera.scale >= HOST_NAMES_FROM) paintHosts(context, scene, camera, rack, at);
  }
}

function rackTitle(scene, rack) {
  const types = new Set(rack.hosts.map((host) => scene.cluster.nodes.get(host.node).type));
  return `${rack.name} · ${[...types].join(", ")}`;
}

function paintHosts(context, scene, camera, rack, at) {
  const pixels = CELL * camera.scale;
  for (const host of rack.hosts) {
    const node = scene.cluster.nodes.get(host.node);
    const [gutter, line] = at(rack.x + 5, host.y + 7.2);
    if (line < 0 || line > camera.height + 20) continue;
    context.font = `${clamp(pixels * 0.5, 8, 12)}px system-ui, sans-serif`;
    context.fillStyle = scene.palette.ink2;
    context.fillText(host.node.match(/\d+$/)?.[0].slice(-3) ?? host.node.slice(-3), gutter, line);
    if (pixels < TEXT_FROM || scene.by === "state") continue;
    context.fillStyle = scene.palette.surface;
    for (let gpu = 0; gpu < host.size; gpu += 1) {
      const job = scene.cluster.jobAt(node, gpu);
      if (!job || job.phase !== "RUNNING") continue;
      const [x] = at(host.x + gpu * PITCH + 1.4, 0);
      context.fillText(initials(scene.by === "team" ? job.team : job.id), x, line);
    }
  }
}

function fitted(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  const short = text.split(" · ")[0];
  return context.measureText(short).width <= width ? short : short.replace(/^.*?([\w]+)$/, "$1");
}

const clamp = (value, least, most) => Math.min(most, Math.max(least, value));
