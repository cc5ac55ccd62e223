// The cluster page: one model, one drawing of it, and everything around the drawing that follows both.
import { LiveView, showFreshness } from "../js/socket.js";
import { Camera } from "./camera.js";
import { hit, layOut, step } from "./layout.js";
import { Cluster } from "./model.js";
import { Painter } from "./paint.js";
import { Palette } from "./palette.js";
import { listen } from "./pointer.js";
import { Selection } from "./selection.js";
import { Surroundings } from "./surroundings.js";
import { TimeSlider } from "./timeslider.js";

const LEAST_SCALE = 0.55;   // below, a cell is under 5 pixels
const canvas = document.getElementById("map");
const painter = new Painter(canvas);
const query = new URLSearchParams(location.search);
const calm = matchMedia("(prefers-reduced-motion: reduce)");

const scene = {
  cluster: new Cluster(),
  layout: null,
  palette: new Palette(),
  by: query.get("by") ?? "state",
  job: query.get("job"),
  team: null,
  only: null,
  hover: null,
  pinned: null,
  cursor: null,
  flashes: new Map(),
  selected: new Set(),
  nowS: Math.floor(Date.now() / 1000),
};
const camera = new Camera();
let waiting = false;
let names = null;

// Everything again; `overlay` alone where only marks have moved.
function draw() {
  painter.stale = true;
  overlay();
}

function overlay() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame((now) => {
    waiting = false;
    if (!scene.layout) return;
    if (painter.paint(scene, camera, now)) overlay();
    canvas.classList.toggle("loose", camera.loose);
    canvas.dataset.drawn = String(Math.round(now));
    canvas.dataset.fullMs = painter.fullMs.toFixed(2);
  });
}

function arrange() {
  const frame = canvas.parentElement.getBoundingClientRect();
  const ratio = devicePixelRatio || 1;
  painter.resize(Math.round(frame.width * ratio), Math.round(frame.height * ratio));
  camera.resize(frame.width, frame.height, ratio);
  scene.layout = layOut(scene.cluster, frame);
  if (camera.fitted) camera.fit(scene.layout, LEAST_SCALE);
  else camera.keepInside();
  draw();
}

// Which hosts there are decides the layout; what they do does not. `touched` names the hosts that look different.
function arrangeIfMoved(touched = null) {
  const now = [...scene.cluster.nodes.values()].map((n) => `${n.az}/${n.rack}/${n.name}/${n.states.length}`).join();
  if (now === names && touched) {
    for (const name of touched) painter.changed.add(name);
    return overlay();
  }
  if (now === names) return draw();
  names = now;
  return arrange();
}

const around = new Surroundings(scene, {
  redraw: draw,
  recolour(by) { Object.assign(scene, { by, only: null, team: null }); remember(); draw(); },
  light(job, name) { scene.job = job; around.name(job, name); remember(); draw(); around.follow(); },
  pin(at) { pin(at); },
  zoom(factor) { camera.zoom(factor, camera.width / 2, camera.height / 2); draw(); },
  fit() { camera.fit(scene.layout, LEAST_SCALE); draw(); },
});

function remember() {
  const address = new URL(location.href);
  const put = (name, value) => (value ? address.searchParams.set(name, value) : address.searchParams.delete(name));
  put("by", scene.by === "state" ? null : scene.by);
  put("job", scene.job);
  put("node", scene.pinned?.node);
  put("at", slider?.shown ?? null);
  history.replaceState(null, "", address);
}

const selection = new Selection(scene, { show(hosts) { pinGroup(hosts.length ? { hosts } : null); } });

// A rack, a zone, or the hosts chosen one by one.
function pinGroup(group) {
  scene.pinned = null;
  around.showPanel(group);
  draw();
}

function pin(at) {
  if (at && !at.node) {
    selection.only(hostsOf(at));
    return pinGroup(at);
  }
  selection.only([]);
  scene.pinned = at;
  if (at) {
    const host = scene.layout.hosts.get(at.node);
    if (host) camera.reveal(host.x, host.y, host.size * 10, 10);
  }
  remember();
  around.showPanel(at);
  return draw();
}

const hostsOf = ({ az, rack }) =>
  [...scene.cluster.nodes.values()].filter((node) => node.az === az && (rack === null || node.rack === rack)).map((node) => node.name);

function whatIsAt(x, y) {
  return scene.layout && hit(scene.layout, ...camera.toWorld(x, y));
}

