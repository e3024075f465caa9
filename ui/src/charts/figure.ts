// A picture on canvas with what belongs to every one: sharp on every screen, in the colours of the theme,
// read by pointer and by keyboard, with the same figures as a table for those who do not see it.
import { el, uniqueId } from "../dom";
import { THEME_EVENT } from "../theme";

export interface Colours {
  ink: string;
  faint: string;
  line: string;
  paper: string;
  raised: string;
  accent: string;
  bad: string;
  series: string[]; // can be told apart by colour-blind people, also by their lightness
  ramp: number[][]; // from little to much, as red, green, blue
}

export interface Pen {
  ctx: CanvasRenderingContext2D;
  width: number;
  height: number;
  colours: Colours;
}

export interface Mark {
  x: number;
  y: number;
  w: number;
  h: number;
  words: string; // what is there
  open?: () => void;
}

export interface Words {
  head: string[];
  rows: string[][];
}

// Its marks are counted from 0, in the order of the arrow keys.
export interface Chart {
  height: number;
  marks: number; // valid once it is drawn
  draw(pen: Pen): void;
  mark(index: number): Mark;
  at(x: number, y: number): number; // -1: nothing
  beside(index: number, dx: number, dy: number): number;
  table(): Words;
  // The mark to go on from when it takes the place of another chart; else the one with the same number.
  first?(): number;
  // A key has gone to this mark.
  arrived?(index: number): void;
}

const MOST_ROWS = 1000;
const TALL = 340; // as in page.css: more is scrolled
const FONT = "12px system-ui, sans-serif";

