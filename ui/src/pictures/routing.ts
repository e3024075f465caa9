// Which experts the tokens go to: all layers at once, one layer closely, and over time.
import { adjust, here } from "../address";
import { BarsChart } from "../charts/bars";
import { ColumnsChart, plain } from "../charts/columns";
import { Chart, Figure } from "../charts/figure";
import { HeatChart } from "../charts/heat";
import { button, el } from "../dom";
import { count, ratio } from "../format";
import { Fields, num, numbers, rowsOf, text } from "../json";
import { rowKey } from "../rows";
import { findView, View } from "../views";
import { ONWARD, PairFigures, TOGETHER } from "./pairs";
import { Picture, ViewStage } from "./picture";

const view = findView("routing") as View;
const WIDTHS = [1, 10, 100];

function nameOf(row: Fields): string {
  return [String(row["layer"]), text(row["phase"])].filter(Boolean).join(" ");
}

function layers(rows: Fields[], choose: (row: Fields) => void): Chart | null {
  const loads = rows.map((row) => numbers(row["load"]));
  const experts = loads.reduce((most, load) => Math.max(most, load.length), 0);
  const means = loads.map((load) => load.reduce((a, b) => a + b, 0) / (load.length || 1));
  if (!experts) return null;
  return new HeatChart({ rowTitle: "layer", columnTitle: "expert", rows: rows.map(nameOf),
    columns: Array.from({ length: experts }, (_, e) => String(e)),
    value: (r, e) => (e < (loads[r]?.length ?? 0) && means[r] ? (loads[r]?.[e] ?? 0) / (means[r] ?? 1) : null),
    format: (value) => `${ratio(value)} × mean`, open: (r) => choose(rows[r] as Fields) });
}

function balance(rows: Fields[], choose: (row: Fields) => void): Chart | null {
  const known = rows.filter((row) => num(row["imbalance"]) !== null);
  if (!known.length) return null;
  return new BarsChart({ title: "layer", parts: ["imbalance"], format: ratio, bars: known.map((row) => {
    const [imbalance, floor] = [num(row["imbalance"]) ?? 0, num(row["imbalance_floor"])];
    return { name: nameOf(row), parts: [imbalance], label: ratio(imbalance), open: () => choose(row),
      words: `layer ${nameOf(row)}: imbalance ${ratio(imbalance)}${floor === null ? "" : `, by chance ${ratio(floor)}`}`,
      ...(floor === null ? {} : { expected: floor }) };
  }) });
}

function experts(row: Fields): Chart {
  const load = numbers(row["load"]);
  const mean = load.reduce((a, b) => a + b, 0) / (load.length || 1);
  return new ColumnsChart({ axes: { xTitle: "expert", formatX: plain, formatY: count },
    positions: load.map((_, e) => e), series: ["assignments"], values: [load],
    line: { value: mean, words: `mean ${count(Math.round(mean))}` } });
}

function overTime(row: Fields): Chart | null {
  const series = rowsOf(row["series"]);
  const loads = series.map((point) => numbers(point["load"]));
  const sums = loads.map((load) => load.reduce((a, b) => a + b, 0));
  const n = loads.reduce((most, load) => Math.max(most, load.length), 0);
  if (!n) return null;
  return new HeatChart({ rowTitle: "expert", columnTitle: "step", rows: Array.from({ length: n }, (_, e) => String(e)),
    columns: series.map((point) => String(point["step"])),
    value: (e, s) => (sums[s] ? ((loads[s]?.[e] ?? 0) * (loads[s]?.length ?? 0)) / (sums[s] ?? 1) : null),
    format: (value) => `${ratio(value)} × mean` });
}

// What a layer's experts tell of the next layer's.
function told(rows: Fields[], choose: (row: Fields) => void): Chart | null {
  const known = rows.filter((row) => num(row["affinity_bits"]) !== null);
  if (!known.length) return null;
  return new BarsChart({ title: "layer", parts: ["bits"], format: ratio, bars: known.map((row) => {
    const [bits, floor, most] = ["affinity_bits", "affinity_bits_floor", "affinity_bits_most"].map((key) => num(row[key]) ?? 0);
    const name = `${nameOf(row)} → ${row["affinity_layer"]}`;
    return { name, parts: [bits ?? 0], expected: floor ?? 0, label: ratio(bits ?? 0), open: () => choose(row),
      words: `layer ${name}: ${ratio(bits ?? 0)} bits of ${ratio(most ?? 0)}, by chance ${ratio(floor ?? 0)}` };
  }) });
}

