// Rectangles in an array of pixels that is put onto the canvas: the fastest way without a graphics device. The first
// line of a row is filled, the others are copies of it.
import { el } from "../dom";
import { Backend } from "./backend";
import { Frame } from "./frame";

export class Raster implements Backend {
  name = "raster";
  private image: ImageData;
  private pixels: Uint32Array;

  private constructor(readonly canvas: HTMLCanvasElement, readonly ctx: CanvasRenderingContext2D) {
    this.image = ctx.createImageData(1, 1);
    this.pixels = new Uint32Array(this.image.data.buffer);
  }

  static make(): Raster | null {
    // The pixels of a word are those of a canvas on machines of this byte order only; others have canvas 2D.
    if (new Uint8Array(Uint32Array.of(1).buffer)[0] !== 1) return null;
    const canvas = el("canvas");
    const ctx = canvas.getContext("2d", { alpha: false, willReadFrequently: true });
    return ctx && new Raster(canvas, ctx);
  }

  resize(width: number, height: number): void {
    this.canvas.width = width;
    this.canvas.height = height;
    this.image = this.ctx.createImageData(width, height);
    this.pixels = new Uint32Array(this.image.data.buffer);
  }

  draw(frame: Frame, paper: number): void {
    const { pixels } = this;
    const { n, edges, colours } = frame;
    const width = this.image.width;
    pixels.fill(paper);
    for (let i = 0; i < n; ) {
      const [above, below] = [edges[4 * i + 1], edges[4 * i + 3]];
      const line = above * width;
      let [least, most] = [width, 0];
      for (; i < n && edges[4 * i + 1] === above && edges[4 * i + 3] === below; i++) {
        const [left, right, colour] = [edges[4 * i], edges[4 * i + 2], colours[i]];
        for (let x = line + left; x < line + right; x++) pixels[x] = colour;
        if (left < least) least = left;
        if (right > most) most = right;
      }
      for (let y = above + 1; y < below; y++) pixels.copyWithin(y * width + least, line + least, line + most);
    }
    this.ctx.putImageData(this.image, 0, 0);
  }
}
