// Where everything lies, in units of the drawing: a GPU's cell is CELL wide, its pitch PITCH.
// AZ → rack → host (a row) → GPU (a cell). As many racks abreast as make the whole drawing largest in its frame.

export const PITCH = 10, CELL = 8.4, ROW = 10;
const GUTTER = 15, RACK_HEAD = 17, RACK_GAP = 12, AZ_HEAD = 25, AZ_GAP = 10, MARGIN = 6;

const collator = new Intl.Collator("en", { numeric: true });
const byName = (a, b) => collator.compare(a.name, b.name);

function racksOf(cluster) {
  const azs = new Map();
  for (const node of cluster.nodes.values()) {
    const az = azs.get(node.az) ?? { name: node.az, racks: new Map() };
    azs.set(node.az, az);
    const rack = az.racks.get(node.rack) ?? { name: node.rack, az: node.az, hosts: [] };
    az.racks.set(node.rack, rack);
    rack.hosts.push(node);
  }
  const sorted = [...azs.values()].sort(byName);
  for (const az of sorted) {
    az.racks = [...az.racks.values()].sort(byName);
    for (const rack of az.racks) rack.hosts.sort(byName);
  }
  return sorted;
}

function place(azs, abreast, rackWidth) {
  let y = MARGIN, width = 0;
  const rows = [];
  for (const az of azs) {
    const top = y;
    y += AZ_HEAD;
    for (let first = 0; first < az.racks.length; first += abreast) {
      const line = az.racks.slice(first, first + abreast);
      const tallest = Math.max(...line.map((rack) => rack.hosts.length));
      line.forEach((rack, column) => rows.push({ rack, x: MARGIN + column * (rackWidth + RACK_GAP), y }));
      y += RACK_HEAD + tallest * ROW + RACK_GAP;
    }
    width = Math.max(width, Math.min(abreast, az.racks.length) * (rackWidth + RACK_GAP));
    rows.push({ az, x: MARGIN, y: top, height: y - top });
    y += AZ_GAP;
  }
  return { rows, width: width + 2 * MARGIN - RACK_GAP, height: y };
}

export function layOut(cluster, frame) {
  const azs = racksOf(cluster);
  const widest = Math.max(1, ...[...cluster.nodes.values()].map((node) => node.states.length));
  const rackWidth = GUTTER + widest * PITCH;
  const most = Math.max(1, ...azs.map((az) => az.racks.length));
  let best = null;
  for (let abreast = 1; abreast <= most; abreast += 1) {
    const tried = place(azs, abreast, rackWidth);
    const scale = Math.min(frame.width / tried.width, frame.height / tried.height);
    if (best === null || scale > best.scale + 1e-9) best = { ...tried, scale };
  }
  const racks = [], zones = [], hosts = new Map();
  for (const row of best?.rows ?? []) {
    if (row.az) {
      zones.push({ name: row.az.name, racks: row.az.racks, x: row.x, y: row.y, height: row.height });
      continue;
    }
    const { rack, x, y } = row;
    const box = { name: rack.name, az: rack.az, x, y, width: rackWidth, height: RACK_HEAD + rack.hosts.length * ROW, hosts: [] };
    rack.hosts.forEach((node, index) => {
      const host = { node: node.name, rack: box, index, x: x + GUTTER, y: y + RACK_HEAD + index * ROW, size: node.states.length };
      box.hosts.push(host);
      hosts.set(node.name, host);
    });
    racks.push(box);
  }
  return { racks, zones, hosts, width: best?.width ?? 1, height: best?.height ?? 1 };
}

// What is at a point of the drawing: a host and GPU (gpu is null beside the cells), or the heading of a rack or a zone.
export function hit(layout, x, y) {
  for (const zone of layout.zones) {
    if (y >= zone.y && y < zone.y + AZ_HEAD - 4 && x >= zone.x) return { az: zone.name, rack: null };
  }
  for (const rack of layout.racks) {
    if (x < rack.x || x > rack.x + rack.width || y < rack.y || y > rack.y + rack.height) continue;
    if (y < rack.y + RACK_HEAD) return { az: rack.az, rack: rack.name };
    const host = rack.hosts[Math.floor((y - rack.y - RACK_HEAD) / ROW)];
    if (!host) return null;
    const gpu = Math.floor((x - host.x) / PITCH);
    return { node: host.node, gpu: gpu >= 0 && gpu < host.size ? gpu : null };
  }
  return null;
}

// Where an arrow key leads from a GPU: along the host, the rack, then to the nearest rack that way.
export function step(layout, at, dx, dy) {
  const host = layout.hosts.get(at.node);
  const gpu = at.gpu ?? 0;
  if (dx && gpu + dx >= 0 && gpu + dx < host.size) return { node: at.node, gpu: gpu + dx };
  if (dy && host.rack.hosts[host.index + dy]) {
    const next = host.rack.hosts[host.index + dy];
    return { node: next.node, gpu: Math.min(gpu, next.size - 1) };
  }
  const rack = nearest(layout.racks, host.rack, dx, dy);
  if (!rack) return at;
  if (dx) {
    const next = rack.hosts[Math.min(host.index, rack.hosts.length - 1)];
    return { node: next.node, gpu: dx > 0 ? 0 : next.size - 1 };
  }
  const next = dy > 0 ? rack.hosts[0] : rack.hosts[rack.hosts.length - 1];
  return { node: next.node, gpu: Math.min(gpu, next.size - 1) };
}

function nearest(racks, from, dx, dy) {
  let best = null, shortest = Infinity;
  for (const rack of racks) {
    const along = dx ? (rack.x - from.x) * dx : (rack.y - from.y) * dy;
    if (along <= 1) continue;
    const across = Math.abs(dx ? rack.y - from.y : rack.x - from.x);
    if (dx && across > 1) continue;
    if (along + 3 * across < shortest) [best, shortest] = [rack, along + 3 * across];
  }
  return best;
}
