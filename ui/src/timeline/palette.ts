// A colour for every name, the same in every run: its hash picks one of a ring of hues that look equally light, so
// that one colour of text can be read on all of them.
import { Names } from "./model";

const HUES = 15;
const LIGHT = { lightness: [0.8, 0.72], chroma: 0.11, text: "#10151c", faded: [0.93, 0.02] };
const DARK = { lightness: [0.57, 0.48], chroma: 0.12, text: "#f6f8fa", faded: [0.3, 0.02] };

// Oklch to the pixel of a canvas: alpha, blue, green, red from the highest byte to the lowest.
function pixel(lightness: number, chroma: number, hue: number): number {
  const [a, b] = [chroma * Math.cos(hue), chroma * Math.sin(hue)];
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const byte = (linear: number): number => {
    const part = Math.min(1, Math.max(0, linear));
    return Math.round(255 * (part <= 0.0031308 ? 12.92 * part : 1.055 * part ** (1 / 2.4) - 0.055));
  };
  const red = byte(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s);
  const green = byte(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s);
  const blue = byte(-0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s);
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

// FNV-1a.
function hash(word: string): number {
  let value = 0x811c9dc5;
  for (let i = 0; i < word.length; i++) value = Math.imul(value ^ word.charCodeAt(i), 0x01000193);
  return value >>> 0;
}

export function cssOf(colour: number): string {
  return `rgb(${colour & 255},${(colour >> 8) & 255},${(colour >> 16) & 255})`;
}

// "#rrggbb" as a pixel.
export function pixelOf(css: string): number {
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(css.slice(at, at + 2), 16));
  return ((255 << 24) | ((blue ?? 0) << 16) | ((green ?? 0) << 8) | (red ?? 0)) >>> 0;
}

export class Palette {
  text: string;
  colours = new Uint32Array(256); // by the number of a name
  private n = 0;
  private theme: typeof LIGHT;

  // Names without `find` are faded, if something is searched.
  constructor(isDark: boolean, private find: string) {
    this.theme = isDark ? DARK : LIGHT;
    this.text = this.theme.text;
  }

  isFaded(name: string): boolean {
    return this.find !== "" && !name.toLowerCase().includes(this.find);
  }

  // For all names that are known by now.
  fill(names: Names): void {
    const words = names.words;
    if (words.length > this.colours.length) {
      const more = new Uint32Array(words.length * 2);
      more.set(this.colours);
      this.colours = more;
    }
    for (; this.n < words.length; this.n++) this.colours[this.n] = this.colour(words[this.n] ?? "");
  }

  private colour(name: string): number {
    const { lightness, chroma, faded } = this.theme;
    if (this.isFaded(name)) return pixel(faded[0] ?? 0, faded[1] ?? 0, 4);
    // Steps differ by their number only; they are of one kind.
    const code = hash(name.replace(/^step \d+$/, "step"));
    return pixel(lightness[(code >>> 8) % 2] ?? 0.7, chroma, ((code % HUES) / HUES) * 2 * Math.PI);
  }
}
