// A run against another, which is the baseline: the document of 'moescope compare', and both by their steps.
import { adjust, go, here, Options } from "./address";
import { plain } from "./charts/columns";
import { Figure } from "./charts/figure";
import { LinesChart } from "./charts/lines";
import { button, el, repaint } from "./dom";
import { Drawer, figures } from "./details";
import { byUnit, cell, ns, number, pct, title } from "./format";
import { Fields, list, num, reason, rowsOf, text } from "./json";
import { meaning } from "./meanings";
import { Panel } from "./panel";
import { CHEAPEST, Source, Trouble } from "./source";
import { Table } from "./table";
import { View } from "./views";

const STEPS = 5000; // in the picture
const ROWS = 1000; // of a table
const IN_UNIT = ["baseline", "value", "difference", "difference_low", "difference_high", "value_low", "value_high", "visible"];
const SIGNED = ["difference", "difference_low", "difference_high", "difference_pct", "low_pct", "high_pct", "call_pct"];
// Where the baseline is too near to 0, or too uncertain, for percents.
const INSTEAD: { [key: string]: string } = { low_pct: "difference_low", high_pct: "difference_high" };
const HEADS: { [key: string]: string } = { difference_pct: "change", low_pct: "95% from", high_pct: "to",
  count_baseline: "times in baseline", count: "times", call_pct: "change of one", explains_pct: "explains" };
const VERDICTS: { [verdict: string]: string } = { better: "better", worse: "worse", noise: "within noise", same: "the same",
  untested: "not tested", absent: "unknown" };
const COLUMNS = ["of", "baseline", "value", "difference", "difference_pct", "low_pct", "high_pct", "verdict"];
const OF_CALLS = ["count_baseline", "count", "call_pct", "explains_pct", "state"];

interface Section {
  name: string;
  title: string;
  rows(pair: Fields): Fields[];
  columns: string[];
}

const figuresOf = (pair: Fields): Fields[] => rowsOf(pair["figures"]);
const table = (name: string, words: string): Section =>
  ({ name, title: words, rows: (pair) => rowsOf(pair[name]), columns: [...COLUMNS, ...OF_CALLS] });

const SECTIONS: Section[] = [
  { name: "figures", title: "Figures", rows: figuresOf, columns: ["metric", ...COLUMNS] },
  { name: "layers", title: "Layers", rows: (pair) => figuresOf(pair).filter((row) => text(row["of"]).startsWith("layer ")),
    columns: ["metric", ...COLUMNS] },
  table("host", "Ranges and operations"),
  table("launch_ranges", "Kernels by range"),
  table("kernels", "Kernels"),
  table("classes", "Kernel classes"),
  table("collectives", "Collectives"),
];

function compareCell(row: Fields, key: string): string {
  const value = num(row[key]);
  const instead = INSTEAD[key];
  if (instead && value === null && num(row[instead]) !== null) return compareCell(row, instead);
  const words = key === "verdict" || key === "call_verdict" ? VERDICTS[text(row[key])] ?? text(row[key])
    : key === "of" && !row[key] ? "the whole run"
      : value !== null && IN_UNIT.includes(key) ? byUnit(text(row["unit"]), value) : cell(row, key);
  return SIGNED.includes(key) && value !== null && value > 0 ? `+${words}` : words;
}

// Every figure in its own unit, for the details.
function readable(row: Fields): Fields {
  return Object.fromEntries(Object.entries(row).map(([key, json]) =>
    [key, IN_UNIT.includes(key) && num(json) !== null ? compareCell(row, key) : json]));
}

const metricOf = (row: Fields): string => text(row["metric"]).replace(/_pct$/, "").replace(/_/g, " ");

function viewOf(section: Section): View {
  return { name: section.name, title: section.title, group: "", id: ["table", "metric", "of"], part: "compare",
    columns: section.columns, head: (key) => HEADS[key] ?? title(key), cell: compareCell };
}

function interval(row: Fields): string {
  if (num(row["difference_low"]) === null) return reason(row, "low_pct");
  return `95% interval ${compareCell(row, "low_pct")} to ${compareCell(row, "high_pct")}`;
}

// What a figure rests on, in words.
function basis(row: Fields): string {
  const visible = num(row["visible_pct"]);
  const p = num(row["p_adjusted"]);
  return [`${metricOf(row)}: ${num(row["n_baseline"]) ?? 0} ${text(row["compared"])} of the baseline against `
    + `${num(row["n"]) ?? 0}.`, interval(row) ? `${interval(row)}.` : "",
  p === null ? "" : `Probability of such a difference by chance alone: ${number("", p)}.`,
  visible === null ? "" : `A difference below ${pct(visible)} would not have been found.`].filter(Boolean).join(" ");
}

