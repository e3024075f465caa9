// Pairs of experts that tokens visit: together in a layer, or one after the other in two, beside chance.
import { BarsChart } from "../charts/bars";
import { Chart, Figure } from "../charts/figure";
import { HeatChart } from "../charts/heat";
import { count, pct, ratio } from "../format";
import { Fields, list, num, numbers, reason, rowsOf } from "../json";

interface Kind {
  key: string; // of the shares in a row; the others begin with it
  sign: string; // between two experts
  titles(layer: string, row: Fields): { heat: string; bars: string };
  columns(row: Fields): string; // what the columns are
  note(row: Fields): string;
}

const MARK = "The mark on a bar is what the loads alone would give.";

export const TOGETHER: Kind = {
  key: "coactivation", sign: " and ",
  titles: (layer) => ({ heat: `Experts that serve a token together, layer ${layer}`,
    bars: `Pairs chosen together beyond chance, layer ${layer}` }),
  columns: () => "with expert",
  note: () => "",
};

export const ONWARD: Kind = {
  key: "affinity", sign: " → ",
  titles(layer, row) {
    const next = num(row["affinity_layer"]);
    const onto = next === null ? "the next layer" : `layer ${next}`;
    return { heat: `Flow from layer ${layer} to ${onto}`, bars: `Strongest flows beyond chance, layer ${layer} to ${onto}` };
  },
  columns: (row) => `to expert of layer ${row["affinity_layer"]}`,
  note(row) {
    const [bits, most, floor] = ["affinity_bits", "affinity_bits_most", "affinity_bits_floor"].map((key) => num(row[key]) ?? 0);
    if (num(row["affinity_bits"]) === null) return "";
    return `An expert gives ${ratio(bits ?? 0)} bits about the next one, of ${ratio(most ?? 0)} at most; `
      + `chance alone shows ${ratio(floor ?? 0)} with ${count(num(row["affinity_tokens"]) ?? 0)} tokens.`;
  },
};

function heat(kind: Kind, row: Fields, lifted: boolean): Chart | null {
  const shares = list(row[kind.key]).map(numbers);
  const lifts = list(row[`${kind.key}_lift`]).map(list);
  const names = (n: number): string[] => Array.from({ length: n }, (_, e) => String(e));
  const own = (i: number, j: number): boolean => kind === TOGETHER && i === j;
  const share = (i: number, j: number): number => 100 * (shares[i]?.[j] ?? 0);
  if (!lifts.length) return null;
  return new HeatChart({ rowTitle: "expert", columnTitle: kind.columns(row), rows: names(shares.length),
    columns: names(shares[0]?.length ?? 0), plainZeros: true,
    value: (i, j) => (own(i, j) ? null : lifted ? num(lifts[i]?.[j]) : share(i, j)),
    format: (value) => (lifted ? `${ratio(value)} × chance` : pct(value)),
    words(i, j) {
      const lift = num(lifts[i]?.[j]);
      return own(i, j) ? "the same expert" : `${pct(share(i, j))}${lift === null ? "" : `, ${ratio(lift)} × chance`}`;
    } });
}

function bars(kind: Kind, row: Fields): Chart | null {
  const pairs = rowsOf(row[`${kind.key}_pairs`]);
  if (!pairs.length) return null;
  return new BarsChart({ title: "experts", parts: ["share"], format: pct, bars: pairs.map((pair) => {
    const [share, chance] = [100 * (num(pair["share"]) ?? 0), 100 * (num(pair["chance"]) ?? 0)];
    const name = `${pair["from"]}${kind.sign}${pair["to"]}`;
    const tokens = num(pair["tokens"]) ?? 0;
    return { name, parts: [share], expected: chance, label: pct(share),
      words: `${name}: ${count(tokens)} ${tokens === 1 ? "token" : "tokens"}, ${pct(share)}, by chance ${pct(chance)}` };
  }) });
}

// A map of all pairs of a layer, and the strongest ones by name.
export class PairFigures {
  private map: Figure;
  private strongest: Figure;
  elements: HTMLElement[];

  constructor(private kind: Kind) {
    this.map = new Figure("Pairs of experts");
    this.strongest = new Figure("Strongest pairs of experts");
    this.elements = [this.map.element, this.strongest.element];
  }

  // `detail`: the same row with what only one layer has; null: nobody can be asked for it.
  show(layer: string, row: Fields, detail: Fields | null, lifted: boolean): void {
    const { key } = this.kind;
    const titles = this.kind.titles(layer, row);
    const chart = detail && heat(this.kind, detail, lifted);
    const why = detail ? reason(detail, `${key}_lift`) || reason(detail, key) : "";
    if (chart) this.map.show(chart, titles.heat, this.kind.note(row));
    else if (why) this.map.tell(`Not known: ${why}.`, titles.heat);
    else this.map.show(null);
    const pairs = bars(this.kind, row);
    if (pairs || !Array.isArray(row[`${key}_pairs`])) this.strongest.show(pairs, titles.bars, MARK);
    else this.strongest.tell("No pair has more tokens than by chance.", titles.bars);
  }
}
