// The cluster page: one model, one drawing of it, and everything around the drawing that follows both.
import { LiveView, showFreshness } from "../js/socket.js";
import { Camera } from "./camera.js";
import { hit, layOut, step } from "./layout.js";
import { Cluster } from "./model.js";
import { Painter } from "./paint.js";
import { Palette } from "./palette.js";
import { listen } from "./pointer.js";
import { Surroundings } from "./surroundings.js";

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
  onlyState: null,
  hover: null,
  pinned: null,
  cursor: null,
  flashes: new Map(),
};
const camera = new Camera();
let waiting = false;
let names = "";

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

// Which hosts there are decides the layout; what they do does not.
function arrangeIfMoved() {
  const now = [...scene.cluster.nodes.values()].map((n) => `${n.az}/${n.rack}/${n.name}/${n.states.length}`).join();
  if (now === names) return draw();
  names = now;
  return arrange();
}

const around = new Surroundings(scene, {
  redraw: draw,
  recolour(by) { scene.by = by; remember(); draw(); },
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
  history.replaceState(null, "", address);
}

function pin(at) {
  scene.pinned = at;
  if (at) {
    const host = scene.layout.hosts.get(at.node);
    if (host) camera.reveal(host.x, host.y, host.size * 10, 10);
  }
  remember();
  around.showPanel(at);
  draw();
}

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
    scene.hover = whatIsAt(x, y);
    around.hover(scene.hover, x, y);
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
  enter() { if (scene.cursor) pin(scene.cursor); },
  escape() {
    if (scene.pinned) pin(null);
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
new LiveView("/ws/cluster/", {
  snapshot(message) {
    scene.cluster.load(message);
    arrangeIfMoved();
    around.loaded(message);
    const node = query.get("node");
    if (node && scene.cluster.nodes.has(node)) pin({ node, gpu: null });
    query.delete("node");
  },
  delta(message) {
    const touched = scene.cluster.put(message);
    if (!calm.matches && touched.length < 200) {
      const now = performance.now();
      for (const name of touched) scene.flashes.set(name, now);
    }
    arrangeIfMoved();
    around.changed(message, touched);
  },
  freshness: showFreshness(badge),
});
