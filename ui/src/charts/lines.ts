// Values over time that hold until the next one: steps, not slopes. A cursor may stand at a moment.
import { legend } from "./columns";
import { Chart, Mark, Pen, Words } from "./figure";
import { Axes, Plane } from "./plane";

export interface Lines {
  axes: Omit<Axes, "x" | "most">;
  x: number[];
  series: { name: string; values: (number | null)[] }[];
  choose?(x: number): void; // puts the cursor there
}

export class LinesChart implements Chart {
  height = 190;
  marks: number;
  first?: () => number;
  arrived?: (index: number) => void;
  cursor: number | null = null; // of x
  private plane: Plane | null = null;

  constructor(private lines: Lines) {
    const { x, choose } = lines;
    this.marks = x.length;
    if (!choose) return;
    this.first = () => (this.cursor === null ? 0 : this.nearest(this.cursor, (value) => value));
    this.arrived = (index) => choose(x[index] as number);
  }

  draw(pen: Pen): void {
    const { x, series, axes } = this.lines;
    const { ctx, colours } = pen;
    const most = series.reduce((sum, line) => line.values.reduce((m: number, v) => Math.max(m, v ?? 0), sum), 0);
    const plane = new Plane({ ...pen, height: pen.height - 18 }, { ...axes, x: [x[0] ?? 0, x[x.length - 1] ?? 0], most });
    this.plane = plane;
    series.forEach((line, s) => {
      ctx.strokeStyle = colours.series[s % 8] as string;
      ctx.lineWidth = 2;
      ctx.setLineDash(s ? [6, 3] : []);
      ctx.beginPath();
      let before: number | null = null;
      line.values.forEach((value, i) => {
        const at = plane.x(x[i] as number);
        if (value !== null && before !== null) {
          ctx.lineTo(at, before);
          ctx.lineTo(at, plane.y(value));
        } else if (value !== null) {
          ctx.moveTo(at, plane.y(value));
        }
        before = value === null ? null : plane.y(value);
      });
      ctx.stroke();
    });
    ctx.setLineDash([]);
    if (this.cursor !== null) this.drawCursor(pen, plane.x(this.cursor), plane.bottom);
    legend(pen, series.map((line) => line.name), pen.height - 8);
  }

  private drawCursor({ ctx, colours }: Pen, x: number, bottom: number): void {
    ctx.strokeStyle = ctx.fillStyle = colours.ink;
    ctx.lineWidth = 1.5;
    ctx.beginPath();
    ctx.moveTo(x, 8);
    ctx.lineTo(x, bottom);
    ctx.stroke();
    ctx.beginPath();
    ctx.moveTo(x - 5, 2);
    ctx.lineTo(x + 5, 2);
    ctx.lineTo(x, 9);
    ctx.fill();
  }

  private words(index: number): string[] {
    return this.lines.series.map((line) => {
      const value = line.values[index];
      return typeof value === "number" ? this.lines.axes.formatY(value) : "–";
    });
  }

  mark(index: number): Mark {
    const { x, series, axes } = this.lines;
    const values = this.words(index).map((word, i) => `${series[i]?.name} ${word}`).join(", ");
    return { x: (this.plane?.x(x[index] as number) ?? 0) - 1, y: 8, w: 2, h: (this.plane?.bottom ?? 8) - 8,
      words: `${axes.xTitle} ${axes.formatX(x[index] as number)}: ${values}`,
      ...(this.arrived ? { open: () => this.arrived?.(index) } : {}) };
  }

  at(x: number): number {
    return this.nearest(x, (value) => this.plane?.x(value) ?? 0);
  }

  private nearest(to: number, place: (value: number) => number): number {
    let best = -1;
    let nearest = Infinity;
    this.lines.x.forEach((value, i) => {
      const distance = Math.abs(place(value) - to);
      if (distance < nearest) [best, nearest] = [i, distance];
    });
    return best;
  }

  beside(index: number, dx: number, dy: number): number {
    return Math.min(this.marks - 1, Math.max(0, index + (dx || dy)));
  }

  table(): Words {
    const { x, series, axes } = this.lines;
    return { head: [axes.xTitle, ...series.map((line) => line.name)],
      rows: x.map((value, i) => [axes.formatX(value), ...this.words(i)]) };
  }
}
