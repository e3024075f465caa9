// Horizontal bars of one or more parts each, one after the other or one below the other, with their names; a line may
// mark what is to be expected.
import { Chart, Mark, Pen, Words, write } from "./figure";
import { legend } from "./columns";

export interface Bar {
  name: string;
  parts: number[];
  expected?: number;
  label: string; // at its end
  words: string;
  open?: () => void;
}

export interface Bars {
  title: string; // of the names
  parts: string[];
  bars: Bar[];
  format(value: number): string;
  full?: number; // the length of the axis; else that of the longest bar
  below?: boolean; // each part begins on the left, below the one before; NaN: there is none
}

const BAR = 20;
const PART = 7; // of those that are below each other

export class BarsChart implements Chart {
  height: number;
  marks: number;
  private boxes: { x: number; y: number; w: number; h: number }[] = [];
  private bar: number; // its height, with the space below

  constructor(private of: Bars) {
    this.marks = of.bars.length;
    this.bar = of.below ? Math.max(BAR + 4, of.parts.length * PART + 8) : BAR;
    this.height = this.marks * this.bar + (of.parts.length > 1 ? 22 : 4);
  }

  draw(pen: Pen): void {
    const { ctx, width, colours } = pen;
    const { bars, parts, below } = this.of;
    const left = Math.min(width * 0.4, Math.max(...bars.map((bar) => ctx.measureText(bar.name).width)) + 10);
    const labels = Math.max(...bars.map((bar) => ctx.measureText(bar.label).width)) + 10;
    const longest = Math.max(...bars.map((bar) => Math.max(bar.expected ?? 0, bar.parts.reduce((a, b) => a + b, 0))));
    const scale = (width - left - labels) / (this.of.full ?? (longest || 1));
    this.boxes = bars.map((bar, i) => {
      const y = i * this.bar + 2;
      const middle = y + this.bar / 2 - 2;
      let x = left;
      write(pen, bar.name, left - 6, middle, "right", left - 8);
      bar.parts.forEach((part, p) => {
        const width = part * scale;
        ctx.fillStyle = colours.series[p % 8] as string;
        if (Number.isNaN(part)) return;
        if (below) ctx.fillRect(left, y + p * PART, Math.max(1, width), PART - 1);
        else ctx.fillRect(x, y, width, BAR - 5);
        x = below ? Math.max(x, left + width) : x + width;
      });
      if (bar.expected !== undefined) {
        ctx.fillStyle = colours.ink;
        ctx.fillRect(left + bar.expected * scale - 1, y - 1, 2, BAR - 3);
      }
      write(pen, bar.label, Math.max(x, left + (bar.expected ?? 0) * scale) + 6, middle);
      return { x: left, y, w: Math.max(2, x - left), h: this.bar - 5 };
    });
    if (parts.length > 1) legend(pen, parts, this.height - 8, left);
  }

  mark(index: number): Mark {
    const bar = this.of.bars[index] as Bar;
    const box = this.boxes[index] ?? { x: 0, y: 0, w: 0, h: 0 };
    return { ...box, words: bar.words, ...(bar.open ? { open: bar.open } : {}) };
  }

  at(_x: number, y: number): number {
    const index = Math.floor(y / this.bar);
    return index < this.marks ? index : -1;
  }

  beside(index: number, dx: number, dy: number): number {
    return Math.min(this.marks - 1, Math.max(0, index + (dx || dy)));
  }

  table(): Words {
    const { title, parts, bars, format } = this.of;
    const expected = bars.some((bar) => bar.expected !== undefined);
    const shown = (part: number): string => (Number.isNaN(part) ? "–" : format(part));
    const last = (bar: Bar): string[] => (expected ? [bar.expected === undefined ? "–" : format(bar.expected)] : []);
    return { head: [title, ...parts, ...(expected ? ["by chance"] : [])],
      rows: bars.map((bar) => [bar.name, ...bar.parts.map(shown), ...last(bar)]) };
  }
}
