// What charts with two axes share: the frame, its grid, and the way from values to pixels.
import { Pen, ticks, write } from "./figure";

export interface Axes {
  xTitle: string;
  x: [number, number];
  most: number; // of y, from 0
  formatX(value: number): string;
  formatY(value: number): string;
}

export class Plane {
  private left: number;
  private right: number;
  readonly bottom: number;

  // `inset`: room at both ends, for columns that are wider than a point.
  constructor(pen: Pen, private axes: Axes, private inset = 4) {
    const { ctx, width, height } = pen;
    const marks = ticks(axes.most, 4);
    this.left = Math.max(...marks.map((tick) => ctx.measureText(axes.formatY(tick)).width)) + 8;
    this.right = width - 8;
    this.bottom = height - 22;
    ctx.strokeStyle = pen.colours.line;
    ctx.lineWidth = 1;
    for (const tick of marks) {
      const y = Math.round(this.y(tick)) + 0.5;
      ctx.beginPath();
      ctx.moveTo(this.left, y);
      ctx.lineTo(this.right, y);
      ctx.stroke();
      write(pen, axes.formatY(tick), this.left - 6, Math.max(7, y), "right");
    }
    const [first, last] = axes.x;
    const middle = Math.round((first + last) / 2);
    write(pen, `${axes.xTitle} ${axes.formatX(first)}`, this.left, height - 9);
    if (last > first) write(pen, axes.formatX(last), this.right, height - 9, "right");
    if (last > first + 1) write(pen, axes.formatX(middle), this.x(middle), height - 9, "center");
  }

  x(value: number): number {
    const [first, last] = this.axes.x;
    const share = last > first ? (value - first) / (last - first) : 0.5;
    return this.left + this.inset + share * (this.right - this.left - 2 * this.inset);
  }

  y(value: number): number {
    return this.bottom - (this.axes.most > 0 ? value / this.axes.most : 0) * (this.bottom - 8);
  }

  // From the first value to the last.
  get width(): number {
    return this.right - this.left - 2 * this.inset;
  }
}
