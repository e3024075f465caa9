// One table for all views. Only the rows in sight are in the document, so that their number costs nothing;
// new rows keep the order, the search, the selection and the scroll position.
import { el, uniqueId } from "./dom";
import { title, titles } from "./format";
import { Fields, reason } from "./json";
import { meaning } from "./meanings";
import { cellOf, Column, columnsOf, rowKey, search, sorted } from "./rows";
import { View } from "./views";

const ROW_PX = 26; // as in page.css
const AROUND = 12; // rows beyond those in sight
const MOST_CHARACTERS = 44;

export interface TableEvents {
  sorted(sort: string): void;
  selected(key: string): void;
  opened(row: Fields): void;
}

export class Table {
  element: HTMLElement;
  private head = el("tr");
  private sizes = el("colgroup");
  private body = el("tbody");
  private above = el("td");
  private below = el("td");
  private grid: HTMLTableElement;
  private scroller: HTMLElement;
  private notes = el("div", { class: "absent" });
  private columns: Column[] = [];
  private titles = new Map<string, string>();
  private all: Fields[] = [];
  private shown: Fields[] = [];
  private sort = "";
  private find = "";
  private chosen = "";
  private painting = 0;
  private id = uniqueId("row");

  constructor(private view: View, private events: TableEvents) {
    this.grid = el("table", { role: "grid", tabindex: "0", "aria-label": view.title },
      this.sizes, el("thead", {}, this.head), this.body);
    this.scroller = el("div", { class: "rows" }, this.grid);
    this.element = el("div", { class: "table" }, this.scroller, this.notes);
    this.scroller.addEventListener("scroll", () => this.paintSoon());
    new ResizeObserver(() => this.paintSoon()).observe(this.scroller);
    this.grid.addEventListener("keydown", (event) => this.key(event));
    this.body.addEventListener("click", (event) => {
      const index = (event.target as Element).closest("tr")?.dataset["index"];
      if (index !== undefined) this.open(Number(index));
    });
    this.head.addEventListener("click", (event) => {
      const key = (event.target as Element).closest("button")?.dataset["key"];
      if (key !== undefined) this.sortBy(key);
    });
  }

  get count(): number {
    return this.shown.length;
  }

  setRows(rows: Fields[]): void {
    const columns = columnsOf(this.view, rows);
    this.all = rows;
    this.columns = columns.shown;
    const keys = columns.shown.map(({ key }) => key);
    const { head } = this.view;
    this.titles = head ? new Map(keys.map((key) => [key, head(key)])) : titles(keys);
    this.paintNotes(columns.absent);
    this.arrange();
    this.measure();
  }

  setSort(sort: string): void {
    this.sort = sort;
    this.arrange();
  }

  setFind(find: string): void {
    this.find = find;
    this.arrange();
  }

  // The row with this key, brought into sight: in the table, and with `scroll` on the page.
  choose(key: string, scroll = true): Fields | undefined {
    this.chosen = key;
    this.paint(); // so that there is something to scroll
    const index = this.chosenIndex();
    if (index >= 0) {
      this.reveal(index);
      this.paint();
      if (scroll) document.getElementById(`${this.id}-${index}`)?.scrollIntoView({ block: "nearest" });
    }
    return this.shown[index];
  }

  private arrange(): void {
    this.shown = sorted(search(this.view, this.all, this.find), this.sort);
    this.grid.setAttribute("aria-rowcount", String(this.shown.length + 1));
    this.paintHead();
    this.paintSoon();
  }

  private chosenIndex(): number {
    return this.chosen ? this.shown.findIndex((row) => rowKey(this.view, row) === this.chosen) : -1;
  }

  private sortBy(key: string): void {
    const numeric = this.columns.find((column) => column.key === key)?.numeric ?? false;
    const first = numeric ? `-${key}` : key;
    const second = numeric ? key : `-${key}`;
    this.setSort(this.sort === first ? second : first);
    this.scroller.scrollTop = 0;
    this.events.sorted(this.sort);
  }

  private open(index: number): void {
    const row = this.shown[index];
    if (!row) return;
    this.chosen = rowKey(this.view, row);
    this.reveal(index);
    this.paint();
    this.events.selected(this.chosen);
    this.events.opened(row);
  }

