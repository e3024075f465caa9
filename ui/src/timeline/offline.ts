// The timeline of a page without a server: a sentence.
import { el } from "../dom";
import { Fields } from "../json";
import { Panel } from "../panel";
import { CHEAPEST, Source } from "../source";

export class OfflineTimeline implements Panel {
  element = el("section", { class: "view timeline", "aria-label": "Timeline" }, el("h1", {}, "Timeline"),
    el("p", { class: "count" },
      "A timeline needs 'moescope serve': this file holds the tables of the run, not its events."));

  constructor(private source: Source, private run: string) {}

  refresh(): Promise<Fields> {
    return this.source.view(this.run, CHEAPEST, {});
  }

  restore(): void {
    // It has no options.
  }
}