// Mean over the ranks, as the comparison takes it.
function stepTimes(document: Fields): Map<number, number> {
  const sums = new Map<number, [number, number]>();
  for (const row of rowsOf(document["rows"])) {
    const [step, time] = [num(row["step"]), num(row["time_ns"])];
    if (step === null || time === null || row["unfinished"] === true) continue;
    const [sum, n] = sums.get(step) ?? [0, 0];
    sums.set(step, [sum + time, n + 1]);
  }
  return new Map([...sums].map(([step, [sum, n]]) => [step, sum / n]));
}

function stepLines(base: Fields, other: Fields, names: [string, string]): LinesChart | null {
  const times = [stepTimes(base), stepTimes(other)];
  const steps = [...new Set(times.flatMap((of) => [...of.keys()]))].sort((a, b) => a - b);
  if (!steps.length) return null;
  return new LinesChart({ axes: { xTitle: "step", formatX: plain, formatY: ns }, x: steps,
    series: times.map((of, i) => ({ name: names[i] as string, values: steps.map((step) => of.get(step) ?? null) })) });
}

export class ComparePanel implements Panel {
  element: HTMLElement;
  private heading = el("h1", {}, "Compare");
  private choice = el("select", { "aria-label": "Baseline" });
  private turn: HTMLButtonElement;
  private sentence = el("p", { class: "sentence", role: "status" });
  private body = el("div", { class: "compared" });
  private doubts = el("ul", { class: "doubts" });
  private tiles = el("div", { class: "tiles" });
  private steps = new Figure("Time of each step");
  private tabs = el("div", { class: "choices", role: "group", "aria-label": "Compared by" });
  private search: HTMLInputElement;
  private count = el("p", { class: "count", role: "status" });
  private place = el("div", { class: "table" });
  private drawer = new Drawer(() => this.place.querySelector<HTMLElement>("[role=grid]")?.focus());
  private table: Table | null = null;
  private section = "";
  private names: string[] | null = null;
  private document: Fields | null = null;
  private stepsShown: Fields[] = [];

  constructor(private source: Source, private run: string) {
    this.choice.addEventListener("change", () => this.baseline(this.choice.value));
    this.turn = button("Turn around", () => go({ run: here().options["with"] ?? run, view: "compare",
      options: { ...here().options, with: run } }), { title: "Make the baseline the one that is compared" });
    this.search = el("input", { type: "search", placeholder: "Search (/)", "aria-label": "Search the comparison",
      "aria-keyshortcuts": "/" });
    this.search.addEventListener("input", () => {
      adjust({ find: this.search.value });
      this.table?.setFind(this.search.value);
      this.paintCount();
    });
    this.body.append(this.doubts, this.tiles, el("div", { class: "pictures" }, this.steps.element),
      el("div", { class: "bar" }, this.tabs, this.search), this.count,
      el("div", { class: "beside" }, this.place, this.drawer.element));
    this.body.hidden = true;
    this.element = el("section", { class: "view", "aria-label": "Compare" },
      el("div", { class: "bar" }, this.heading, el("span", { class: "choose" },
        el("label", {}, `Compare ${run} with `, this.choice), this.turn)), this.sentence, this.body);
    this.steps.show(null);
    this.restore(here().options);
  }

  private get base(): string {
    return here().options["with"] ?? "";
  }

  private baseline(name: string): void {
    const place = here();
    go({ ...place, options: { ...place.options, with: name } });
  }

  async refresh(): Promise<Fields> {
    const head = await this.source.view(this.run, CHEAPEST, { limit: "1" });
    if (!this.source.live) {
      throw new Trouble("This file is about one run; 'moescope serve' and 'moescope compare' compare two.", "refused");
    }
    const names = (await this.source.runs()).map((run) => text(run["name"]));
    if (names.join("\n") !== this.names?.join("\n")) this.paintChoice(names);
    const base = this.base;
    if (!base) {
      this.say(names.length > 1 ? "Choose the run to compare with; it is the baseline."
        : "There is no other run here to compare with; 'moescope serve DIR' shows all of a directory.");
      return head;
    }
    await this.compare(base);
    return head;
  }

  // That the other run is missing is no trouble of this one.
  private async compare(base: string): Promise<void> {
    try {
      const document = await this.source.compare(base, this.run, { limit: String(ROWS) });
      const ask = { limit: String(STEPS) };
      const steps = [await this.source.view(base, "steps", ask), await this.source.view(this.run, "steps", ask)];
      if (base !== this.base) return;
      if (document !== this.document) this.paint(document);
      if (steps.some((of, i) => of !== this.stepsShown[i])) {
        this.steps.show(stepLines(steps[0] as Fields, steps[1] as Fields, [base, this.run]), undefined,
          "Aligned by the number of the step; the mean over the ranks.");
      }
      this.stepsShown = steps;
      this.say("");
    } catch (error) {
      if (!(error instanceof Trouble) || error.kind === "silent") throw error;
      if (base === this.base) this.say(error.message);
    }
  }

