// Memory over time, what was live at a moment of it, and by use at the peak.
import { adjust, here, Options } from "../address";
import { BarsChart } from "../charts/bars";
import { Chart, Figure } from "../charts/figure";
import { LinesChart } from "../charts/lines";
import { el } from "../dom";
import { bytes, ns, pct } from "../format";
import { fields, Fields, num, reason, rowsOf, text } from "../json";
import { rowKey } from "../rows";
import { Trouble } from "../source";
import { Newest } from "../timeline/newest";
import { moment } from "../timeline/span";
import { findView, View } from "../views";
import { Picture, ViewStage } from "./picture";

const view = findView("memory") as View;
const ASK_MS = 100;
const MOST = 12; // places and blocks; the server tells more
const HINT = "Click the curve, or go along it with the arrow keys, to see what was live at a moment.";
const OFFLINE = "What was live at a moment needs 'moescope serve'; this file has what was live at the peak.";

function place(row: Fields): string {
  const device = num(row["device"]) ?? -1;
  return `rank ${row["rank"]}, ${device < 0 ? "host" : `device ${device}`}`;
}

function overTime(row: Fields | undefined, choose?: (time: number) => void): LinesChart | null {
  const points = rowsOf(row?.["series"]);
  const reserved = points.some((point) => num(point["reserved_bytes"]) !== null);
  if (!points.length) return null;
  return new LinesChart({ axes: { xTitle: "time", formatX: ns, formatY: bytes },
    x: points.map((point) => num(point["time_ns"]) ?? 0), ...(choose ? { choose } : {}),
    series: ["allocated", ...(reserved ? ["reserved"] : [])].map((name) =>
      ({ name, values: points.map((point) => num(point[`${name}_bytes`])) })) });
}

function byUse(rows: Fields[]): Chart | null {
  const uses = [...new Set(rows.flatMap((row) => Object.keys(fields(row["composition_at_peak"]))))]
    .filter((use) => rows.some((row) => num(fields(row["composition_at_peak"])[use])));
  if (!uses.length) return null;
  return new BarsChart({ title: "place", parts: uses, format: bytes, bars: rows.map((row) => {
    const parts = uses.map((use) => num(fields(row["composition_at_peak"])[use]) ?? 0);
    return { name: place(row), parts, label: bytes(num(row["peak_allocated_bytes"]) ?? 0),
      words: uses.map((use, i) => `${use} ${bytes(parts[i] ?? 0)}`).join(", ") };
  }) });
}

function table(heads: string[], rows: string[][]): HTMLElement {
  return el("table", { class: "sums" },
    el("thead", {}, el("tr", {}, ...heads.map((head) => el("th", { scope: "col" }, head)))),
    el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((word, i) => el("td", i ? {} : { title: word }, word))))));
}

// Where a block was allocated, and for what.
function origin(of: Fields): string {
  const numbered = ["layer", "expert"].filter((key) => num(of[key]) !== null).map((key) => `${key} ${of[key]}`);
  return [text(of["site"]) || "(no name)", ...numbered, text(of["phase"]), text(of["use"])].filter(Boolean).join(", ");
}

function sized(of: Fields): [string, string] {
  return [bytes(num(of["bytes"]) ?? 0), pct(num(of["share_pct"]) ?? 0)];
}

function rest(shown: number, all: number | null): HTMLElement | null {
  return all !== null && all > shown ? el("p", { class: "count" }, `and ${all - shown} more`) : null;
}

// What was live at the cursor.
class Live {
  element = el("section", { class: "live", tabindex: "0", "aria-label": "Live at the cursor" });
  private told = el("p", { class: "note", role: "status" }, HINT);
  private body = el("div");

  constructor() {
    this.element.append(el("h2", {}, "Live at the cursor"), this.told, this.body);
  }

  say(words: string): void {
    this.told.textContent = words;
    this.body.replaceChildren();
  }

