// Stacks as boxes, the outermost at the top: as wide as their time, what is inside below them.
import { ns, pct } from "../format";
import { everyNode, pathOf, StackNode } from "../stacks";
import { Chart, Mark, Pen, Words, write } from "./figure";

const ROW = 20;
const NARROWEST = 0.5; // pixels of a box that is drawn
const READABLE = 24; // pixels of a box with its name in it

const COLOURS = [0, 1, 2, 3, 4, 5, 7]; // of the series: grey is for what has no name

interface Box {
  of: StackNode;
  x: number;
  w: number;
}

export interface Flame {
  root: StackNode;
  zoom: StackNode; // as wide as the picture
  found: Set<StackNode> | null; // that stand out; null: nothing is searched for
  open(node: StackNode): void;
}

// The same name has the same colour wherever it is.
function colourOf(name: string): number {
  let hash = 0;
  for (let i = 0; i < name.length; i++) hash = (hash * 31 + name.charCodeAt(i)) | 0;
  return COLOURS[Math.abs(hash) % COLOURS.length] as number;
}

export class FlameChart implements Chart {
  height: number;
  marks = 0;
  private boxes: Box[] = [];

  constructor(private flame: Flame) {
    const deepest = everyNode(flame.zoom).reduce((most, of) => Math.max(most, of.depth), 0);
    this.height = (deepest + 1) * ROW + 2;
  }

  draw(pen: Pen): void {
    this.boxes = [];
    for (let at = this.flame.zoom.parent; at; at = at.parent) this.boxes.unshift({ of: at, x: 0, w: pen.width });
    this.lay(this.flame.zoom, 0, pen.width);
    this.marks = this.boxes.length;
    for (const box of this.boxes) this.box(pen, box);
    pen.ctx.globalAlpha = 1;
  }

  private lay(of: StackNode, x: number, w: number): void {
    this.boxes.push({ of, x, w });
    for (const child of of.children) {
      const width = of.totalNs ? (child.totalNs / of.totalNs) * w : 0;
      if (width >= NARROWEST) this.lay(child, x, width);
      x += width;
    }
  }

  private box(pen: Pen, { of, x, w }: Box): void {
    const { ctx, colours } = pen;
    const { found } = this.flame;
    const y = of.depth * ROW;
    const plain = of.merged || !of.parent;
    ctx.globalAlpha = found ? (found.has(of) ? 1 : 0.12) : plain ? 1 : 0.42;
    ctx.fillStyle = found?.has(of) ? colours.series[1] as string : plain ? colours.line
      : colours.series[colourOf(of.name)] as string;
    ctx.fillRect(x, y, Math.max(NARROWEST, w - 1), ROW - 1);
    ctx.globalAlpha = found && !found.has(of) ? 0.6 : 1;
    if (w < READABLE) return;
    const own = found?.has(of) ? { ...pen, colours: { ...colours, ink: "#1c2430" } } : pen;
    write(own, of.name, x + 4, y + ROW / 2, "left", w - 8);
  }

  private words(of: StackNode): string {
    const share = (part: number): string => pct(this.flame.root.totalNs ? (100 * part) / this.flame.root.totalNs : 0);
    const total = `${of.name}: ${ns(of.totalNs)}, ${share(of.totalNs)} of all`;
    if (of.merged) return `${total}; too small or too deep to be shown one by one`;
    return `${total}; itself ${ns(of.selfNs)}, ${share(of.selfNs)}${of.count ? `; ${of.count} times` : ""}`;
  }

  mark(index: number): Mark {
    const { of, x, w } = this.boxes[index] as Box;
    return { x, y: of.depth * ROW, w: Math.max(1, w - 1), h: ROW - 1, words: this.words(of),
      ...(of.merged ? {} : { open: () => this.flame.open(of) }) };
  }

  // The mark of a node; -1: it is too narrow, or not in sight.
  markOf(of: StackNode): number {
    return this.boxes.findIndex((box) => box.of === of);
  }

  first(): number {
    return this.markOf(this.flame.zoom);
  }

  at(x: number, y: number): number {
    const depth = Math.floor(y / ROW);
    return this.boxes.findIndex((box) => box.of.depth === depth && x >= box.x && x < box.x + box.w);
  }

  // Beside it on the same row; above the one around it, below the largest inside.
  beside(index: number, dx: number, dy: number): number {
    const { of } = this.boxes[index] as Box;
    if (dy) {
      const to = dy < 0 ? of.parent : this.boxes.find((box) => box.of.parent === of)?.of;
      return to ? this.markOf(to) : index;
    }
    const row = this.boxes.filter((box) => box.of.depth === of.depth).sort((a, b) => a.x - b.x);
    const next = row[row.findIndex((box) => box.of === of) + dx];
    return next ? this.boxes.indexOf(next) : index;
  }

  table(): Words {
    const all = everyNode(this.flame.zoom).filter((of) => of.parent);
    return { head: ["stack", "total", "self", "times"], rows: all.sort((a, b) => b.totalNs - a.totalNs)
      .map((of) => [pathOf(of), ns(of.totalNs), ns(of.selfNs), of.merged || !of.count ? "–" : String(of.count)]) };
  }
}