  // A sentence stands in place of the comparison.
  private say(sentence: string): void {
    this.sentence.textContent = sentence;
    this.sentence.hidden = !sentence;
    this.body.hidden = sentence !== "";
  }

  restore(options: Options): void {
    this.choice.value = options["with"] ?? "";
    this.turn.disabled = !options["with"];
    this.search.value = options["find"] ?? "";
    if (this.document) this.paintSection(this.document, true);
  }

  private paintChoice(names: string[]): void {
    const others = names.filter((name) => name !== this.run);
    this.names = names;
    // A name in the address that is not there keeps its place: the sentence below says what is wrong.
    const all = this.base && this.base !== this.run && !others.includes(this.base) ? [...others, this.base] : others;
    this.choice.replaceChildren(el("option", { value: "" }, "choose a run…"),
      ...all.map((name) => el("option", { value: name }, name)));
    this.choice.value = this.base;
  }

  private paint(document: Fields): void {
    const pair = rowsOf(document["comparisons"])[0] ?? {};
    this.document = document;
    this.heading.textContent = `${this.run} against ${text(pair["baseline"])}`;
    repaint(this.doubts, ...rowsOf(document["differ"]).map((fact) => {
      const values = list(fact["values"]).map(text);
      return el("li", { class: fact["doubtful"] === true ? "doubtful" : "", title: fact["doubtful"] === true
        ? "This makes the comparison doubtful." : "" }, el("b", {}, text(fact["fact"])), ` ${values[0]} → ${values[1]}`);
    }));
    this.doubts.hidden = !this.doubts.childElementCount;
    repaint(this.tiles, ...figuresOf(pair).filter((row) => !row["of"] && num(row["value"]) !== null)
      .map((row) => this.tile(row)));
    this.paintSection(document);
  }

  private tile(row: Fields): HTMLElement {
    const verdict = text(row["verdict"]);
    const change = num(row["difference_pct"]) === null ? "difference" : "difference_pct";
    return el("div", { class: `tile ${verdict}`, title: basis(row) },
      el("span", { class: "name" }, metricOf(row)),
      el("strong", {}, compareCell(row, "value"), el("small", {}, ` from ${compareCell(row, "baseline")}`)),
      el("span", { class: "change" }, compareCell(row, change), el("b", { class: "verdict" }, VERDICTS[verdict] ?? verdict)),
      el("span", { class: "more" }, interval(row)));
  }

  // `restoring`: the address has come from elsewhere, with its row.
  private paintSection(document: Fields, restoring = false): void {
    const pair = rowsOf(document["comparisons"])[0] ?? {};
    const filled = SECTIONS.filter((section) => section.rows(pair).length);
    const options = here().options;
    const section = filled.find(({ name }) => name === options["by"]) ?? filled[0];
    repaint(this.tabs, ...filled.map(({ name, title: words }) => button(words, () => {
      adjust({ by: name, sort: "", row: "" });
      this.paintSection(document);
    }, { "data-key": name, "aria-pressed": String(name === section?.name) })));
    if (!section) return;
    const isNew = section.name !== this.section;
    if (isNew) this.newTable(section);
    this.table?.setRows(section.rows(pair));
    this.table?.setFind(this.search.value);
    this.table?.setSort(options["sort"] ?? "");
    // A run that grows must not scroll, nor open what was closed.
    const row = (isNew || restoring) && options["row"] ? this.table?.choose(options["row"]) : undefined;
    if (row) this.showRow(row);
    this.paintCount();
  }

  private newTable(section: Section): void {
    this.section = section.name;
    this.drawer.close();
    this.table = new Table(viewOf(section), {
      sorted: (sort) => adjust({ sort }),
      selected: (row) => adjust({ row }),
      opened: (row) => this.showRow(row),
    });
    this.place.replaceChildren(this.table.element);
  }

  private showRow(row: Fields): void {
    this.drawer.show([metricOf(row), text(row["of"])].filter(Boolean).join(", "),
      el("p", { class: "entries" }, basis(row)), figures(readable(row), "compare_row"));
  }

  private paintCount(): void {
    const pair = rowsOf(this.document?.["comparisons"])[0] ?? {};
    const all = SECTIONS.find(({ name }) => name === this.section)?.rows(pair).length ?? 0;
    const shown = this.table?.count ?? 0;
    const cut = all >= ROWS ? `; only the ${ROWS} with the largest differences are shown` : "";
    this.count.textContent = `${shown < all ? `${shown} of ${all} rows` : `${all} ${all === 1 ? "row" : "rows"}`}${cut}. `
      + `Of ${text(pair["compared"]) === "runs" ? "whole runs" : "a step"}; hold the pointer over a title for its meaning.`;
    this.count.title = meaning("compare_row", "verdict");
  }
}
