// What part of the drawing is seen: fit, zoom about a point, pan. Positions are CSS pixels of the canvas.

import { PITCH } from "./layout.js";

const CLOSEST = 6;

export class Camera {
  constructor() {
    Object.assign(this, { x: 0, y: 0, scale: 1, width: 1, height: 1, ratio: 1, least: 1, content: { width: 1, height: 1 } });
    this.fitted = true;
  }

  resize(width, height, ratio) {
    Object.assign(this, { width, height, ratio });
  }

  // A drawing much taller than its frame is fitted to the width and scrolled, rather than made illegible.
  fit(content, leastScale) {
    this.content = content;
    this.least = Math.min(this.width / content.width, Math.max(this.height / content.height, leastScale), 2.2);
    this.wanted = this.least;
    this.scale = this.whole(this.wanted);
    this.x = Math.max(0, (this.width - content.width * this.scale) / 2);
    this.y = 0;
    this.fitted = true;
  }

  // The next smaller scale at which a GPU's pitch is a whole number of device pixels: every cell is sharp and alike.
  whole(scale) {
    const step = 1 / (PITCH * this.ratio);
    return Math.max(1, Math.floor(scale / step + 1e-6)) * step;
  }

  zoom(factor, x, y) {
    this.wanted = Math.min(CLOSEST, Math.max(this.least, this.wanted * factor));
    const next = this.whole(this.wanted);
    const [worldX, worldY] = this.toWorld(x, y);
    this.scale = next;
    this.x = x - worldX * next;
    this.y = y - worldY * next;
    this.fitted = this.wanted <= this.least * 1.001;
    this.keepInside();
  }

  pan(dx, dy) {
    this.x += dx;
    this.y += dy;
    this.keepInside();
  }

  // Whether there is anything to pan to.
  get loose() {
    return this.content.height * this.scale > this.height + 1 || this.content.width * this.scale > this.width + 1;
  }

  keepInside() {
    this.x = inside(this.x, this.width, this.content.width * this.scale);
    this.y = Math.min(inside(this.y, this.height, this.content.height * this.scale), 0);
  }

  reveal(x, y, width, height) {
    const left = this.x + x * this.scale, top = this.y + y * this.scale;
    const right = left + width * this.scale, bottom = top + height * this.scale;
    const dx = left < 24 ? 24 - left : Math.min(0, this.width - 24 - right);
    const dy = top < 24 ? 24 - top : Math.min(0, this.height - 24 - bottom);
    if (this.loose) this.pan(dx, dy);
  }

  toWorld(x, y) {
    return [(x - this.x) / this.scale, (y - this.y) / this.scale];
  }

  view() {
    const [x, y] = this.toWorld(0, 0);
    return { x, y, width: this.width / this.scale, height: this.height / this.scale };
  }
}

function inside(offset, frame, content) {
  if (content <= frame) return (frame - content) / 2;
  return Math.min(0, Math.max(frame - content, offset));
}
