// Steps: their time one by one, their phases, and with several ranks each beside the others.
import { ColumnsChart, plain } from "../charts/columns";
import { Chart, Figure } from "../charts/figure";
import { HeatChart } from "../charts/heat";
import { Point, ScatterChart } from "../charts/scatter";
import { el } from "../dom";
import { ns } from "../format";
import { fields, Fields, num, rowsOf } from "../json";
import { rowKey } from "../rows";
import { findView, View } from "../views";
import { Picture, Stage } from "./picture";

const view = findView("steps") as View;

export function ranksOf(rows: Fields[]): number[] {
  return [...new Set(rows.map((row) => num(row["rank"]) ?? 0))].sort((a, b) => a - b);
}

export function rankHeat(rows: Fields[], stage: Stage): Chart | null {
  const ranks = ranksOf(rows);
  const steps = [...new Set(rows.map((row) => num(row["step"]) ?? 0))].sort((a, b) => a - b);
  const [rankAt, stepAt] = [ranks, steps].map((of) => new Map(of.map((n, i) => [n, i])));
  const times = new Float64Array(ranks.length * steps.length).fill(NaN);
  if (ranks.length < 2) return null;
  for (const row of rows) {
    const at = (rankAt?.get(num(row["rank"]) ?? 0) ?? 0) * steps.length + (stepAt?.get(num(row["step"]) ?? 0) ?? 0);
    times[at] = num(row["time_ns"]) ?? NaN;
  }
  return new HeatChart({ rowTitle: "rank", columnTitle: "step", rows: ranks.map(String), columns: steps.map(String),
    value: (r, c) => {
      const time = times[r * steps.length + c] ?? NaN;
      return Number.isNaN(time) ? null : time;
    },
    format: ns, open: (r, c) => stage.openRow("steps", `${ranks[r]}|${steps[c]}`) });
}

export function stepScatter(document: Fields, stage: Stage): Chart | null {
  const rows = rowsOf(document["rows"]).filter((row) => row["unfinished"] !== true);
  const ranks = ranksOf(rows);
  const points = rows.map((row): Point => {
    const [step, time, rank] = [num(row["step"]) ?? 0, num(row["time_ns"]) ?? 0, num(row["rank"]) ?? 0];
    const out = row["outlier"] === true;
    const whose = ranks.length > 1 ? ` of rank ${rank}` : "";
    return { x: step, y: time, series: ranks.indexOf(rank), out, open: () => stage.openRow("steps", rowKey(view, row)),
      words: `step ${step}${whose}: ${ns(time)}${out ? ", an outlier: open it for the reason" : ""}` };
  });
  if (!points.length) return null;
  const axes = { xTitle: "step", x: extent(points.map((point) => point.x)), formatX: plain, formatY: ns,
    most: points.reduce((most, point) => Math.max(most, point.y), 0) };
  return new ScatterChart(axes, points, { head: ["step", "rank", "time", "outlier"], rows: rows.map((row, i) =>
    [String(row["step"]), String(row["rank"]), ns(points[i]?.y ?? 0), points[i]?.out ? "yes" : "no"]) },
  num(fields(document["total"])["outlier_limit_ns"]));
}

function extent(values: number[]): [number, number] {
  return [values.reduce((a, b) => Math.min(a, b), Infinity), values.reduce((a, b) => Math.max(a, b), -Infinity)];
}

// Of the first rank: the phases of one step of several ranks do not add up to anything.
function phases(rows: Fields[], stage: Stage): Chart | null {
  const rank = ranksOf(rows)[0];
  const own = rows.filter((row) => row["rank"] === rank && Object.keys(fields(row["phases"])).length);
  const names = [...new Set(own.flatMap((row) => Object.keys(fields(row["phases"]))))];
  if (!own.length) return null;
  return new ColumnsChart({ axes: { xTitle: "step", formatX: plain, formatY: ns },
    positions: own.map((row) => num(row["step"]) ?? 0), series: names,
    values: names.map((name) => own.map((row) => num(fields(row["phases"])[name]) ?? 0)),
    open: (step) => stage.openRow("steps", `${rank}|${step}`) });
}

export function stepsPicture(stage: Stage): Picture {
  const ranks = new Figure("Time of each rank's steps");
  const times = new Figure("Time of each step");
  const parts = new Figure("Phases of each step");
  return {
    element: el("div", { class: "pictures" }, ranks.element, times.element, parts.element),
    update(document) {
      const rows = rowsOf(document["rows"]);
      const several = ranksOf(rows).length > 1;
      ranks.show(rankHeat(rows, stage));
      times.show(stepScatter(document, stage), "Time of each step",
        rows.some((row) => row["outlier"] === true) ? "▲ outliers; the dashed line is their limit" : "");
      parts.show(phases(rows, stage), several ? `Phases of each step of rank ${ranksOf(rows)[0]}` : "Phases of each step");
    },
  };
}
