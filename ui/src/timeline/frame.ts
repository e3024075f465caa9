// The rectangles of one frame, in pixels of the device. Those of a row of the screen come one after another, and what
// is under a row looks the same on all its lines.
import { Layout } from "./lanes";
import { Boxes, firstAfter } from "./model";
import { Span } from "./span";

// A box that is wide enough for words.
export interface Label {
  left: number;
  right: number;
  middle: number;
  name: number;
}

export class Frame {
  n = 0;
  edges = new Int16Array(4 * 4096); // left, top, right, bottom
  colours = new Uint32Array(4096);
  labels: Label[] = [];

  add(left: number, top: number, right: number, bottom: number, colour: number): void {
    if (this.n === this.colours.length) this.grow();
    const at = 4 * this.n;
    this.edges[at] = left;
    this.edges[at + 1] = top;
    this.edges[at + 2] = right;
    this.edges[at + 3] = bottom;
    this.colours[this.n++] = colour;
  }

  private grow(): void {
    const [edges, colours] = [new Int16Array(this.edges.length * 2), new Uint32Array(this.colours.length * 2)];
    edges.set(this.edges);
    colours.set(this.colours);
    this.edges = edges;
    this.colours = colours;
  }
}

export interface Scene {
  layout: Layout;
  lanes: Map<number, Boxes>;
  colours: Uint32Array;
  raised: number; // behind the names of groups
  line: number;
  span: Span;
  ticks: number[];
  width: number; // pixels of the device, as all that follows
  height: number;
  sharpness: number; // pixels of the device in one of the page
  top: number; // of the rows, below the axis
  scroll: number; // pixels of the page
}

const LABEL_FROM = 26; // pixels of the page

const GAP_FROM = 4; // boxes at least so wide have a gap after them

export function buildFrame(frame: Frame, scene: Scene): void {
  const { span, width, height, sharpness, top } = scene;
  const perNs = width / (span.to - span.from);
  frame.n = 0;
  frame.labels = [];
  const bands = scene.layout.rows.map((row) => ({ row,
    above: Math.max(top, Math.round((row.y - scene.scroll) * sharpness) + top),
    below: Math.min(height, Math.round((row.y + row.height - 1 - scene.scroll) * sharpness) + top) }))
    .filter(({ above, below }) => below > above);
  for (const time of scene.ticks) {
    const x = Math.round((time - span.from) * perNs);
    if (x > 0 && x < width) frame.add(x, top - 4, x + 1, height, scene.line);
  }
  for (const { row, above, below } of bands) if (row.isGroup) frame.add(0, above, width, below, scene.raised);
  for (const { row, above, below } of bands) {
    const boxes = row.lane && scene.lanes.get(row.lane.lane);
    if (boxes) addBoxes(frame, scene, boxes, above, below);
  }
}

// Edges are rounded before they are moved, so that a box keeps its width while it is dragged. Of several boxes in one
// column the longest is seen.
function addBoxes(frame: Frame, scene: Scene, boxes: Boxes, above: number, below: number): void {
  const { span, width, colours } = scene;
  const { n, start, duration, name } = boxes;
  const perNs = width / (span.to - span.from);
  const origin = Math.round(span.from * perNs);
  const wide = LABEL_FROM * scene.sharpness;
  let column = -1; // of the last box, if it is one pixel wide
  let longest = 0;
  for (let i = firstAfter(boxes, span.from); i < n; i++) {
    const left = Math.round(start[i] * perNs) - origin;
    if (left >= width) break;
    let right = Math.round((start[i] + duration[i]) * perNs) - origin;
    if (right <= left) right = left + 1;
    else if (right - left >= GAP_FROM) right--;
    if (right - left === 1 && left === column) {
      if (duration[i] <= longest) continue;
      frame.n--;
    }
    column = right - left === 1 ? left : -1;
    longest = duration[i];
    const [first, last] = [Math.max(0, left), Math.min(width, right)];
    frame.add(first, above, last, below, colours[name[i]]);
    if (last - first >= wide) frame.labels.push({ left: first, right: last, middle: (above + below) / 2, name: name[i] });
  }
}