  show(row: Fields, time: number): void {
    const then = fields(row["live_at"]);
    const all = num(then["allocated_bytes"]);
    if (all === null) return this.say(`At ${moment(time)} nothing is told: ${reason(row, "live_at")}.`);
    const shares = fields(then["composition_pct"]);
    const before = num(then["before_bytes"]) ?? 0;
    const uses = Object.entries(fields(then["composition"])).sort((a, b) => (num(b[1]) ?? 0) - (num(a[1]) ?? 0))
      .map(([use, size]) => [use, bytes(num(size) ?? 0), pct(num(shares[use]) ?? 0)]);
    const sites = rowsOf(then["sites"]).slice(0, MOST);
    const blocks = rowsOf(then["largest_blocks"]).slice(0, MOST);
    this.told.textContent = `${place(row)} at ${moment(time)}: ${bytes(all)} live in ${then["blocks"]} blocks. `
      + uses.map(([use, size, share]) => `${use} ${size} (${share})`).join(", ");
    this.body.replaceChildren(
      table(["use", "bytes", "share"], before ? [...uses, ["live before the records", bytes(before), ""]] : uses),
      table(["place", "bytes", "share", "blocks"], sites.map((site) => [origin(site), ...sized(site), String(site["blocks"])])),
      rest(sites.length, num(then["sites_in_all"])) ?? "",
      table(["largest blocks", "bytes", "share", "age"], blocks.map((block) =>
        [origin(block), ...sized(block), ns(num(block["age_ns"]) ?? 0)])),
      rest(blocks.length, num(then["blocks"])) ?? "");
  }
}

class MemoryPicture implements Picture {
  element: HTMLElement;
  private lines = new Figure("Memory over time");
  private uses = new Figure("By use, at the peak");
  private live = new Live();
  private chart: LinesChart | null = null;
  private rows: Fields[] = [];
  private shown = ""; // the row of the curve
  private time: number | null = null; // of the cursor
  private asker: Newest<number, Fields>;

  constructor(private stage: ViewStage) {
    this.asker = new Newest(ASK_MS, (time: number) => stage.source.ask(stage.run, view.name, { at: `${time}ns`, limit: "0" }),
      (answer, time) => this.told(answer, time), (error) => this.failed(error));
    this.live.element.hidden = true;
    this.element = el("div", { class: "pictures" }, this.lines.element, this.live.element, this.uses.element);
  }

  update(document: Fields): void {
    this.rows = rowsOf(document["rows"]);
    this.uses.show(byUse(this.rows));
    this.paint(here().options, true);
  }

  restore(options: Options): void {
    this.paint(options, false);
  }

  close(): void {
    this.asker.close();
  }

  // The curve of the chosen row, or of the one with the highest peak.
  private paint(options: Options, isNew: boolean): void {
    const peak = (row: Fields): number => num(row["peak_allocated_bytes"]) ?? 0;
    const row = this.rows.find((each) => rowKey(view, each) === options["row"])
      ?? [...this.rows].sort((a, b) => peak(b) - peak(a))[0];
    const key = row ? rowKey(view, row) : "";
    const time = options["at"] ? Number(options["at"]) : NaN;
    const isOther = isNew || key !== this.shown;
    if (isOther) {
      this.shown = key;
      this.chart = overTime(row, this.stage.source.live ? (at) => this.choose(at) : undefined);
      this.lines.show(this.chart, `Memory over time${this.rows.length > 1 && row ? `: ${place(row)}` : ""}`,
        this.stage.source.live ? "" : OFFLINE);
      this.live.element.hidden = !this.chart || !this.stage.source.live;
    }
    if (time >= 0) this.look(time, isOther);
    else if (this.time !== null) this.forget();
  }

  private choose(time: number): void {
    adjust({ at: String(time) });
    this.look(time, false);
  }

  private look(time: number, again: boolean): void {
    if (!this.chart || !this.stage.source.live) return;
    this.chart.cursor = time;
    this.lines.paintSoon();
    if (time === this.time && !again) return;
    this.time = time;
    this.asker.put(time);
  }

  private forget(): void {
    this.time = null;
    if (this.chart) this.chart.cursor = null;
    this.lines.paintSoon();
    this.live.say(HINT);
  }

  private told(answer: Fields, time: number): void {
    const row = rowsOf(answer["rows"]).find((each) => rowKey(view, each) === this.shown);
    if (row && time === this.time) this.live.show(row, time);
  }

  // A server that is gone is told by the frame of the page.
  private failed(error: unknown): void {
    if (!(error instanceof Trouble)) throw error;
    if (error.kind !== "silent") this.live.say(error.message);
  }
}

export function memoryPicture(stage: ViewStage): Picture {
  return new MemoryPicture(stage);
}
