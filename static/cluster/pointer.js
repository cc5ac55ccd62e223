// Mouse, touch and keyboard on the canvas, as what they mean: look at, pin, move, zoom.

const DRAG_FROM = 4;   // pixels
const KEYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

export function listen(canvas, camera, on) {
  const fingers = new Map();
  let dragged = false, pinch = 0;

  const point = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };

  canvas.addEventListener("pointerdown", (event) => {
    fingers.set(event.pointerId, point(event));
    dragged = false;
    pinch = spread(fingers);
  });

  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = point(event);
    const last = fingers.get(event.pointerId);
    if (!last) return on.look(x, y, event.pointerType);
    const [dx, dy] = [x - last[0], y - last[1]];
    if (!dragged && Math.hypot(dx, dy) < DRAG_FROM) return undefined;
    if (!dragged && (camera.loose || fingers.size > 1)) canvas.setPointerCapture(event.pointerId);
    dragged = true;
    fingers.set(event.pointerId, [x, y]);
    if (fingers.size === 2) {
      const now = spread(fingers);
      const [a, b] = [...fingers.values()];
      if (pinch > 0) camera.zoom(now / pinch, (a[0] + b[0]) / 2, (a[1] + b[1]) / 2);
      pinch = now;
    } else {
      camera.pan(dx, dy);
    }
    return on.moved();
  });

  const lift = (event) => {
    const held = fingers.delete(event.pointerId);
    if (event.type !== "pointerup" || !held || dragged) return;
    if (event.ctrlKey || event.metaKey || event.shiftKey) on.choose(...point(event), event.shiftKey);
    else on.pin(...point(event));
  };
  canvas.addEventListener("pointerup", lift);
  canvas.addEventListener("pointercancel", lift);
  canvas.addEventListener("pointerleave", (event) => { if (!fingers.has(event.pointerId)) on.leave(); });

  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    camera.zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0018)), ...point(event));
    on.moved();
  }, { passive: false });

  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (KEYS[event.key]) on.step(...KEYS[event.key], event.shiftKey);
    else if (event.key === "Enter") on.enter();
    else if (event.key === " ") on.toggle();
    else if (event.key === "r" || event.key === "z") on.group(event.key === "z");
    else if (event.key === "Escape") on.escape();
    else if (event.key === "+" || event.key === "=") on.zoom(1.4);
    else if (event.key === "-") on.zoom(1 / 1.4);
    else if (event.key === "0") on.fit();
    else return;
    event.preventDefault();
  });
}

function spread(fingers) {
  if (fingers.size !== 2) return 0;
  const [a, b] = [...fingers.values()];
  return Math.hypot(a[0] - b[0], a[1] - b[1]);
}
