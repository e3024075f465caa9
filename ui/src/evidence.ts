// The place of a verdict's evidence: the view, and the row where there is one.
import { Place } from "./address";
import { fields, Fields, num, rowsOf, text } from "./json";
import { rowKey } from "./rows";
import { findView } from "./views";

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
  const [view = "", key] = text(verdict["place"]).split(".");
  if (!findView(view)) return null;
  const row = rowOf(view, verdict, report);
  return { run, view, options: { sort: `-${key}`, ...(row ? { row } : {}) } };
}
