// The picture: lanes with their names, the axis, what is chosen, and the words under the pointer. It paints once a
// frame at most, with the boxes that are there, and asks for better ones.
import { Colours, coloursOfTheme } from "../charts/figure";
import { button, el, repaint } from "../dom";
import { THEME_EVENT } from "../theme";
import { Backend, chooseBackend } from "./backend";
import { buildFrame, Frame } from "./frame";
import { laneKey, lanesBetween, layOut, Layout, rowAt, rowOf } from "./lanes";
import { Loader } from "./loader";
import { About, Box, boxAt, firstAfter, Names } from "./model";
import { Palette, pixelOf } from "./palette";
import { Axis, axisOf, Span, within } from "./span";
import { boxWords, brief } from "./words";

export interface Area extends Span {
  lanes: number[]; // that are in it, from top to bottom
}

export const AXIS = 24; // its height
const TICK = 110; // pixels between two, about
const SLOW_MS = 14; // frames that take longer go without text while the picture moves
const SETTLED_MS = 120;
const LETTER = 6; // its width, about
const NEAR = 3; // pixels beside a box that count as on it
const LABEL = "Timeline of the run: arrow keys go from event to event and from lane to lane, A and D move, "
  + "W and S zoom, Home shows all";

export class Stage {
  element: HTMLElement;
  place = el("div", { class: "stage" });
  layout: Layout = { rows: [], height: 0 };
  span: Span = { from: 0, to: 1 };
  chosen: Box | null = null;
  area: Area | null = null;
  folded = new Set<string>();
  private about: About = { end: 0, events: 0, lanes: [], leftOut: 0, absent: "", stepsAbsent: "", sinceStart: 0 };
  private backend: Backend;
  private overlay: CanvasRenderingContext2D;
  private labels = el("div", { class: "lane-names" });
  private corner = el("div", { class: "corner" });
  private tip = el("div", { class: "tip" });
  private frame = new Frame();
  private palette = new Palette(false, "");
  private colours: Colours = coloursOfTheme();
  private find = "";
  private waiting = 0;
  private settled = 0;
  private isSlow = false;
  private isPainted = false;
  private size = { width: 0, height: 0, sharpness: 1 };
  private resized = new ResizeObserver(() => this.measure());

  constructor(readonly loader: Loader, readonly names: Names, wanted: string, private fold: (key: string) => void) {
    this.element = el("div", { class: "lanes" },
      el("div", { class: "lane-column" }, this.corner, this.labels), this.place);
    this.tip.hidden = true;
    this.backend = chooseBackend(wanted);
    this.overlay = this.mount();
    this.element.addEventListener("scroll", () => this.paintSoon());
    this.resized.observe(this.element);
  }

  get canvas(): HTMLCanvasElement {
    return this.backend.canvas;
  }

  get backendName(): string {
    return this.backend.name;
  }

  close(): void {
    this.resized.disconnect();
    this.loader.close();
    cancelAnimationFrame(this.waiting);
    clearTimeout(this.settled);
  }

  // Another back end, in place of one that was not asked for or that has lost its device.
  use(wanted: string): void {
    this.backend = chooseBackend(wanted);
    this.overlay = this.mount();
    this.measure();
  }

  private mount(): CanvasRenderingContext2D {
    const { canvas, name } = this.backend;
    const above = this.backend.ctx ? null : el("canvas", { class: "above", "aria-hidden": "true" });
    for (const [key, value] of Object.entries({ tabindex: "0", role: "application", "aria-label": LABEL,
      "aria-describedby": "timeline-told", "data-backend": name })) canvas.setAttribute(key, value);
    canvas.addEventListener(THEME_EVENT, () => this.paintTheme());
    canvas.addEventListener("webglcontextlost", () => this.use("raster"));
    this.place.replaceChildren(canvas, ...(above ? [above] : []), this.tip);
    return (this.backend.ctx ?? above?.getContext("2d")) as CanvasRenderingContext2D;
  }

  private paintTheme(): void {
    this.colours = coloursOfTheme();
    this.palette = new Palette(document.documentElement.dataset["theme"] === "dark", this.find);
    this.paintSoon();
  }

  setFind(find: string): void {
    this.find = find.trim().toLowerCase();
    this.paintTheme();
  }

  // A run that grows gets lanes between others: what is here moves to their new numbers.
  setAbout(about: About): void {
    const numbers = new Map(about.lanes.map((lane) => [laneKey(lane), lane.lane]));
    const moved = new Map(this.about.lanes.map((lane) => [lane.lane, numbers.get(laneKey(lane))]));
    this.loader.stale(moved);
    if (this.chosen) this.chosen = { ...this.chosen, lane: moved.get(this.chosen.lane) ?? this.chosen.lane };
    this.about = about;
    this.arrange();
  }

