// A run at a glance: verdicts, tiles, pictures.
import { format, go, Place } from "./address";
import { Figure } from "./charts/figure";
import { el, repaint } from "./dom";
import { placeOf, spanOf } from "./evidence";
import { bytes, ns, number, pct, ratio, title, value } from "./format";
import { fields, Fields, num, reason, rowsOf, text } from "./json";
import { meaning } from "./meanings";
import { Panel } from "./panel";
import { deviceTime } from "./pictures/devices";
import { Stage } from "./pictures/picture";
import { shares } from "./pictures/shares";
import { rankHeat, stepScatter } from "./pictures/steps";
import { Source } from "./source";
import { findView, View } from "./views";

const SIGNS: { [severity: string]: string } = { critical: "✖", warning: "▲", note: "●", ok: "✔" };
const STEPS = 20000; // in the pictures

interface Tile {
  name: string;
  value: string;
  more: string;
  means: string;
  view: string;
}

// A figure, or the reason why there is none.
function figureOf(of: Fields, key: string): { value: string; more: string } {
  return { value: value(key, of[key]), more: reason(of, key) };
}

function span(values: number[], words: (value: number) => string): string {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  return words(least) === words(most) ? words(most) : `${words(least)} to ${words(most)}`;
}

function stepTile(report: Fields): Tile {
  const total = fields(fields(report["steps"])["total"]);
  const time = fields(total["time"]);
  const outliers = num(total["outliers"]) ?? 0;
  const more = [num(time["p50_ns"]) === null ? "" : `median ${ns(num(time["p50_ns"]) ?? 0)}`,
    outliers ? `${outliers} ${outliers === 1 ? "outlier" : "outliers"}` : ""].filter(Boolean).join(", ");
  return { name: "Steps", value: value("steps", total["steps"]), more, means: meaning("steps_total", "steps"),
    view: "steps" };
}

function tokenTile(report: Fields): Tile {
  const total = fields(fields(report["steps"])["total"]);
  const inference = fields(report["inference"]);
  const trained = num(total["tokens_per_s"]) !== null || num(inference["tokens_per_s"]) === null;
  return { name: "Tokens/s", ...figureOf(trained ? total : inference, "tokens_per_s"),
    means: meaning(trained ? "steps_total" : "inference", "tokens_per_s"), view: trained ? "steps" : "requests" };
}

function useTile(report: Fields): Tile {
  const devices = rowsOf(fields(report["timeline"])["devices"]);
  const busy = devices.map((device) => num(device["busy_pct"])).filter((n): n is number => n !== null);
  const n = `${devices.length} ${devices.length === 1 ? "device" : "devices"}`;
  return { name: "Device use", value: busy.length ? span(busy, pct) : "–", more: busy.length ? n : "no device records",
    means: meaning("timeline_device", "busy_pct"), view: "kernels" };
}

function idleTile(report: Fields): Tile {
  const devices = rowsOf(fields(report["timeline"])["devices"]);
  const causes = devices.flatMap((device) => Object.entries(fields(device["idle_by_cause"])))
    .map(([cause, time]): [string, number] => [cause, num(time) ?? 0]).sort((a, b) => b[1] - a[1]);
  const [cause, time] = causes[0] ?? ["", 0];
  return { name: "Idle mostly for", value: time ? title(cause) : "–", more: time ? ns(time) : "no idle time is known",
    means: cause ? meaning("idle_by_cause", cause) : "", view: "api" };
}

function memoryTile(report: Fields): Tile {
  const memory = fields(report["memory"]);
  const peaks = (rows: Fields[], key: string): number[] =>
    rows.map((row) => num(row[key])).filter((n): n is number => n !== null);
  const own = peaks(rowsOf(memory["rows"]), "peak_allocated_bytes");
  const used = peaks(rowsOf(fields(memory["total"])["device_used"]), "peak_device_used_bytes");
  const [key, values] = own.length ? ["peak_allocated_bytes", own] : ["peak_device_used_bytes", used];
  return { name: "Memory peak", value: values.length ? span(values, bytes) : "–",
    more: own.length ? "allocated" : used.length ? "used on the device" : "no memory was recorded",
    means: meaning("memory_row", key as string), view: "memory" };
}

function balanceTile(report: Fields): Tile {
  const rows = rowsOf(fields(report["routing"])["rows"]).filter((row) => num(row["imbalance"]) !== null);
  const worst = rows.sort((a, b) => (num(b["imbalance"]) ?? 0) - (num(a["imbalance"]) ?? 0))[0];
  const floor = num(worst?.["imbalance_floor"]);
  const chance = floor === null ? "" : `; by chance ${ratio(floor)}`;
  return { name: "Imbalance", value: worst ? ratio(num(worst["imbalance"]) ?? 0) : "–",
    more: worst ? `layer ${worst["layer"]}${chance}` : "no routing was recorded",
    means: meaning("routing_row", "imbalance"), view: "routing" };
}

function kernelTile(report: Fields): Tile {
  const total = fields(fields(report["kernels"])["total"]);
  return { name: "Kernels", ...figureOf(total, "time_ns"), means: meaning("kernels_total", "time_ns"), view: "kernels",
    more: num(total["count"]) === null ? "no device records" : `${value("count", total["count"])} launched` };
}