function rgb(text: string): number[] {
  return [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
}

export function coloursOfTheme(): Colours {
  const style = getComputedStyle(document.documentElement);
  const get = (name: string): string => style.getPropertyValue(`--${name}`).trim();
  return { ink: get("ink"), faint: get("faint"), line: get("line"), paper: get("paper"),
    raised: get("raised"), accent: get("accent"), bad: get("bad"), series: [1, 2, 3, 4, 5, 6, 7, 8].map((n) => get(`series-${n}`)),
    ramp: [0, 1, 2, 3].map((n) => rgb(get(`ramp-${n}`))) };
}

// A share from 0 to 1 as a colour.
export function shade(colours: Colours, share: number): string {
  const at = Math.min(1, Math.max(0, share)) * (colours.ramp.length - 1);
  const low = colours.ramp[Math.floor(at)] as number[];
  const high = colours.ramp[Math.ceil(at)] as number[];
  const mixed = low.map((part, i) => Math.round(part + ((high[i] as number) - part) * (at % 1)));
  return `rgb(${mixed.join(",")})`;
}

// Round values for an axis up to `most`.
export function ticks(most: number, n: number): number[] {
  if (!(most > 0)) return [0];
  const rough = most / n;
  const power = 10 ** Math.floor(Math.log10(rough));
  const unit = [1, 2, 5, 10].map((m) => m * power).find((candidate) => candidate >= rough) as number;
  return Array.from({ length: Math.floor(most / unit + 1e-9) + 1 }, (_, i) => i * unit);
}

export function write(pen: Pen, words: string, x: number, y: number, align: CanvasTextAlign = "left",
  room = Infinity): void {
  let shown = words;
  pen.ctx.fillStyle = pen.colours.ink;
  pen.ctx.textAlign = align;
  pen.ctx.textBaseline = "middle";
  while (shown.length > 1 && pen.ctx.measureText(shown).width > room) {
    shown = `${shown.slice(0, Math.floor(shown.length * 0.9) - 1)}…`;
  }
  pen.ctx.fillText(shown, x, y);
}

export class Figure {
  element: HTMLElement;
  private canvas = el("canvas", { tabindex: "0", role: "img" });
  private tip = el("div", { class: "tip", role: "status" });
  private frame = el("div", { class: "mark" }); // around what is pointed at: no need to draw all again
  private caption = el("figcaption");
  private note = el("p", { class: "note" });
  private words: HTMLDetailsElement;
  private drawn: HTMLElement[]; // what a picture is made of; a sentence has none of it
  private chart: Chart | null = null;
  private current = -1;
  private waiting = 0;
  private isNew = false;

  constructor(title: string) {
    const id = uniqueId("figure");
    this.caption.id = id;
    this.caption.textContent = title;
    this.tip.hidden = this.frame.hidden = true;
    this.note.hidden = true;
    this.canvas.setAttribute("aria-label", `${title}: a picture; the arrow keys go through it`);
    this.words = el("details", { class: "words" }, el("summary", {}, "As a table"));
    this.words.addEventListener("toggle", () => this.paintWords());
    this.drawn = [el("div", { class: "canvas" }, this.canvas, this.frame, this.tip), this.note, this.words];
    this.element = el("figure", { "aria-labelledby": id }, this.caption, ...this.drawn);
    new ResizeObserver(() => this.paintSoon()).observe(this.element);
    this.canvas.addEventListener(THEME_EVENT, () => this.paintSoon());
    this.canvas.addEventListener("pointermove", (event) => {
      this.point(this.chart?.at(event.offsetX, event.offsetY) ?? -1);
    });
    this.canvas.addEventListener("pointerleave", () => this.point(-1));
    this.canvas.addEventListener("blur", () => this.point(-1));
    this.canvas.addEventListener("click", () => this.activate());
    this.canvas.addEventListener("keydown", (event) => this.key(event));
  }

  // null: there is nothing to show.
  show(chart: Chart | null, title?: string, note = ""): void {
    this.chart = chart;
    this.isNew = true;
    if (title) this.caption.textContent = title;
    this.note.textContent = note;
    this.note.hidden = !note;
    this.element.hidden = !chart;
    if (chart && !this.canvas.isConnected) this.element.append(...this.drawn);
    this.paintSoon();
    this.paintWords();
  }

  // A sentence in place of a picture.
  tell(sentence: string, title: string): void {
    this.show(null, title, sentence);
    this.element.hidden = false;
    this.element.replaceChildren(this.caption, this.note);
  }

  // After the layout, which gives the width.
  paintSoon(): void {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => {
      this.waiting = 0;
      this.paint();
    });
  }

  private paint(): void {
    const width = this.canvas.parentElement?.clientWidth ?? 0;
    const ctx = this.canvas.getContext("2d");
    if (!this.chart || !ctx || width < 40) return;
    const height = this.chart.height;
    this.canvas.parentElement?.classList.toggle("tall", height > TALL);
    const sharpness = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(width * sharpness);
    this.canvas.height = Math.round(height * sharpness);
    this.canvas.style.height = `${height}px`;
    ctx.setTransform(sharpness, 0, 0, sharpness, 0, 0);
    ctx.font = FONT;
    this.chart.draw({ ctx, width, height, colours: coloursOfTheme() });
    if (this.isNew && this.current >= 0 && this.chart.first) this.current = this.chart.first();
    this.isNew = false;
    if (this.current >= this.chart.marks) this.current = -1;
    this.paintMark();
  }

  private paintMark(): void {
    this.tip.hidden = this.frame.hidden = this.current < 0;
    if (this.current < 0 || !this.chart) return;
    const mark = this.chart.mark(this.current);
    const width = this.canvas.clientWidth;
    const sizes = { left: mark.x - 1, top: mark.y - 1, width: mark.w + 2, height: mark.h + 2 };
    for (const [name, size] of Object.entries(sizes)) this.frame.style.setProperty(name, `${size}px`);
    this.tip.textContent = mark.words;
    this.tip.style.left = `${Math.max(0, Math.min(mark.x + mark.w + 8, width - this.tip.offsetWidth))}px`;
    const above = mark.y - this.tip.offsetHeight - 6;
    this.tip.style.top = `${above >= 0 ? above : mark.y + mark.h + 6}px`;
    this.canvas.style.cursor = mark.open ? "pointer" : "default";
  }

  private point(index: number): void {
    if (index === this.current) return;
    this.current = index;
    this.canvas.style.cursor = "default";
    this.paintMark();
  }

  private activate(): void {
    if (this.chart && this.current >= 0) this.chart.mark(this.current).open?.();
  }

  private key(event: KeyboardEvent): void {
    const moves: { [key: string]: number[] } = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1],
      ArrowUp: [0, -1] };
    const move = moves[event.key] as [number, number] | undefined;
    if (!this.chart?.marks) return;
    if (event.key === "Enter") this.activate();
    else if (event.key === "Escape") this.point(-1);
    else if (move) this.step(...move);
    else return;
    event.preventDefault();
    this.frame.scrollIntoView({ block: "nearest" });
  }

  private step(dx: number, dy: number): void {
    if (!this.chart) return;
    this.point(this.current < 0 ? this.chart.first?.() ?? 0 : this.chart.beside(this.current, dx, dy));
    this.chart.arrived?.(this.current);
  }

  private paintWords(): void {
    if (!this.words.open || !this.chart) return;
    const { head, rows } = this.chart.table();
    this.words.querySelector(".wide")?.remove();
    this.words.append(el("div", { class: "wide" }, el("table", {},
      el("thead", {}, el("tr", {}, ...head.map((word) => el("th", { scope: "col" }, word)))),
      el("tbody", {}, ...rows.slice(0, MOST_ROWS).map((row) => el("tr", {}, ...row.map((word) => el("td", {}, word)))))),
      rows.length > MOST_ROWS ? el("p", {}, `and ${rows.length - MOST_ROWS} more`) : null));
  }
}