  setFolded(folded: Set<string>): void {
    this.folded = folded;
    this.arrange();
  }

  private arrange(): void {
    this.layout = layOut(this.about.lanes, this.folded);
    this.labels.style.height = `${this.layout.height}px`;
    repaint(this.labels, ...this.layout.rows.filter((row) => row.label).map((row) => {
      const made = row.folds ? button(`${row.folded ? "▸" : "▾"} ${row.label}`, () => this.fold(row.folds),
        { "aria-expanded": String(!row.folded), "data-key": `fold ${row.folds}`, title: row.label })
        : el("span", { title: row.label }, row.label);
      made.classList.toggle("group", row.isGroup);
      made.style.top = `${row.y}px`;
      made.style.height = `${row.height}px`;
      return made;
    }));
    this.paintSoon();
  }

  look(span: Span): void {
    this.span = within(span, this.about.end);
    this.paintSoon();
  }

  measure(): void {
    const sharpness = window.devicePixelRatio || 1;
    const { clientHeight } = this.element;
    const width = this.place.clientWidth;
    this.size = { width, height: clientHeight, sharpness };
    if (width < 40 || clientHeight < 40) return;
    this.place.style.height = `${clientHeight}px`;
    const [w, h] = [Math.round(width * sharpness), Math.round(clientHeight * sharpness)];
    this.backend.resize(w, h);
    if (!this.backend.ctx) Object.assign(this.overlay.canvas, { width: w, height: h });
    this.paintTheme();
    this.paint(); // before the next frame, which would show an empty canvas
  }

  paintSoon(): void {
    this.waiting ||= requestAnimationFrame(() => {
      this.waiting = 0;
      this.paint();
    });
  }

  // A picture that stands still has all its words, however long they take.
  private paint(isStill = false): void {
    const { width, height, sharpness } = this.size;
    if (width < 40 || height < 40) return;
    const began = performance.now();
    const scroll = this.element.scrollTop;
    const axis = axisOf(this.span, Math.max(2, width / TICK));
    this.palette.fill(this.names);
    buildFrame(this.frame, { layout: this.layout, lanes: this.loader.lanes, colours: this.palette.colours,
      raised: pixelOf(this.colours.raised), line: pixelOf(this.colours.line), span: this.span,
      ticks: axis.ticks.map((tick) => tick.time), width: Math.round(width * sharpness),
      height: Math.round(height * sharpness), sharpness, top: Math.round(AXIS * sharpness), scroll });
    this.backend.draw(this.frame, pixelOf(this.colours.paper));
    const withNames = isStill || !this.isSlow;
    this.paintAbove(axis, withNames);
    if (withNames) this.isSlow = performance.now() - began > SLOW_MS;
    clearTimeout(this.settled);
    if (!withNames) this.settled = window.setTimeout(() => this.paint(true), SETTLED_MS);
    this.loader.want({ span: this.span, width: Math.round(width * sharpness),
      lanes: lanesBetween(this.layout, scroll - height / 4, scroll + height * 1.25) }, this.about.end);
    if (!this.isPainted && this.loader.lanes.size) {
      this.isPainted = true;
      performance.mark("timeline-painted");
    }
  }

  private paintAbove(axis: Axis, withNames: boolean): void {
    const ctx = this.overlay;
    const { width, height, sharpness } = this.size;
    if (!this.backend.ctx) {
      ctx.setTransform(1, 0, 0, 1, 0, 0);
      ctx.clearRect(0, 0, ctx.canvas.width, ctx.canvas.height);
    }
    ctx.setTransform(sharpness, 0, 0, sharpness, 0, 0);
    ctx.textBaseline = "middle";
    ctx.textAlign = "left";
    this.paintAxis(ctx, axis);
    ctx.save();
    ctx.beginPath();
    ctx.rect(0, AXIS, width, height - AXIS);
    ctx.clip();
    if (withNames) this.paintNames(ctx);
    this.paintChoice(ctx);
    ctx.restore();
  }

  private paintAxis(ctx: CanvasRenderingContext2D, axis: Axis): void {
    ctx.font = "11px system-ui, sans-serif";
    ctx.fillStyle = this.colours.faint;
    for (const { time, label } of axis.ticks) ctx.fillText(label, this.x(time) + 4, AXIS / 2);
    ctx.fillStyle = this.colours.line;
    ctx.fillRect(0, AXIS - 1, this.size.width, 1);
    const words = axis.base ? `after ${axis.base}` : "";
    if (this.corner.textContent !== words) this.corner.textContent = words;
  }

