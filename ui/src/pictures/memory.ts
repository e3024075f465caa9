// Memory over time, and by use at the peak.
import { BarsChart } from "../charts/bars";
import { Chart, Figure } from "../charts/figure";
import { LinesChart } from "../charts/lines";
import { el } from "../dom";
import { bytes, ns } from "../format";
import { fields, Fields, num, rowsOf } from "../json";
import { Picture } from "./picture";

function place(row: Fields): string {
  const device = num(row["device"]) ?? -1;
  return `rank ${row["rank"]}, ${device < 0 ? "host" : `device ${device}`}`;
}

function overTime(row: Fields | undefined): Chart | null {
  const points = rowsOf(row?.["series"]);
  const reserved = points.some((point) => num(point["reserved_bytes"]) !== null);
  if (!points.length) return null;
  return new LinesChart({ axes: { xTitle: "time", formatX: ns, formatY: bytes },
    x: points.map((point) => num(point["time_ns"]) ?? 0),
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

export function memoryPicture(): Picture {
  const lines = new Figure("Memory over time");
  const uses = new Figure("By use, at the peak");
  return {
    element: el("div", { class: "pictures" }, lines.element, uses.element),
    update(document) {
      const rows = rowsOf(document["rows"]);
      const peak = (row: Fields): number => num(row["peak_allocated_bytes"]) ?? 0;
      const largest = [...rows].sort((a, b) => peak(b) - peak(a))[0];
      lines.show(overTime(largest), `Memory over time${rows.length > 1 && largest ? `: ${place(largest)}` : ""}`);
      uses.show(byUse(rows));
    },
  };
}
