// Cells in rows and columns, the darker the more. More columns than pixels are merged: each cell shows the
// largest of its columns, so that an outlier stays in sight.
import { Chart, Mark, Pen, shade, Words, write } from "./figure";

export interface Heat {
  rowTitle: string; // "layer"
  columnTitle: string; // "expert"
  rows: string[];
  columns: string[];
  value(row: number, column: number): number | null;
  format(value: number): string;
  words?(row: number, column: number): string; // what a cell says when it is pointed at; else its value
  plainZeros?: boolean; // nothing is remarkable about them: no cross
  open?(row: number, column: number): void;
}

const LEAST_CELL = 3;
const FOOT = 34;

export class HeatChart implements Chart {
  height: number;
  marks = 0;
  private left = 0;
  private cell = { w: 1, h: 1 };
  private merged = 1; // columns in a cell
  private n = 0; // cells in a row

  constructor(private heat: Heat) {
    const row = Math.min(22, Math.max(4, Math.floor(200 / heat.rows.length)));
    this.height = Math.max(40, row * heat.rows.length) + FOOT;
  }

  draw(pen: Pen): void {
    const { ctx, width, height } = pen;
    const { rows, columns } = this.heat;
    const gutter = Math.max(...rows.map((row) => ctx.measureText(row).width), ctx.measureText(this.heat.rowTitle).width);
    this.left = Math.min(120, Math.ceil(gutter) + 8);
    this.merged = Math.max(1, Math.ceil((columns.length * LEAST_CELL) / (width - this.left)));
    this.n = Math.ceil(columns.length / this.merged);
    this.cell = { w: Math.min(90, (width - this.left) / this.n), h: (height - FOOT) / rows.length };
    this.marks = this.n * rows.length;
    const [least, most] = this.range();
    for (let i = 0; i < this.marks; i++) {
      const value = this.cellValue(i);
      const { x, y, w, h } = this.box(i);
      const share = value === null || most === least ? 0.5 : (value - least) / (most - least);
      ctx.fillStyle = value === null ? pen.colours.paper : shade(pen.colours, share);
      ctx.fillRect(x, y, Math.max(1, w - (w > 6 ? 1 : 0)), Math.max(1, h - (h > 6 ? 1 : 0)));
      if (value === 0 && !this.heat.plainZeros && w > 8 && h > 8) this.cross(pen, x, y, w, h);
    }
    const skip = Math.ceil(14 / this.cell.h);
    rows.forEach((row, i) => {
      if (i % skip === 0) write(pen, row, this.left - 6, Math.max(7, (i + 0.5) * this.cell.h), "right", this.left - 8);
    });
    this.axis(pen, height - FOOT + 10);
    this.legend(pen, height - 8, least, most);
  }

  // Of what is shown.
  private range(): [number, number] {
    let least = Infinity;
    let most = -Infinity;
    for (let i = 0; i < this.marks; i++) {
      const value = this.cellValue(i);
      if (value === null) continue;
      least = Math.min(least, value);
      most = Math.max(most, value);
    }
    return least <= most ? [least, most] : [0, 0];
  }

  private cross(pen: Pen, x: number, y: number, w: number, h: number): void {
    pen.ctx.strokeStyle = pen.colours.bad;
    pen.ctx.lineWidth = 1.5;
    pen.ctx.beginPath();
    pen.ctx.moveTo(x + w / 2 - 3, y + h / 2 - 3);
    pen.ctx.lineTo(x + w / 2 + 3, y + h / 2 + 3);
    pen.ctx.moveTo(x + w / 2 + 3, y + h / 2 - 3);
    pen.ctx.lineTo(x + w / 2 - 3, y + h / 2 + 3);
    pen.ctx.stroke();
  }

  private axis(pen: Pen, y: number): void {
    const { columns, rowTitle, columnTitle } = this.heat;
    const widest = pen.ctx.measureText(columns[columns.length - 1] ?? "").width + 16;
    const skip = Math.max(1, Math.ceil(widest / this.cell.w));
    for (let i = 0; i < this.n; i += skip) {
      const middle = this.left + (i + 0.5) * this.cell.w;
      if (middle + widest / 2 <= pen.width + 8) write(pen, columns[i * this.merged] ?? "", middle, y, "center");
    }
    write(pen, `${rowTitle} × ${columnTitle}`, this.left, y + 16);
  }

  private legend(pen: Pen, y: number, least: number, most: number): void {
    const [low, high] = [this.heat.format(least), this.heat.format(most)];
    if (low === high) return write(pen, `all ${high}`, pen.width, y, "right");
    const end = pen.width - pen.ctx.measureText(high).width - 4;
    for (let i = 0; i < 80; i++) {
      pen.ctx.fillStyle = shade(pen.colours, i / 79);
      pen.ctx.fillRect(end - 86 + i, y - 5, 1.5, 10);
    }
    write(pen, high, end, y);
    write(pen, low, end - 92, y, "right");
  }

  private box(index: number): { x: number; y: number; w: number; h: number } {
    const [row, column] = [Math.floor(index / this.n), index % this.n];
    return { x: this.left + column * this.cell.w, y: row * this.cell.h, ...this.cell };
  }

  private columnsOf(index: number): [number, number] {
    const first = (index % this.n) * this.merged;
    return [first, Math.min(first + this.merged, this.heat.columns.length) - 1];
  }

  // The column with the largest value in a cell.
  private largest(index: number): number {
    const row = Math.floor(index / this.n);
    const [first, last] = this.columnsOf(index);
    let best = first;
    for (let column = first; column <= last; column++) {
      if ((this.heat.value(row, column) ?? -1) > (this.heat.value(row, best) ?? -1)) best = column;
    }
    return best;
  }

  private cellValue(index: number): number | null {
    return this.heat.value(Math.floor(index / this.n), this.largest(index));
  }

  mark(index: number): Mark {
    const { rowTitle, columnTitle, rows, columns, open } = this.heat;
    const row = Math.floor(index / this.n);
    const column = this.largest(index);
    const value = this.cellValue(index);
    const [first, last] = this.columnsOf(index);
    const merged = last > first ? ` (the most of ${columns[first]} to ${columns[last]})` : "";
    const words = `${rowTitle} ${rows[row]}, ${columnTitle} ${columns[column]}${merged}: `
      + (this.heat.words?.(row, column) ?? (value === null ? "no value" : this.heat.format(value)));
    return { ...this.box(index), words, ...(open ? { open: () => open(row, column) } : {}) };
  }

  at(x: number, y: number): number {
    const [column, row] = [Math.floor((x - this.left) / this.cell.w), Math.floor(y / this.cell.h)];
    return column >= 0 && column < this.n && row >= 0 && row < this.heat.rows.length ? row * this.n + column : -1;
  }

  beside(index: number, dx: number, dy: number): number {
    const column = Math.min(this.n - 1, Math.max(0, (index % this.n) + dx));
    const row = Math.min(this.heat.rows.length - 1, Math.max(0, Math.floor(index / this.n) + dy));
    return row * this.n + column;
  }

  table(): Words {
    const { rows, columns, rowTitle, columnTitle, format, value } = this.heat;
    return { head: [`${rowTitle} \\ ${columnTitle}`, ...columns.slice(0, 256)],
      rows: rows.map((row, r) => [row, ...columns.slice(0, 256).map((_, c) => {
        const found = value(r, c);
        return found === null ? "–" : format(found);
      })]) };
  }
}
