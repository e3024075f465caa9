// The SQL box: a query over the records of the run, and its rows.
import { adjust, here, Options } from "./address";
import { button, el, repaint } from "./dom";
import { Drawer, figures } from "./details";
import { ns } from "./format";
import { fields, Fields, Json, list, num, rowsOf, text } from "./json";
import { Panel } from "./panel";
import { CHEAPEST, Source, Trouble } from "./source";
import { Table } from "./table";

const NUMBER = "#"; // the column with the number of the row
const AGAIN_MS = 1000;
const EXAMPLES: [string, string][] = [
  ["Kernels by time", "SELECT short_name, count(*) AS n, sum(duration_ns) AS total_ns, avg(duration_ns) AS mean_ns\n"
    + "FROM kernels GROUP BY short_name ORDER BY total_ns DESC LIMIT 50"],
  ["Slowest steps", "SELECT rank, step, duration_ns FROM steps ORDER BY duration_ns DESC LIMIT 20"],
  ["Ranges by time", "SELECT name, count(*) AS n, sum(duration_ns) AS total_ns\nFROM ranges GROUP BY name "
    + "ORDER BY total_ns DESC LIMIT 50"],
  ["Most loaded experts", "SELECT layer, expert, sum(load) AS tokens\nFROM routing_load GROUP BY layer, expert "
    + "ORDER BY tokens DESC LIMIT 20"],
  ["From call to kernel", "SELECT k.short_name, count(*) AS n, avg(k.start_ns - a.start_ns) AS wait_ns\nFROM kernels k "
    + "JOIN api_calls a ON a.correlation = k.correlation AND a.rank = k.rank\nGROUP BY k.short_name ORDER BY wait_ns DESC "
    + "LIMIT 50"],
];

// Digits as they are: whoever asks in SQL may count on them.
function exactCell(row: Fields, key: string): string {
  const json = row[key];
  return json === null || json === undefined ? "NULL" : String(json);
}

// Names that tell columns apart: SQL may give the same name to several.
function columnNames(document: Fields): string[] {
  const names: string[] = [];
  for (const json of list(document["columns"])) {
    let name = text(json);
    for (let n = 2; names.includes(name) || name === NUMBER; n++) name = `${text(json)} (${n})`;
    names.push(name);
  }
  return names;
}