function slots(row: Fields, figure: Figure): void {
  const tokens = numbers(row["k_hist"]);
  const [least, most] = [num(row["k_min"]), num(row["k_max"])];
  const title = `Experts of a token, layer ${nameOf(row)}`;
  const [none, dropped] = [tokens[0] ?? 0, num(row["dropped"]) ?? 0];
  if (least === null || most === null) figure.show(null);
  else if (least === most) figure.tell(`Every token used ${most} ${most === 1 ? "expert" : "experts"}.`, title);
  else {
    figure.show(new ColumnsChart({ axes: { xTitle: "experts", formatX: plain, formatY: count },
      positions: tokens.map((_, k) => k), series: ["tokens"], values: [tokens] }), title,
    [none ? `${count(none)} ${none === 1 ? "token" : "tokens"} had no expert.` : "",
      dropped ? `${count(dropped)} ${dropped === 1 ? "slot was" : "slots were"} dropped.` : ""].filter(Boolean).join(" "));
  }
}

// Which layer the pictures below are of, and what the colours of its pairs mean.
class LayerChoice {
  element = el("div", { class: "controls" });
  private slider = el("input", { type: "range", min: "0", "aria-label": "Layer shown" });
  private colour = el("select", { "aria-label": "Colour of pairs" },
    el("option", { value: "" }, "pairs by share"), el("option", { value: "lift" }, "pairs by times chance"));
  private words = el("output");
  private rows: Fields[] = [];

  constructor(choose: (row: Fields) => void, recolour: () => void) {
    this.element.append(el("label", {}, "Layer ", this.slider), this.words, this.colour);
    this.slider.addEventListener("input", () => {
      const row = this.rows[Number(this.slider.value)];
      if (row) choose(row);
    });
    this.colour.addEventListener("change", () => {
      adjust({ colour: this.colour.value });
      recolour();
    });
  }

  get lifted(): boolean {
    return here().options["colour"] === "lift";
  }

  update(rows: Fields[], row: Fields | undefined): void {
    this.rows = rows;
    this.element.hidden = !row;
    this.slider.max = String(Math.max(0, rows.length - 1));
    this.slider.disabled = rows.length < 2;
    this.slider.value = String(row ? rows.indexOf(row) : 0);
    this.words.textContent = row ? `layer ${nameOf(row)}` : "";
    this.slider.setAttribute("aria-valuetext", this.words.textContent);
    this.colour.value = this.lifted ? "lift" : "";
  }
}

// A window of steps that moves over the run; the table follows it.
class StepWindow {
  element = el("div", { class: "controls" });
  private slider = el("input", { type: "range", "aria-label": "First step shown" });
  private width = el("select", { "aria-label": "Steps shown at once" });
  private words = el("output");
  private asked = 0;

  constructor(private stage: ViewStage) {
    for (const n of WIDTHS) this.width.append(el("option", { value: String(n) }, n === 1 ? "1 step" : `${n} steps`));
    this.element.append(el("label", {}, "Over time ", this.slider), this.width, this.words,
      button("Whole run", () => this.ask("")));
    this.element.hidden = true;
    const moved = (): void => {
      clearTimeout(this.asked);
      this.paint();
      this.asked = window.setTimeout(() => this.ask(this.range()), 150);
    };
    this.slider.addEventListener("input", moved);
    this.width.addEventListener("change", moved);
  }

  private range(): string {
    const first = Number(this.slider.value);
    return `${first}:${Math.min(Number(this.slider.max), first + Number(this.width.value) - 1)}`;
  }

  private ask(steps: string): void {
    this.stage.adjust({ steps });
    this.paint(steps);
  }

  private paint(steps = this.range()): void {
    const [first, last] = steps.split(":");
    this.words.textContent = !steps ? "all steps" : first === last ? `step ${first}` : `steps ${first} to ${last}`;
  }

