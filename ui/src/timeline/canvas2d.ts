// Rectangles by canvas 2D: works everywhere, slowly with many.
import { el } from "../dom";
import { Backend } from "./backend";
import { Frame } from "./frame";
import { cssOf } from "./palette";

export class Canvas2d implements Backend {
  name = "canvas";
  private styles = new Map<number, string>();

  private constructor(readonly canvas: HTMLCanvasElement, readonly ctx: CanvasRenderingContext2D) {}

  static make(): Canvas2d | null {
    const canvas = el("canvas");
    const ctx = canvas.getContext("2d", { alpha: false });
    return ctx && new Canvas2d(canvas, ctx);
  }

  resize(width: number, height: number): void {
    this.canvas.width = width;
    this.canvas.height = height;
  }

  draw(frame: Frame, paper: number): void {
    const { ctx, canvas } = this;
    const { n, edges, colours } = frame;
    let last = paper;
    ctx.setTransform(1, 0, 0, 1, 0, 0);
    ctx.fillStyle = this.style(paper);
    ctx.fillRect(0, 0, canvas.width, canvas.height);
    for (let i = 0; i < n; i++) {
      const [left, top] = [edges[4 * i], edges[4 * i + 1]];
      if (colours[i] !== last) ctx.fillStyle = this.style(last = colours[i]);
      ctx.fillRect(left, top, edges[4 * i + 2] - left, edges[4 * i + 3] - top);
    }
  }

  private style(colour: number): string {
    let found = this.styles.get(colour);
    if (found === undefined) this.styles.set(colour, found = cssOf(colour));
    return found;
  }
}
