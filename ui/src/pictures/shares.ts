// The rows that take most of the time, for every view whose rows have a share.
import { BarsChart } from "../charts/bars";
import { Chart, Figure } from "../charts/figure";
import { el } from "../dom";
import { ns, pct } from "../format";
import { Fields, num, rowsOf, text } from "../json";
import { rowKey } from "../rows";
import { View } from "../views";
import { Picture, Stage } from "./picture";

const MOST = 10;
const SHARES = ["share_pct", "self_cpu_pct"];

// A number alone says nothing: "layer 3".
function word(part: string, row: Fields): string {
  const number = num(row[part]);
  return number === null ? text(row[part]) : `${part} ${number}`;
}

export function shares(rows: Fields[], view: View, stage: Stage): Chart | null {
  const key = SHARES.find((candidate) => rows.some((row) => num(row[candidate]) !== null));
  if (!key) return null;
  const top = rows.filter((row) => num(row[key]) !== null)
    .sort((a, b) => (num(b[key]) ?? 0) - (num(a[key]) ?? 0)).slice(0, MOST);
  return new BarsChart({ title: view.title, parts: ["share"], format: pct, bars: top.map((row) => {
    const share = num(row[key]) ?? 0;
    const name = text(row["short_name"]) || view.id.map((part) => word(part, row)).filter(Boolean).join(" ");
    const time = num(row["time_ns"]) ?? num(row["self_cpu_ns"]);
    const words = `${name}: ${pct(share)}${time === null ? "" : `, ${ns(time)}`}`;
    return { name, parts: [share], label: pct(share), words, open: () => stage.openRow(view.name, rowKey(view, row)) };
  }) });
}

export function sharesPicture(stage: Stage, view: View): Picture {
  const figure = new Figure(`${view.title}: share of the time`);
  return {
    element: el("div", { class: "pictures" }, figure.element),
    update: (document) => figure.show(shares(rowsOf(document["rows"]), view, stage)),
  };
}
