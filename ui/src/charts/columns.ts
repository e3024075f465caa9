// Values stacked over positions. More positions than pixels are merged into their mean.
import { count } from "../format";
import { Chart, Mark, Pen, Words, write } from "./figure";
import { Axes, Plane } from "./plane";

export interface Stacked {
  axes: Omit<Axes, "x" | "most">;
  positions: number[];
  series: string[];
  values: number[][]; // by series, then by position
  line?: { value: number; words: string };
  open?(position: number): void;
}

const WIDEST = 48;

export class ColumnsChart implements Chart {
  height = 180;
  marks = 0;
  private merged = 1;
  private plane: Plane | null = null;
  private sums: number[][] = []; // by mark, then by series

  constructor(private stacked: Stacked) {}

  draw(pen: Pen): void {
    const { positions, series, axes, line } = this.stacked;
    const { ctx, colours } = pen;
    this.merge(Math.max(1, Math.floor((pen.width - 60) / 2)));
    const most = Math.max(line?.value ?? 0, ...this.sums.map((sum) => sum.reduce((a, b) => a + b, 0)));
    const [first, last] = [positions[0] ?? 0, positions[positions.length - 1] ?? 0];
    const legendHeight = series.length > 1 ? 18 : 0;
    const plane = new Plane({ ...pen, height: pen.height - legendHeight }, { ...axes, x: [first, last], most },
      Math.min(WIDEST / 2, (pen.width - 60) / this.marks / 2) + 4);
    this.plane = plane;
    this.sums.forEach((sum, i) => {
      const { x, w } = this.span(i);
      let below = 0;
      sum.forEach((value, s) => {
        ctx.fillStyle = colours.series[s % 8] as string;
        ctx.fillRect(x, plane.y(below + value), Math.max(1, w - (w > 5 ? 1 : 0)), plane.y(below) - plane.y(below + value));
        below += value;
      });
    });
    if (line) {
      ctx.strokeStyle = colours.ink;
      ctx.setLineDash([5, 4]);
      ctx.beginPath();
      ctx.moveTo(plane.x(first), plane.y(line.value));
      ctx.lineTo(plane.x(last), plane.y(line.value));
      ctx.stroke();
      ctx.setLineDash([]);
      const room = ctx.measureText(line.words).width + 6; // to be read in front of columns
      ctx.fillStyle = colours.paper;
      ctx.fillRect(plane.x(last) - room + 3, plane.y(line.value) - 16, room, 15);
      write(pen, line.words, plane.x(last), plane.y(line.value) - 8, "right");
    }
    if (series.length > 1) legend(pen, series, pen.height - 8);
  }

  private merge(room: number): void {
    const { positions, values } = this.stacked;
    this.merged = Math.max(1, Math.ceil(positions.length / room));
    this.marks = Math.ceil(positions.length / this.merged);
    this.sums = Array.from({ length: this.marks }, (_, i) => values.map((of) => {
      const part = of.slice(i * this.merged, (i + 1) * this.merged);
      return part.reduce((a, b) => a + b, 0) / part.length;
    }));
  }

  private span(index: number): { x: number; w: number } {
    const w = Math.min(WIDEST, (this.plane?.width ?? 0) / Math.max(1, this.marks - 1));
    const middle = this.plane?.x(this.stacked.positions[index * this.merged] ?? 0) ?? 0;
    return { x: middle - w / 2, w };
  }

  mark(index: number): Mark {
    const { positions, series, axes, open } = this.stacked;
    const sum = this.sums[index] as number[];
    const first = positions[index * this.merged] as number;
    const last = positions[Math.min((index + 1) * this.merged, positions.length) - 1] as number;
    const where = last > first ? `mean of ${axes.formatX(first)} to ${axes.formatX(last)}` : axes.formatX(first);
    const parts = sum.map((value, s) => `${series[s]} ${axes.formatY(value)}`).join(", ");
    const { x, w } = this.span(index);
    const top = this.plane?.y(sum.reduce((a, b) => a + b, 0)) ?? 0;
    return { x, y: top, w, h: (this.plane?.bottom ?? 0) - top, words: `${axes.xTitle} ${where}: ${parts}`,
      ...(open ? { open: () => open(first) } : {}) };
  }

  at(x: number, y: number): number {
    if (!this.plane || y > this.plane.bottom) return -1;
    for (let i = 0; i < this.marks; i++) {
      const span = this.span(i);
      if (x >= span.x && x < span.x + span.w) return i;
    }
    return -1;
  }

  beside(index: number, dx: number, dy: number): number {
    return Math.min(this.marks - 1, Math.max(0, index + (dx || dy)));
  }

  table(): Words {
    const { positions, series, values, axes } = this.stacked;
    return { head: [axes.xTitle, ...series], rows: positions.map((position, i) =>
      [axes.formatX(position), ...values.map((of) => axes.formatY(of[i] ?? 0))]) };
  }
}

export function legend(pen: Pen, names: string[], y: number, x = 4): void {
  names.forEach((name, i) => {
    pen.ctx.fillStyle = pen.colours.series[i % 8] as string;
    pen.ctx.fillRect(x, y - 5, 10, 10);
    write(pen, name, x + 14, y);
    x += pen.ctx.measureText(name).width + 30;
  });
}

export const plain = (value: number): string => (Number.isInteger(value) ? String(value) : count(value));