  private key(event: KeyboardEvent): void {
    const page = Math.max(1, Math.floor(this.scroller.clientHeight / ROW_PX) - 2);
    const at = this.chosenIndex();
    const last = this.shown.length - 1;
    const moves: { [key: string]: number } = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page,
      PageUp: at - page, Home: 0, End: last };
    const to = moves[event.key];
    if (event.target !== this.grid || last < 0) return;
    if (event.key === "Enter" && at >= 0) {
      this.open(at);
    } else if (to !== undefined) {
      const index = Math.min(last, Math.max(0, to));
      this.chosen = rowKey(this.view, this.shown[index] as Fields);
      this.reveal(index);
      this.paint();
      this.events.selected(this.chosen);
    } else {
      return;
    }
    event.preventDefault();
  }

  private reveal(index: number): void {
    const top = index * ROW_PX;
    const room = this.scroller.clientHeight - 2 * ROW_PX; // less the head, and a row
    if (top < this.scroller.scrollTop) this.scroller.scrollTop = top;
    else if (top > this.scroller.scrollTop + room) this.scroller.scrollTop = top - room;
  }

  private paintHead(): void {
    const focused = (document.activeElement as HTMLElement | null)?.dataset["key"];
    const inside = this.head.contains(document.activeElement);
    this.head.replaceChildren(...this.columns.map(({ key, numeric }) => {
      const down = this.sort === `-${key}`;
      const up = this.sort === key;
      const order = down ? "descending" : up ? "ascending" : "none";
      return el("th", { scope: "col", class: numeric ? "number" : "", "aria-sort": order },
        el("button", { type: "button", "data-key": key, title: meaning(`${this.view.part}_row`, key) },
          `${this.titles.get(key)}${down ? " ▾" : up ? " ▴" : ""}`));
    }));
    if (inside && focused) {
      this.head.querySelector<HTMLElement>(`[data-key="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
    }
  }

  // Widths by the longest text, so that columns stay where they are while rows pass.
  private measure(): void {
    const sample = this.all.length > 400 ? this.all.filter((_, i) => i % Math.ceil(this.all.length / 400) === 0)
      : this.all;
    let sum = 0;
    this.sizes.replaceChildren(...this.columns.map(({ key }) => {
      const longest = Math.max((this.titles.get(key) ?? "").length + 2, ...sample.map((row) => cellOf(this.view, row, key).length));
      const width = Math.min(longest, MOST_CHARACTERS) + 2;
      const col = el("col");
      col.style.width = `${width}ch`;
      sum += width;
      return col;
    }));
    this.grid.style.minWidth = `${sum}ch`;
    this.above.colSpan = this.below.colSpan = Math.max(1, this.columns.length);
  }

  private paintSoon(): void {
    if (this.painting) return;
    this.grid.setAttribute("aria-busy", "true");
    this.painting = requestAnimationFrame(() => this.paint());
  }

  private paint(): void {
    cancelAnimationFrame(this.painting);
    this.painting = 0;
    this.grid.removeAttribute("aria-busy");
    const first = Math.max(0, Math.floor(this.scroller.scrollTop / ROW_PX) - AROUND);
    const last = Math.min(this.shown.length,
      Math.ceil((this.scroller.scrollTop + this.scroller.clientHeight) / ROW_PX) + AROUND);
    this.above.style.height = `${first * ROW_PX}px`;
    this.below.style.height = `${(this.shown.length - last) * ROW_PX}px`;
    const chosen = this.chosenIndex();
    const rows = this.shown.slice(first, last).map((row, i) => this.row(row, first + i, first + i === chosen));
    const filler = (td: HTMLElement): HTMLElement => el("tr", { class: "filler", "aria-hidden": "true" }, td);
    this.body.replaceChildren(filler(this.above), ...rows, filler(this.below));
    if (chosen >= first && chosen < last) this.grid.setAttribute("aria-activedescendant", `${this.id}-${chosen}`);
    else this.grid.removeAttribute("aria-activedescendant");
  }

  private row(row: Fields, index: number, chosen: boolean): HTMLElement {
    const made = el("tr", { id: `${this.id}-${index}`, "data-index": String(index), "aria-rowindex": String(index + 2),
      "aria-selected": String(chosen), class: index % 2 ? "odd" : "" });
    for (const { key, numeric } of this.columns) {
      const words = cellOf(this.view, row, key);
      const why = row[key] === null ? reason(row, key) : "";
      const exact = typeof row[key] === "number" && words !== String(row[key]) ? String(row[key]) : "";
      const long = words.length > MOST_CHARACTERS ? words : "";
      made.append(el("td", { class: why ? "none" : numeric ? "number" : "", title: why || exact || long || false },
        words));
    }
    return made;
  }

  private paintNotes(absent: Map<string, string[]>): void {
    const n = [...absent.values()].reduce((sum, keys) => sum + keys.length, 0);
    this.notes.hidden = n === 0;
    if (!n) return;
    const before = this.notes.querySelector("details")?.open ?? false;
    this.notes.replaceChildren(el("details", before ? { open: true } : {},
      el("summary", {}, `${n} ${n === 1 ? "column has" : "columns have"} no value in this run`),
      el("ul", {}, ...[...absent].map(([why, keys]) => el("li", {}, el("b", {}, keys.map(title).join(", ")), `: ${why}`)))));
  }
}
