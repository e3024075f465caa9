// What draws the rectangles of a frame. Three do: WebGL2 where the browser has a graphics device for it, a raster of
// our own where it would only imitate one, and canvas 2D where neither works.
import { Canvas2d } from "./canvas2d";
import { Frame } from "./frame";
import { Raster } from "./raster";
import { Webgl } from "./webgl";

export interface Backend {
  name: string;
  canvas: HTMLCanvasElement;
  ctx: CanvasRenderingContext2D | null; // for text on the same canvas
  // In pixels of the device.
  resize(width: number, height: number): void;
  draw(frame: Frame, paper: number): void;
}

const MADE: { [name: string]: () => Backend | null } = {
  webgl2: () => Webgl.make(false),
  raster: () => Raster.make(),
  canvas: () => Canvas2d.make(),
};

// The one that is asked for, or the best that works here; some works, since the page asks for canvas 2D at its start.
export function chooseBackend(wanted: string): Backend {
  const made = MADE[wanted]?.() ?? Webgl.make(true) ?? Raster.make() ?? Canvas2d.make();
  if (!made) throw new Error("no back end for the timeline");
  return made;
}