function costTile(report: Fields): Tile {
  const overhead = fields(report["overhead"]);
  const kinds: { [key: string]: string } = { measured_pct: "measured, on against off",
    device_account_pct: "its own account", own_cpu_pct: "of a core" };
  const key = Object.keys(kinds).find((each) => num(overhead[each]) !== null) ?? "measured_pct";
  const figure = figureOf(overhead, key);
  return { name: "Cost of profiling", value: figure.value, more: figure.more || (kinds[key] ?? ""),
    means: meaning("overhead", key), view: "" };
}

const TILES = [stepTile, tokenTile, useTile, idleTile, memoryTile, balanceTile, kernelTile, costTile];

export class Overview implements Panel, Stage {
  element: HTMLElement;
  private verdicts = el("ol", { class: "verdicts" });
  private tiles = el("div", { class: "tiles" });
  private ranks = new Figure("Time of each rank's steps");
  private devices = new Figure("Time of the devices");
  private steps = new Figure("Time of each step");
  private kernels = new Figure("Kernels by their share of the time");
  private report: Fields | null = null;
  private stepsShown: Fields | null = null;

  constructor(readonly source: Source, readonly run: string) {
    this.element = el("section", { class: "view overview", "aria-label": "Overview" },
      this.ranks.element, el("h1", {}, "Verdicts"), this.verdicts, this.tiles,
      el("div", { class: "pictures" }, this.devices.element, this.steps.element, this.kernels.element));
    for (const figure of [this.ranks, this.devices, this.steps, this.kernels]) figure.show(null);
  }

  restore(): void {
    // It has no options.
  }

  openRow(view: string, key: string): void {
    go({ run: this.run, view, options: { row: key } });
  }

  async refresh(): Promise<Fields> {
    const report = await this.source.view(this.run, "report", {});
    if (report !== this.report) this.paint(report);
    const steps = await this.source.view(this.run, "steps", { limit: String(STEPS) });
    if (steps !== this.stepsShown) this.paintSteps(steps);
    return report;
  }

  private paint(report: Fields): void {
    this.report = report;
    const verdicts = rowsOf(report["verdicts"]);
    repaint(this.verdicts, ...verdicts.map((verdict) => this.verdict(verdict, report)),
      verdicts.length ? null : el("li", { class: "ok" }, "There is nothing to say about this run yet."));
    repaint(this.tiles, ...TILES.map((tile) => this.tile(tile(report))));
    this.devices.show(deviceTime(report));
    this.kernels.show(shares(rowsOf(fields(report["kernels"])["rows"]), findView("kernels") as View, this));
  }

  private paintSteps(steps: Fields): void {
    const rows = rowsOf(steps["rows"]);
    this.stepsShown = steps;
    const cut = rows.length >= STEPS ? ` Only the first ${STEPS} steps are shown.` : "";
    this.ranks.show(rankHeat(rows, this), undefined, `A cell that stands out is a slow step; a row, a slow rank.${cut}`);
    this.steps.show(rows.length > 1 ? stepScatter(steps, this) : null);
  }

  private tile(tile: Tile): HTMLElement {
    const content = [el("span", { class: "name" }, tile.name), el("strong", {}, tile.value),
      el("span", { class: "more" }, tile.more)];
    if (!tile.view) return el("div", { class: "tile", title: tile.means }, ...content);
    return el("a", { class: "tile", title: tile.means, "data-key": `tile ${tile.name}`,
      href: format({ run: this.run, view: tile.view, options: {} }) }, ...content);
  }

  private verdict(verdict: Fields, report: Fields): HTMLElement {
    const severity = text(verdict["severity"]);
    const gain = num(verdict["gain_pct"]);
    const place: Place | null = placeOf(verdict, report, this.run);
    const span = this.source.live ? spanOf(verdict, this.run) : null;
    const evidence = Object.entries(fields(verdict["evidence"])).filter(([, json]) => num(json) !== null);
    const words = text(verdict["title"]);
    return el("li", { class: severity },
      el("h2", {}, el("span", { class: "sign", "aria-hidden": "true" }, SIGNS[severity] ?? "●"),
        el("span", { class: "severity" }, severity),
        place ? el("a", { href: format(place), "data-key": `verdict ${text(verdict["id"])}` }, words) : words,
        gain === null ? null : el("span", { class: "gain", title: text(verdict["gain_assumption"]) || "estimated" },
          `gain est. ${pct(gain)}`)),
      el("p", { class: "evidence" }, ...evidence.flatMap(([key, json], i) => [i ? ", " : "",
        el("span", { title: meaning("evidence", key) }, `${title(key)} ${number(key, num(json) ?? 0)}`)]),
      span ? el("a", { class: "when", href: format(span), "data-key": `when ${text(verdict["id"])}` },
        `Show ${text(fields(verdict["when"])["what"])} in the timeline`) : null),
      severity !== "ok" ? el("p", { class: "advice" }, text(verdict["advice"])) : null);
  }
}