  private paintNames(ctx: CanvasRenderingContext2D): void {
    const { sharpness } = this.size;
    ctx.fillStyle = this.palette.text;
    for (const { left, right, middle, name } of this.frame.labels) {
      const room = (right - left) / sharpness - 6;
      const word = this.names.words[name] ?? "";
      if (this.palette.isFaded(word)) continue;
      const letters = Math.floor(room / LETTER);
      const whole = brief(word);
      const short = whole.length > letters ? whole.replace(/^step (?=\d+$)/, "") : whole;
      ctx.fillText(short.length > letters ? `${short.slice(0, letters - 1)}…` : short, left / sharpness + 3,
        middle / sharpness + 0.5, room);
    }
  }

  private paintChoice(ctx: CanvasRenderingContext2D): void {
    const scroll = this.element.scrollTop;
    const row = this.chosen ? rowOf(this.layout, this.chosen.lane) : undefined;
    if (this.area) {
      const rows = this.area.lanes.map((lane) => rowOf(this.layout, lane)).filter((each) => each !== undefined);
      const [first, last] = [rows[0], rows[rows.length - 1]];
      if (first && last) this.outline(ctx, this.area, first.y - scroll, last.y + last.height - scroll, true);
    }
    if (this.chosen && row) {
      this.outline(ctx, { from: this.chosen.start, to: this.chosen.start + this.chosen.duration }, row.y - scroll,
        row.y + row.height - 1 - scroll, false);
    }
  }

  private outline(ctx: CanvasRenderingContext2D, span: Span, above: number, below: number, isArea: boolean): void {
    const left = Math.max(-4, this.x(span.from));
    const right = Math.min(this.size.width + 4, this.x(span.to));
    ctx.strokeStyle = isArea ? this.colours.accent : this.colours.ink;
    ctx.lineWidth = 2;
    if (isArea) {
      ctx.globalAlpha = 0.18;
      ctx.fillStyle = this.colours.accent;
      ctx.fillRect(left, AXIS + above, right - left, below - above);
      ctx.globalAlpha = 1;
    }
    ctx.strokeRect(left, AXIS + above, Math.max(2, right - left), below - above);
  }

  // From times to pixels of the page and back.
  x(time: number): number {
    return ((time - this.span.from) / (this.span.to - this.span.from)) * this.size.width;
  }

  time(x: number): number {
    return this.span.from + (x / Math.max(1, this.size.width)) * (this.span.to - this.span.from);
  }

  get width(): number {
    return Math.max(1, this.size.width);
  }

  boxUnder(x: number, y: number): Box | null {
    const row = y < AXIS ? undefined : rowAt(this.layout, y - AXIS + this.element.scrollTop);
    const boxes = row?.lane ? this.loader.lanes.get(row.lane.lane) : undefined;
    if (!row?.lane || !boxes) return null;
    const near = this.time(x + NEAR) - this.time(x);
    const exact = firstAfter(boxes, this.time(x));
    const i = exact < boxes.n && boxes.start[exact] <= this.time(x) ? exact : firstAfter(boxes, this.time(x) - near);
    return i < boxes.n && boxes.start[i] <= this.time(x) + near ? boxAt(row.lane.lane, boxes, this.names, i) : null;
  }

  // The lanes between two heights of the picture, in their order.
  lanesIn(y0: number, y1: number): number[] {
    const scroll = this.element.scrollTop - AXIS;
    return lanesBetween(this.layout, Math.min(y0, y1) + scroll, Math.max(y0, y1) + scroll);
  }

  point(x: number, y: number, box: Box | null): void {
    this.tip.hidden = !box;
    if (!box) return;
    this.tip.textContent = boxWords(box);
    this.tip.style.left = `${Math.max(0, Math.min(x + 12, this.size.width - this.tip.offsetWidth))}px`;
    const below = y + 18 + this.tip.offsetHeight < this.size.height;
    this.tip.style.top = `${below ? y + 18 : y - this.tip.offsetHeight - 8}px`;
  }

  reveal(lane: number): void {
    const row = rowOf(this.layout, lane);
    const room = this.size.height - AXIS;
    if (!row) return;
    if (row.y < this.element.scrollTop) this.element.scrollTop = row.y;
    else if (row.y + row.height > this.element.scrollTop + room) this.element.scrollTop = row.y + row.height - room;
  }
}
