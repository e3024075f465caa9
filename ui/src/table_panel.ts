// A view: its picture, its totals, its table, and the details of a row.
import { adjust, format, go, here, Options, TIMELINE } from "./address";
import { button, el, repaint } from "./dom";
import { Drawer, figures } from "./details";
import { ns, title, value } from "./format";
import { fields, Fields, num, rowsOf, text } from "./json";
import { meaning } from "./meanings";
import { Panel } from "./panel";
import { Picture, ViewStage } from "./pictures/picture";
import { pictureOf } from "./pictures/pictures";
import { Source } from "./source";
import { Table } from "./table";
import { View } from "./views";

const MOST_ROWS = 5000; // unless all are asked for
const FACTS = 7;
// Parameters of the address that are the server's.
const ASKED = ["steps", "layer", "phase"];

export class TablePanel implements Panel, ViewStage {
  element: HTMLElement;
  private table: Table;
  private drawer: Drawer;
  private picture: Picture;
  private search: HTMLInputElement;
  private facts = el("dl", { class: "facts" });
  private count = el("p", { class: "count", role: "status" });
  private document: Fields | null = null;
  private opened = "";

  constructor(readonly source: Source, readonly run: string, private view: View) {
    this.search = el("input", { type: "search", placeholder: "Search (/)", "aria-label": `Search ${view.title}`,
      "aria-keyshortcuts": "/" });
    this.search.addEventListener("input", () => {
      adjust({ find: this.search.value });
      this.table.setFind(this.search.value);
      this.paintCount();
    });
    this.table = new Table(view, {
      sorted: (sort) => this.adjust({ sort }),
      selected: (row) => {
        adjust({ row });
        this.picture.restore?.(here().options);
      },
      opened: (row) => this.showRow(row),
    });
    this.drawer = new Drawer(() => {
      this.opened = "";
      this.table.element.querySelector<HTMLElement>("[role=grid]")?.focus();
    });
    this.picture = pictureOf(view, this);
    this.element = el("section", { class: "view", "aria-label": view.title }, el("h1", {}, view.title),
      this.picture.element, el("div", { class: "bar" }, this.facts, this.search), this.count,
      el("div", { class: "beside" }, this.table.element, this.drawer.element));
    this.restore(here().options);
  }

  private limited(): boolean {
    return this.source.live && here().options["all"] !== "1";
  }

  private request(): Options {
    const options = here().options;
    const asked = Object.fromEntries(ASKED.filter((key) => options[key]).map((key) => [key, options[key] as string]));
    const sort = (options["sort"] ?? "").replace(/^-/, "");
    // All rows are sorted here; of too many the server gives the largest.
    const cut: Options = this.isCut() && sort ? { sort } : {};
    return { limit: this.limited() ? String(MOST_ROWS) : "0", ...asked, ...cut };
  }

  private isCut(): boolean {
    return this.limited() && rowsOf(this.document?.["rows"]).length >= MOST_ROWS;
  }

  async refresh(): Promise<Fields> {
    const document = await this.source.view(this.run, this.view.name, this.request());
    if (document !== this.document) this.paint(document);
    return document;
  }

  restore(options: Options): void {
    this.search.value = options["find"] ?? "";
    this.table.setFind(this.search.value);
    this.table.setSort(options["sort"] ?? "");
    if (this.document) this.choose(options["row"] ?? "");
    if (this.document) this.picture.restore?.(options);
    this.paintCount();
  }

  close(): void {
    this.picture.close?.();
  }

  adjust(changes: Options): void {
    adjust(changes);
    void this.refresh().catch(() => undefined); // the frame notices on its own that the server is gone
  }

  openRow(view: string, key: string): void {
    if (view !== this.view.name) return go({ run: this.run, view, options: { row: key } });
    adjust({ row: key });
    this.opened = key;
    this.choose(key);
  }

  selectRow(key: string): void {
    const row = this.table.choose(key, false);
    adjust({ row: key });
    if (this.opened && row) this.showRow(row);
  }

  private choose(key: string): void {
    const row = this.table.choose(key);
    if (row && (this.opened === key || this.opened === "")) this.showRow(row);
  }