export function csv(names: string[], rows: Json[][]): string {
  const quoted = (json: Json): string => {
    const words = json === null ? "" : String(json);
    return /[",\r\n]/.test(words) ? `"${words.replace(/"/g, '""')}"` : words;
  };
  return [names, ...rows].map((row) => row.map(quoted).join(",")).join("\r\n") + "\r\n";
}

export class SqlPanel implements Panel {
  element: HTMLElement;
  private box = el("textarea", { rows: "6", spellcheck: "false", "aria-label": "Query", "aria-keyshortcuts": "Control+Enter",
    placeholder: "SELECT …" });
  private status = el("p", { class: "count", role: "status" });
  private place = el("div", { class: "table" });
  private tables = el("aside", { class: "tables", "aria-label": "Tables" });
  private save: HTMLButtonElement;
  private drawer = new Drawer(() => this.place.querySelector<HTMLElement>("[role=grid]")?.focus());
  private table: Table | null = null;
  private known = false;
  private asked = 0;
  private shown = ""; // the query whose rows these are, or are to come
  private result: { names: string[]; rows: Json[][] } | null = null;

  constructor(private source: Source, private run: string) {
    this.save = button("Save as CSV", () => this.saveCsv());
    this.save.disabled = true;
    this.box.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      this.ask();
    });
    this.element = el("section", { class: "view sql", "aria-label": "SQL" }, el("h1", {}, "SQL"),
      el("div", { class: "beside" }, el("div", { class: "query" }, this.box,
        el("div", { class: "choices" }, button("Run", () => this.ask(), { title: "Ctrl+Enter", class: "main" }), this.save,
          el("span", { class: "kept" }, "Examples:"), ...EXAMPLES.map(([name, query]) => button(name, () => {
            this.box.value = query;
            this.ask();
          }, { title: query }))),
        this.status, el("div", { class: "beside" }, this.place, this.drawer.element)), this.tables));
    this.restore(here().options);
  }

  async refresh(): Promise<Fields> {
    const head = await this.source.view(this.run, CHEAPEST, { limit: "1" });
    if (!this.source.live) {
      throw new Trouble("This file answers no queries; 'moescope serve' and 'moescope sql' do.", "refused");
    }
    if (!this.known) {
      this.paintTables(await this.source.view(this.run, "sql", {}));
      this.known = true;
      this.restore(here().options);
    }
    return head;
  }

  // A query in the address is asked at once; a run that grows is asked again by whoever reads it.
  restore(options: Options): void {
    const query = options["query"] ?? "";
    if (this.known && query && query !== this.shown) {
      this.box.value = query;
      void this.execute(query);
    } else if (!this.known) {
      this.box.value = query;
    }
    this.table?.setSort(options["sort"] ?? "");
  }

  private ask(): void {
    const query = this.box.value.trim();
    if (!query) {
      this.say("Type a query, or take an example.");
      return;
    }
    adjust({ query, sort: "", row: "" });
    void this.execute(query);
  }

  // One at a time here as well: what was asked before is forgotten.
  private async execute(query: string): Promise<void> {
    const mine = ++this.asked;
    this.shown = query;
    this.say("Running…");
    try {
      const document = await this.source.view(this.run, "sql", { query });
      if (mine === this.asked) this.paint(document);
    } catch (error) {
      if (!(error instanceof Trouble)) throw error;
      if (mine !== this.asked) return;
      if (error.kind !== "busy") {
        this.clear();
        this.say(error.message, true);
        return;
      }
      this.say("Another query is running; this page asks again.", true);
      setTimeout(() => {
        if (mine === this.asked && this.element.isConnected) void this.execute(query);
      }, AGAIN_MS);
    }
  }

  // Rows of another query would be taken for the answer.
  private clear(): void {
    this.result = this.table = null;
    this.save.disabled = true;
    this.drawer.close();
    this.place.replaceChildren();
  }

  private say(sentence: string, wrong = false): void {
    this.status.textContent = sentence;
    this.status.classList.toggle("wrong", wrong);
  }

  private paint(document: Fields): void {
    const names = columnNames(document);
    const rows = list(document["rows"]).map(list);
    const limits = fields(document["limits"]);
    this.result = { names, rows };
    this.save.disabled = false;
    this.drawer.close();
    this.table = new Table({ name: "sql", title: "Rows", group: "", id: [NUMBER], part: "sql", columns: [NUMBER, ...names],
      head: (key) => key, cell: exactCell }, {
      sorted: (sort) => adjust({ sort }),
      selected: (row) => adjust({ row }),
      opened: (row) => this.drawer.show(`Row ${exactCell(row, NUMBER)}`, figures(Object.fromEntries(names.map((name) =>
        [name, exactCell(row, name)])), "sql")),
    });
    this.table.setRows(rows.map((row, i) =>
      Object.fromEntries([[NUMBER, i + 1], ...names.map((name, c): [string, Json] => [name, row[c] ?? null])])));
    this.table.setSort(here().options["sort"] ?? "");
    this.place.replaceChildren(this.table.element);
    const row = here().options["row"] ?? "";
    if (row) this.table.choose(row);
    const n = `${rows.length.toLocaleString("en")} ${rows.length === 1 ? "row" : "rows"}`;
    const more = document["more"] === true ? `, and there are more: an answer has at most `
      + `${(num(limits["rows"]) ?? 0).toLocaleString("en")} rows and ${(num(limits["bytes"]) ?? 0) >> 20} MiB` : "";
    this.say(`${n} in ${ns(num(document["took_ns"]) ?? 0)}${more}`);
  }

  private paintTables(document: Fields): void {
    const limits = fields(document["limits"]);
    this.say(`Ctrl+Enter runs the query. It may take ${num(limits["seconds"]) ?? 0} seconds and have `
      + `${(num(limits["rows"]) ?? 0).toLocaleString("en")} rows; runs are read-only.`);
    repaint(this.tables, el("h2", {}, "Tables"), ...rowsOf(document["tables"]).map((each) => {
      const name = text(each["name"]);
      return el("details", {}, el("summary", {}, name), el("ul", {}, ...rowsOf(each["columns"]).map((column) =>
        el("li", {}, button(text(column["name"]), () => this.insert(text(column["name"])),
          { title: `${text(column["type"])}; a click puts it into the query` }),
        el("span", {}, text(column["type"]).toLowerCase())))));
    }));
  }

  private insert(word: string): void {
    const { selectionStart, selectionEnd, value } = this.box;
    const space = selectionStart > 0 && !/[\s(,.]$/.test(value.slice(0, selectionStart)) ? " " : "";
    this.box.setRangeText(`${space}${word}`, selectionStart, selectionEnd, "end");
    this.box.focus();
  }

  private saveCsv(): void {
    if (!this.result) return;
    const address = URL.createObjectURL(new Blob([csv(this.result.names, this.result.rows)], { type: "text/csv" }));
    el("a", { href: address, download: `${this.run}.csv` }).click();
    // The browser has it by then.
    setTimeout(() => URL.revokeObjectURL(address), 10000);
  }
}
