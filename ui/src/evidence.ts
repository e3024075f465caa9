// The places of a verdict's evidence: the view, the row where there is one, and the timeline.
import { Place, TIMELINE } from "./address";
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
  const time = num(fields(verdict["when"])["start_ns"]);
  return { run, view, options: { sort: `-${key}`, ...(row ? { row } : {}),
    ...(view === "memory" && time !== null ? { at: String(time) } : {}) } };
}

// Where on the timeline it shows; null: no one moment shows it.
export function spanOf(verdict: Fields, run: string): Place | null {
  const when = fields(verdict["when"]);
  if (num(when["start_ns"]) === null) return null;
  return { run, view: TIMELINE,
    options: { span: ["start_ns", "end_ns", "rank", "lane", "device"].map((key) => when[key] ?? "").join(":") } };
}
