// The runs of a directory, newest first.
import { format, OVERVIEW } from "./address";
import { el, repaint } from "./dom";
import { date, ns } from "./format";
import { Fields, num, text } from "./json";
import { Source, Trouble } from "./source";
import { themeSwitch } from "./theme";

const LOOK_MS = 3000;
const COLUMNS = ["Name", "Status", "Started", "Duration", "", "Command"];

export class RunList {
  element: HTMLElement;
  private notice = el("p", { class: "notice", role: "alert" });
  private body = el("tbody");
  private count = el("p", { class: "count", role: "status" });
  private shown = "";
  private timer = 0;
  private closed = false;

  constructor(private source: Source) {
    this.notice.hidden = true;
    this.element = el("div", { class: "frame list" },
      el("header", {}, el("strong", {}, "moescope"), el("span", { class: "run" }), themeSwitch()), this.notice,
      el("main", {}, el("section", { class: "view" }, el("h1", {}, "Runs"), this.count,
        el("table", { class: "runs" },
          el("thead", {}, el("tr", {}, ...COLUMNS.map((name) => el("th", { scope: "col" }, name)))), this.body))));
    document.title = "Runs – moescope";
    void this.look();
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.timer);
  }

  private async look(): Promise<void> {
    try {
      const runs = await this.source.runs();
      this.notice.hidden = true;
      if (JSON.stringify(runs) !== this.shown) this.paint(runs);
      this.shown = JSON.stringify(runs);
    } catch (error) {
      if (!(error instanceof Trouble)) throw error;
      this.notice.textContent = error.message;
      this.notice.hidden = false;
    }
    if (!this.closed) this.timer = window.setTimeout(() => void this.look(), LOOK_MS);
  }

  private paint(runs: Fields[]): void {
    this.count.textContent = runs.length ? `${runs.length} ${runs.length === 1 ? "run" : "runs"}`
      : "There is no run here yet; 'moescope run -- PROGRAM' records one, and it appears by itself.";
    repaint(this.body, ...runs.map((run) => {
      const name = text(run["name"]);
      const status = text(run["error"]) ? "unreadable" : text(run["status"]);
      const command = text(run["error"]) || text(run["command"]) || text(run["source"]);
      const [started, duration] = [num(run["started_realtime_ns"]), num(run["duration_ns"])];
      return el("tr", {},
        el("td", {}, el("a", { href: format({ run: name, view: OVERVIEW, options: {} }), "data-key": name }, name)),
        el("td", {}, el("span", { class: `status ${status}` }, status)),
        el("td", {}, started ? date(started) : "–"),
        el("td", { class: "number" }, duration === null ? "–" : ns(duration)),
        el("td", {}, runs.length > 1 && !text(run["error"]) ? el("a", { "data-key": `compare ${name}`,
          href: format({ run: name, view: "compare", options: {} }) }, "compare with…") : null),
        el("td", {}, el("code", { title: command }, command)));
    }));
  }
}
