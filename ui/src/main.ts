// The page: shows what the address says, from a server or from data in the page itself.
import { go, here, OVERVIEW } from "./address";
import { el } from "./dom";
import { text } from "./json";
import { RunList } from "./run_list";
import { RunPage } from "./run_page";
import { findSource, Source, Trouble } from "./source";
import { startTheme } from "./theme";

const NEEDED = ["fetch", "EventSource", "ResizeObserver", "URLSearchParams"];

class Page {
  private open: RunList | RunPage | null = null;
  private several = true;

  constructor(private body: HTMLElement, private source: Source) {
    window.addEventListener("hashchange", () => this.show());
    document.addEventListener("keydown", (event) => {
      const typing = [HTMLInputElement, HTMLSelectElement, HTMLTextAreaElement].some((kind) => event.target instanceof kind);
      if (event.key !== "/" || typing || !(this.open instanceof RunPage)) return;
      event.preventDefault();
      this.open.focusSearch();
    });
  }

  // What the address names is shown while the runs are asked for. A server of one run shows that.
  async start(): Promise<void> {
    this.body.replaceChildren();
    if (here().run) this.show();
    try {
      const runs = await this.source.runs();
      this.several = runs.length !== 1;
      if (!this.several && !here().run) go({ run: text(runs[0]?.["name"]), view: OVERVIEW, options: {} });
    } catch (error) {
      if (!(error instanceof Trouble)) throw error;
    }
    if (!this.open) this.show();
    else if (!this.several && this.open instanceof RunPage) this.open.hideHome();
  }

  private show(): void {
    const place = here();
    if (place.run && this.open instanceof RunPage && this.open.run === place.run) return this.open.show(place);
    if (!place.run && this.open instanceof RunList) return;
    this.open?.close();
    this.open = place.run ? new RunPage(this.source, place.run, this.several) : new RunList(this.source);
    this.body.replaceChildren(this.open.element);
    if (this.open instanceof RunPage) this.open.show(place);
  }
}

function start(): void {
  const body = document.getElementById("page") as HTMLElement;
  const missing = NEEDED.filter((name) => !(name in window));
  if (!el("canvas").getContext?.("2d")) missing.push("canvas");
  if (missing.length) {
    body.textContent = `This browser lacks what the page needs (${missing.join(", ")}); `
      + "'moescope report' prints the same in a terminal.";
    return;
  }
  startTheme();
  void new Page(body, findSource()).start();
}

start();
