// Cells as pixels: each look (a colour and a shape) is drawn once, and then copied into one buffer, so that all 10,000
// cells of the map cost a few milliseconds however many colours there are.

// Which pixels of a cell of `size` a shape covers; `line` is the width of its frame.
const INSIDE = {
  full: () => true,
  hollow: () => false,
  half: (x, y, size) => y >= size >> 1,
  corner: (x, y, size) => x + y >= size - 1,
  slash: (x, y, size, line) => Math.abs(x + y - size + 1) < Math.max(1, line),
  cross: (x, y, size) => {
    const wide = Math.max(1, Math.round(size / 5)) / 2;
    return Math.abs(x - y) <= wide || Math.abs(x + y - size + 1) <= wide;
  },
  dot: (x, y, size) => {
    const wide = Math.max(1, Math.round(size / 3)), inset = (size - wide) >> 1;
    return x >= inset && x < inset + wide && y >= inset && y < inset + wide;
  },
  level1: (x, y, size) => y >= size - Math.max(1, Math.round(size * 0.2)),
  level2: (x, y, size) => y >= size - Math.round(size * 0.4),
  level3: (x, y, size) => y >= size - Math.round(size * 0.6),
  level4: (x, y, size) => y >= size - Math.round(size * 0.8),
};
const FRAMELESS = new Set(["full", "cross"]);

const rgb = new Map();

// A CSS colour as one little-endian RGBA pixel.
export function pixel(colour) {
  let found = rgb.get(colour);
  if (found === undefined) rgb.set(colour, (found = packed(...parts(colour))));
  return found;
}

const packed = (r, g, b) => (0xff000000 | (b << 16) | (g << 8) | r) >>> 0;
const unpacked = (value) => [value & 255, (value >> 8) & 255, (value >> 16) & 255];

export function mixed(over, under, share) {
  const a = unpacked(over), b = unpacked(under);
  return packed(...a.map((part, at) => Math.round(part * share + b[at] * (1 - share))));
}

function parts(colour) {
  const numbers = (colour.match(/[\d.]+/g) ?? []).map(Number);
  if (colour.startsWith("rgb")) return numbers.slice(0, 3);
  if (colour.startsWith("hsl")) return ofHue(...numbers);
  return probed(colour);
}

function ofHue(hue, saturation, lightness) {
  const s = saturation / 100, l = lightness / 100, a = s * Math.min(l, 1 - l);
  const channel = (n) => {
    const k = (n + hue / 30) % 12;
    return Math.round(255 * (l - a * Math.max(-1, Math.min(k - 3, 9 - k, 1))));
  };
  return [channel(0), channel(8), channel(4)];
}

function probed(colour) {
  const context = new OffscreenCanvas(1, 1).getContext("2d");
  context.fillStyle = colour;
  context.fillRect(0, 0, 1, 1);
  return context.getImageData(0, 0, 1, 1).data.slice(0, 3);
}

export class Sheet {
  constructor(width, height) {
    this.width = width;
    this.height = height;
    this.image = new ImageData(Math.max(1, width), Math.max(1, height));
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.sprites = new Map();
  }

  clear(ground, size, line) {
    if (this.size !== size || this.line !== line || this.ground !== ground) this.sprites.clear();
    Object.assign(this, { ground, size, line });
    this.pixels.fill(ground);
  }

  sprite(colour, shape) {
    const key = colour * 32 + shapes.indexOf(shape);
    let found = this.sprites.get(key);
    if (!found) this.sprites.set(key, (found = this.draw(colour, shape)));
    return found;
  }

  draw(colour, shape) {
    const { size, line, ground } = this, inside = INSIDE[shape], framed = !FRAMELESS.has(shape);
    const cell = new Uint32Array(size * size);
    for (let y = 0; y < size; y += 1) {
      for (let x = 0; x < size; x += 1) {
        const edge = framed && (x < line || y < line || x >= size - line || y >= size - line);
        cell[y * size + x] = edge || inside(x, y, size, line) ? colour : ground;
      }
    }
    return cell;
  }

  // Copies a cell to (left, top), cut off at the edges.
  put(cell, left, top) {
    const { size, width, height, pixels } = this;
    if (left >= 0 && top >= 0 && left + size <= width && top + size <= height) {
      let at = 0, to = top * width + left;
      const skip = width - size;
      for (let y = 0; y < size; y += 1, to += skip) for (let x = 0; x < size; x += 1) pixels[to++] = cell[at++];
      return;
    }
    for (let y = Math.max(0, -top); y < size && top + y < height; y += 1) {
      for (let x = Math.max(0, -left); x < size && left + x < width; x += 1) {
        pixels[(top + y) * width + left + x] = cell[y * size + x];
      }
    }
  }
}

const shapes = Object.keys(INSIDE);
