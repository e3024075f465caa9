// Points; those that stand out have another shape as well as another colour.
import { Chart, Mark, Pen, Words } from "./figure";
import { Axes, Plane } from "./plane";

export interface Point {
  x: number;
  y: number;
  series: number;
  out: boolean;
  words: string;
  open?: () => void;
}

const RADIUS = 2.5;
const REACH = 14;

export class ScatterChart implements Chart {
  height = 180;
  marks: number;
  private plane: Plane | null = null;

  // `limit`: a line above which points stand out.
  constructor(private axes: Axes, private points: Point[], private words: Words, private limit: number | null) {
    this.marks = points.length;
  }

  draw(pen: Pen): void {
    const plane = new Plane(pen, this.axes);
    const { ctx, colours } = pen;
    this.plane = plane;
    if (this.limit !== null && this.limit < this.axes.most) {
      ctx.setLineDash([5, 4]);
      ctx.strokeStyle = colours.bad;
      ctx.beginPath();
      ctx.moveTo(plane.x(this.axes.x[0]), plane.y(this.limit));
      ctx.lineTo(plane.x(this.axes.x[1]), plane.y(this.limit));
      ctx.stroke();
      ctx.setLineDash([]);
    }
    for (const point of [...this.points].sort((a, b) => Number(a.out) - Number(b.out))) {
      const [x, y] = [plane.x(point.x), plane.y(point.y)];
      ctx.fillStyle = point.out ? colours.bad : (colours.series[point.series % 8] as string);
      ctx.beginPath();
      if (point.out) {
        ctx.moveTo(x, y - 6);
        ctx.lineTo(x + 5, y + 4);
        ctx.lineTo(x - 5, y + 4);
      } else {
        ctx.arc(x, y, RADIUS, 0, 2 * Math.PI);
      }
      ctx.fill();
    }
  }

  mark(index: number): Mark {
    const point = this.points[index] as Point;
    const x = this.plane?.x(point.x) ?? 0;
    const y = this.plane?.y(point.y) ?? 0;
    return { x: x - 4, y: y - 5, w: 8, h: 10, words: point.words, ...(point.open ? { open: point.open } : {}) };
  }

  at(x: number, y: number): number {
    let best = -1;
    let nearest = REACH * REACH;
    this.points.forEach((point, i) => {
      if (!this.plane) return;
      const distance = (this.plane.x(point.x) - x) ** 2 + (this.plane.y(point.y) - y) ** 2;
      if (distance < nearest) {
        nearest = distance;
        best = i;
      }
    });
    return best;
  }

  // Up and down go from one that stands out to the next.
  beside(index: number, dx: number, dy: number): number {
    let to = index;
    do {
      to += dx || dy;
    } while (dy && this.points[to] && !this.points[to]?.out);
    return this.points[to] ? to : index;
  }

  table(): Words {
    return this.words;
  }
}