  private paint(document: Fields): void {
    const first = this.document === null;
    this.document = document;
    this.table.setRows(rowsOf(document["rows"]));
    this.picture.update(document);
    this.paintFacts(document);
    this.paintCount();
    const key = here().options["row"] ?? "";
    if (first && key) this.choose(key);
    else if (this.opened && this.opened === key) this.choose(key);
  }

  private paintFacts(document: Fields): void {
    const total = fields(document["total"]);
    const sampled = fields(document["sampled"]);
    const shown = Object.entries(total).filter(([key, json]) => !key.endsWith("_reason") && json !== 0 && json !== ""
      && (typeof json === "number" || (typeof json === "string" && json.length < 20))).slice(0, FACTS);
    const part = `${this.view.part}_total`;
    const facts = shown.map(([key, json]) => el("div", { title: meaning(part, key) },
      el("dt", {}, title(key)), el("dd", {}, value(key, json))));
    if (num(sampled["windows"]) !== null) {
      facts.push(el("div", { title: "Figures are of the windows, never scaled up." }, el("dt", {}, "sampled"),
        el("dd", {}, `${value("coverage_pct", sampled["coverage_pct"])} of the time`)));
    }
    repaint(this.facts, ...facts, Object.keys(total).length ? button("All totals", () =>
      this.drawer.show(`${this.view.title}: all together`, figures(total, part)), { "data-key": "totals" }) : null);
  }

  private paintCount(): void {
    const all = rowsOf(this.document?.["rows"]).length;
    const shown = this.table.count;
    if (!this.document) return;
    if (!all) {
      this.count.replaceChildren(`Nothing to show: this run has no ${this.view.title.toLowerCase()}.`);
      this.table.element.hidden = true;
      return;
    }
    this.table.element.hidden = false;
    const words = shown < all ? `${shown} of ${all} rows` : `${all} ${all === 1 ? "row" : "rows"}`;
    const missing = this.source.missing(this.view.name);
    if (missing) {
      repaint(this.count, `${words}; ${missing} more are not in this file: 'moescope ${this.view.name}' shows them`);
      return;
    }
    repaint(this.count, words, this.isCut() ? " – there may be more " : null, this.isCut()
      ? button("Load all", () => this.adjust({ all: "1" }), { "data-key": "all" }) : null);
  }

  private showRow(row: Fields): void {
    const heading = this.view.id.map((key) => (typeof row[key] === "number" ? `${key} ${row[key]}` : text(row[key])))
      .filter(Boolean).join(", ");
    this.opened = here().options["row"] ?? "";
    this.drawer.show(heading, this.inTimeline(row), this.slowness(row), figures(row, `${this.view.part}_row`));
  }

  private inTimeline(row: Fields): HTMLElement | null {
    if (this.view.name !== "steps" || !this.source.live) return null;
    return el("p", { class: "acts" }, el("a", { "data-key": "timeline", href: format({ run: this.run, view: TIMELINE,
      options: { step: `${row["rank"]}:${row["step"]}` } }) }, "Show in the timeline"));
  }

  // Why a slow step was slow: the report holds the slowest against usual ones.
  private slowness(row: Fields): HTMLElement | null {
    if (this.view.name !== "steps" || row["outlier"] !== true) return null;
    const slow = rowsOf(fields(this.document?.["total"])["slow"])
      .find((step) => step["step"] === row["step"] && step["rank"] === row["rank"]);
    const heading = el("h3", {}, "Why it was slow");
    if (!slow) {
      return el("div", { class: "slow" }, heading,
        el("p", {}, "Only the slowest outliers are looked at; this is not one of them."));
    }
    const parts = [["by what the device did", "device"], ["by phase", "phases"], ["kernels that grew", "kernels"]];
    const gap = num(slow["gap_ns"]);
    return el("div", { class: "slow" }, heading, el("p", {}, `${ns(num(slow["extra_ns"]) ?? 0)} longer than usual steps.`),
      el("ul", {}, ...parts.flatMap(([name, key]) => {
        const grown = rowsOf(slow[key as string])
          .map((each) => `${text(each["name"])} ${signed(num(each["extra_ns"]) ?? 0)}`);
        return grown.length ? [el("li", {}, el("b", {}, `${name}: `), grown.join(", "))] : [];
      }), gap === null ? null : el("li", {}, el("b", {}, "longest gap of a device: "), ns(gap))));
  }
}

function signed(time: number): string {
  return `${time > 0 ? "+" : ""}${ns(time)}`;
}
