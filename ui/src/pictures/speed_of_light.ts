// How close kernels brought the parts of the GPU to their peaks, by hardware counters.
import { BarsChart } from "../charts/bars";
import { Chart, Figure } from "../charts/figure";
import { el } from "../dom";
import { pct } from "../format";
import { Fields, num, rowsOf, text } from "../json";
import { rowKey } from "../rows";
import { View } from "../views";
import { Picture, Stage } from "./picture";

const MOST = 10;
const PARTS: [string, string][] = [["sm_pct", "SM"], ["tensor_pct", "tensor cores"], ["dram_pct", "DRAM"], ["l2_pct", "L2"]];

// Of the kernel in the run; where none was timed there, of the launches that were measured.
function time(row: Fields, shares: boolean): number {
  return shares ? num(row["share_pct"]) ?? 0 : (num(row["mean_ns"]) ?? 0) * (num(row["launches"]) ?? 0);
}

function speedOfLight(rows: Fields[], view: View, stage: Stage): Chart | null {
  const counted = PARTS.filter(([key]) => rows.some((row) => num(row[key]) !== null));
  const shares = rows.some((row) => num(row["share_pct"]) !== null);
  const top = rows.filter((row) => counted.some(([key]) => num(row[key]) !== null))
    .sort((a, b) => time(b, shares) - time(a, shares)).slice(0, MOST);
  if (!top.length) return null;
  return new BarsChart({ title: "kernel", parts: counted.map(([, name]) => name), format: pct, full: 100, below: true,
    bars: top.map((row) => {
      const name = text(row["short_name"]);
      const known = counted.filter(([key]) => num(row[key]) !== null);
      const bound = text(row["bound_by"]);
      return { name, parts: counted.map(([key]) => num(row[key]) ?? NaN), label: bound ? `bound by ${bound}` : "",
        words: `${name}: ${known.map(([key, part]) => `${part} ${pct(num(row[key]) ?? 0)}`).join(", ")}`,
        open: () => stage.openRow(view.name, rowKey(view, row)) };
    }) });
}

export function speedOfLightPicture(stage: Stage, view: View): Picture {
  const figure = new Figure("Speed of light: share of each part's peak");
  return {
    element: el("div", { class: "pictures" }, figure.element),
    update: (document) => figure.show(speedOfLight(rowsOf(document["rows"]), view, stage)),
  };
}
