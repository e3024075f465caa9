// The place of a verdict's evidence: the view, and the row where there is one.
import { Options, Place } from "./address";
import { fields, Fields, num, rowsOf, text } from "./json";
import { rowKey } from "./rows";
import { findView, VIEWS } from "./views";

// Verdicts by the start of their names; the first that fits. Those about devices are in the overview's picture.
const PLACES: [string, string, Options?][] = [
  ["routing-", "routing", { sort: "-cv_excess" }],
  ["router-", "routing", { sort: "-imbalance" }],
  ["dead-experts", "routing", { sort: "-dead" }],
  ["capacity-", "routing", { sort: "-drop_rate_measured" }],
  ["tile-waste", "routing", { sort: "-tile_waste" }],
  ["self-check", "routing"],
  ["gpu-starved-data", "steps", { sort: "-data_ns" }],
  ["gpu-starved-sync", "api", { sort: "-time_ns" }],
  ["gpu-starved-launch", "kernels", { sort: "-launch_bound" }],
  ["gpu-starved-host", "ops", { sort: "-self_cpu_ns" }],
  ["gpu-", "kernels", { sort: "-time_ns" }],
  ["bandwidth-bound", "kernels", { sort: "-time_ns" }],
  ["clock-throttled", "efficiency"],
  ["transfer-bound", "transfers", { sort: "-time_ns" }],
  ["comm-exposed", "comm", { sort: "-time_ns" }],
  ["rank-late", "comm", { sort: "-wait_ns" }],
  ["data-loading", "steps", { sort: "-data_ns" }],
  ["optimizer-share", "steps", { sort: "-optimizer_ns" }],
  ["step-variation", "steps", { sort: "-time_ns" }],
  ["slow-start", "steps", { sort: "step" }],
  ["memory-", "memory"],
  ["outside-allocator", "memory"],
  ["fragmentation", "memory"],
];

// A rule that is not in the table names its command in the advice.
function viewInAdvice(advice: string): string {
  return VIEWS.map((view) => view.name).find((name) => advice.includes(`'moescope ${name}`)) ?? "";
}

// Some evidence is of one row: a layer, or the slowest step.
function rowOf(view: string, verdict: Fields, report: Fields): string {
  const described = findView(view);
  const rows = rowsOf(fields(report[view])["rows"]);
  const layer = num(fields(verdict["evidence"])["layer"]);
  const slowest = rowsOf(fields(fields(report["steps"])["total"])["slow"])[0];
  if (!described) return "";
  if (view === "routing" && layer !== null) {
    const row = rows.find((candidate) => candidate["layer"] === layer);
    return row ? rowKey(described, row) : "";
  }
  return text(verdict["id"]) === "step-variation" && slowest ? rowKey(described, slowest) : "";
}

export function placeOf(verdict: Fields, report: Fields, run: string): Place | null {
  const id = text(verdict["id"]);
  const known = PLACES.find(([start]) => id.startsWith(start));
  const view = known?.[1] ?? viewInAdvice(text(verdict["advice"]));
  if (!findView(view)) return null;
  const row = rowOf(view, verdict, report);
  return { run, view, options: { ...known?.[2], ...(row ? { row } : {}) } };
}
