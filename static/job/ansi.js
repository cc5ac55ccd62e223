// What a program wrote for a terminal, taken apart: text with a look, ends of lines, returns to a line's beginning.
// Colours are understood; every other escape sequence is left out. Nothing here makes markup.

const HUES = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
// eslint-disable-next-line no-control-regex
const TOKEN = /\x1b\[([0-9;:?<=>!]*)([ -/]*[@-~])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[PX^_][^\x1b]*\x1b\\|\x1b[ -/]*[0-~]|\r\n|\r|\n|\x08|[^\x1b\r\n\x08]+/y;
const LONGEST_SEQUENCE = 4096;

export class Terminal {
  constructor() {
    this.look = { hue: null, bold: false, dim: false, underlined: false };
    this.rest = "";
  }

  // → [{text, classes} | {end: true} | {back: true}, …]. A sequence that is cut off waits for what follows.
  take(text) {
    const whole = this.rest + text;
    const found = [];
    this.rest = "";
    let at = 0;
    while (at < whole.length) {
      TOKEN.lastIndex = at;
      const match = TOKEN.exec(whole);
      if (match === null || (match[0] === "\r" && TOKEN.lastIndex === whole.length)) {
        if (whole.length - at < LONGEST_SEQUENCE) { this.rest = whole.slice(at); break; }
        at += 1;   // no end in sight: it was no sequence
        continue;
      }
      at = TOKEN.lastIndex;
      this.read(match, found);
    }
    return found;
  }

  read(match, found) {
    const token = match[0];
    if (token === "\n" || token === "\r\n") found.push({ end: true });
    else if (token === "\r") found.push({ back: true });
    else if (token[0] === "\x1b") { if (match[2] === "m") this.wear(match[1]); }
    else if (token !== "\x08") found.push({ text: visible(token), classes: this.classes() });
  }

  classes() {
    const { hue, bold, dim, underlined } = this.look;
    return [hue && `ansi-${hue}`, bold && "ansi-bold", dim && "ansi-dim", underlined && "ansi-underlined"].filter(Boolean).join(" ");
  }

  wear(parameters) {
    const codes = parameters.split(/[;:]/).map(Number);
    for (let at = 0; at < codes.length; at += 1) {
      const code = codes[at];
      if (code === 0) this.look = { hue: null, bold: false, dim: false, underlined: false };
      else if (code === 1) this.look.bold = true;
      else if (code === 2) this.look.dim = true;
      else if (code === 4) this.look.underlined = true;
      else if (code === 22) this.look.bold = this.look.dim = false;
      else if (code === 24) this.look.underlined = false;
      else if (code >= 30 && code <= 37) this.look.hue = HUES[code - 30];
      else if (code >= 90 && code <= 97) this.look.hue = HUES[code - 90];
      else if (code === 39) this.look.hue = null;
      else if (code === 38 || code === 48) {
        const [hue, used] = extended(codes.slice(at + 1));
        if (code === 38) this.look.hue = hue;
        at += used;
      }
    }
  }
}

// The colour after 38 or 48 as one of ours, and how many codes it took.
function extended(codes) {
  if (codes[0] === 5) return [ofPalette(codes[1] ?? 0), 2];
  if (codes[0] === 2) return [nearest(codes[1] ?? 0, codes[2] ?? 0, codes[3] ?? 0), 4];
  return [null, 0];
}

function ofPalette(index) {
  if (index < 16) return HUES[index % 8];
  if (index >= 232) return index < 244 ? "black" : "white";
  const cube = index - 16;
  return nearest(51 * Math.floor(cube / 36), 51 * (Math.floor(cube / 6) % 6), 51 * (cube % 6));
}

function nearest(red, green, blue) {
  const most = Math.max(red, green, blue);
  if (most - Math.min(red, green, blue) < 48) return most < 128 ? "black" : "white";
  const bits = (red > most * 0.6 ? 1 : 0) | (green > most * 0.6 ? 2 : 0) | (blue > most * 0.6 ? 4 : 0);
  return HUES[bits];
}

// Control characters as the signs that stand for them.
function visible(text) {
  // eslint-disable-next-line no-control-regex
  return text.replace(/[\x00-\x07\x0b-\x1f\x7f]/g, (one) => (one === "\x7f" ? "\u2421" : String.fromCharCode(0x2400 + one.charCodeAt(0))));
}