function firstCursor() {
  const racks = scene.layout.racks;
  const gang = scene.job ? scene.cluster.gang(scene.job).hosts[0] : null;
  const node = scene.pinned?.node ?? gang ?? racks[0]?.hosts[0]?.node;
  return node ? { node, gpu: scene.pinned?.gpu ?? 0 } : null;
}

listen(canvas, camera, {
  look(x, y, device) {
    if (device === "touch") return;
    const at = whatIsAt(x, y);
    scene.hover = at?.node ? at : null;
    around.hover(at, x, y);
    canvas.classList.toggle("pointing", Boolean(at));
    overlay();
  },
  leave() { scene.hover = null; around.hover(null); overlay(); },
  moved() { scene.hover = null; around.hover(null); draw(); },
  pin(x, y) {
    const at = whatIsAt(x, y);
    scene.cursor = null;
    pin(at);
  },
  step(dx, dy, far) {
    let at = scene.cursor ? scene.cursor : firstCursor();
    if (!at) return;
    if (scene.cursor) for (let n = far ? 8 : 1; n > 0; n -= 1) at = step(scene.layout, at, dx, dy);
    scene.cursor = at;
    const host = scene.layout.hosts.get(at.node);
    camera.reveal(host.x + at.gpu * 10, host.y, 10, 10);
    around.say(at);
    draw();
  },
  choose(x, y, whole) {
    const at = whatIsAt(x, y);
    if (at) selection.choose(at.node ? [at.node] : hostsOf(at), whole && at.node ? scene.layout.hosts.get(at.node).rack : null);
  },
  toggle() {
    scene.cursor ??= firstCursor();
    if (scene.cursor) selection.choose([scene.cursor.node]);
    if (scene.cursor) around.say(scene.cursor);
  },
  group(zone) {
    const at = scene.cursor ?? firstCursor();
    if (!at) return;
    const { az, name } = scene.layout.hosts.get(at.node).rack;
    pin({ az, rack: zone ? null : name });
  },
  enter() { if (scene.cursor) pin(scene.cursor); },
  escape() {
    if (scene.pinned || scene.selected.size) pin(null);
    else if (scene.job) { scene.job = null; remember(); around.follow(); }
    scene.cursor = null;
    draw();
  },
  zoom(factor) { camera.zoom(factor, camera.width / 2, camera.height / 2); draw(); },
  fit() { camera.fit(scene.layout, LEAST_SCALE); draw(); },
});

function repaintThemed() {
  scene.palette.read();
  around.follow();
  draw();
}
document.addEventListener("preferences", repaintThemed);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaintThemed);
new ResizeObserver(() => { if (scene.layout) arrange(); }).observe(canvas.parentElement);

const badge = document.querySelector("[data-live]");
const freshness = showFreshness(badge);
// While the past is shown the present goes on being taken in, aside.
const present = { cluster: scene.cluster };
const slider = new TimeSlider({
  past(message) {
    scene.cluster = new Cluster();
    scene.cluster.load(message);
    scene.nowS = Math.floor(message.at_ms / 1000);
    arrangeIfMoved();
    around.follow();
  },
  present() {
    scene.cluster = present.cluster;
    arrangeIfMoved();
    around.follow();
    remember();
  },
  moved: remember,
});

new LiveView("/ws/cluster/", {
  snapshot(message) {
    present.cluster.load(message);
    if (slider.shown) return;
    arrangeIfMoved();
    around.loaded(message);
    const node = query.get("node");
    if (node && scene.cluster.nodes.has(node)) pin({ node, gpu: null });
    query.delete("node");
    const { az, rack } = Object.fromEntries(query);
    if (az) pin({ az, rack: rack ?? null });
    query.delete("az");
    if (query.get("at")) slider.show(query.get("at"));
    query.delete("at");
  },
  delta(message) {
    const touched = present.cluster.put(message);
    if (slider.shown) return;
    if (!calm.matches && touched.length < 200) {
      const now = performance.now();
      for (const name of touched) scene.flashes.set(name, now);
    }
    arrangeIfMoved(touched);
    around.changed(message, touched);
  },
  freshness,
});

// What comes free when moves on with the clock.
setInterval(() => {
  if (slider.shown) return;
  scene.nowS = Math.floor(Date.now() / 1000);
  if (scene.by === "free") { around.follow(); draw(); }
}, 15_000);