  // The first and the last step that have routing.
  async update(): Promise<void> {
    if (!this.stage.source.live) return;
    const ask = async (sort: { [key: string]: string }): Promise<number | null> => {
      const found = await this.stage.source.view(this.stage.run, "routing-steps", { limit: "1", ...sort });
      return num(rowsOf(found["rows"])[0]?.["step"]);
    };
    const [first, last] = await Promise.all([ask({}), ask({ sort: "step" })]);
    const steps = here().options["steps"] ?? "";
    this.element.hidden = first === null || last === null || last <= first;
    if (first === null || last === null) return;
    this.slider.min = String(first);
    this.slider.max = String(last);
    if (document.activeElement === this.slider) return;
    const [from, to] = steps.split(":").map(Number);
    if (steps && from !== undefined && to !== undefined) {
      this.slider.value = String(from);
      this.width.value = String(WIDTHS.find((n) => n >= to - from + 1) ?? WIDTHS[WIDTHS.length - 1]);
    } else {
      this.slider.value = String(first);
    }
    this.paint(steps);
  }
}

export function routingPicture(stage: ViewStage): Picture {
  const all = new Figure("Load of each expert");
  const even = new Figure("Imbalance of each layer, and by chance");
  const bits = new Figure("Information about the next layer's expert, in bits");
  const one = new Figure("Experts of a layer");
  const time = new Figure("Experts of a layer over time");
  const k = new Figure("Experts of a token");
  const pairs = [TOGETHER, ONWARD].map((kind) => new PairFigures(kind));
  const steps = new StepWindow(stage);
  let current: Fields | undefined;
  let detail: Fields | null = null; // of the current row
  let rows: Fields[] = [];
  const choose = (row: Fields): void => {
    stage.openRow("routing", rowKey(view, row));
    look(row);
  };
  const showPairs = (): void => {
    for (const figures of pairs) if (current) figures.show(nameOf(current), current, detail, layer.lifted);
  };
  const layer = new LayerChoice((row) => {
    stage.selectRow(rowKey(view, row));
    look(row);
  }, showPairs);
  const look = (row: Fields): void => {
    if (!current || rowKey(view, current) !== rowKey(view, row)) detail = null;
    current = row;
    layer.update(rows, row);
    one.show(experts(row), `Experts of layer ${nameOf(row)}`);
    slots(row, k);
    void closely(row).catch(() => undefined); // the view's own request says what is wrong
  };
  const closely = async (row: Fields): Promise<void> => {
    const phase = text(row["phase"]);
    const range = here().options["steps"];
    const found = stage.source.live ? await stage.source.view(stage.run, "routing", { layer: String(row["layer"]),
      ...(phase ? { phase } : {}), ...(range ? { steps: range } : {}) }) : {};
    if (current !== row) return;
    detail = rowsOf(found["rows"])[0] ?? null;
    time.show(detail && overTime(detail), `Experts of layer ${nameOf(row)} over time`);
    showPairs();
  };
  return {
    element: el("div", { class: "pictures" }, steps.element, all.element, even.element, bits.element, layer.element,
      one.element, time.element, k.element, ...pairs.flatMap((figures) => figures.elements)),
    update(document) {
      rows = rowsOf(document["rows"]);
      const wanted = here().options["row"];
      const before = current && rowKey(view, current);
      const worst = [...rows].sort((a, b) => (num(b["imbalance"]) ?? 0) - (num(a["imbalance"]) ?? 0))[0];
      const row = [wanted, before].map((key) => rows.find((candidate) => rowKey(view, candidate) === key))
        .find(Boolean) ?? worst;
      all.show(layers(rows, choose), "Load of each expert",
        rows.some((each) => numbers(each["load"]).includes(0)) ? "× an expert without a token" : "");
      even.show(balance(rows, choose), undefined, "The mark on a bar is what uniform routing shows by chance.");
      bits.show(told(rows, choose), undefined, "The mark on a bar is what as many tokens show by chance.");
      steps.update().catch(() => undefined); // likewise
      if (row) return look(row);
      layer.update(rows, row);
      [one, time, k].forEach((figure) => figure.show(null));
      pairs.forEach((figures) => figures.show("", {}, null, false));
    },
  };
}
