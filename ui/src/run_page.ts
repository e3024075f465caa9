// One run: its head, the navigation, and the view that is looked at; follows the run while it grows.
import { format, OVERVIEW, Place } from "./address";
import { el, repaint } from "./dom";
import { date, ns, value } from "./format";
import { fields, Fields, list, num, text } from "./json";
import { meaning } from "./meanings";
import { Overview } from "./overview";
import { Panel } from "./panel";
import { OTHER_VIEWS } from "./panels";
import { Source, Trouble } from "./source";
import { TablePanel } from "./table_panel";
import { themeSwitch } from "./theme";
import { findView, VIEWS } from "./views";

// Counters of `loss` that are no loss.
const NO_LOSS = ["salvaged", "unknown_events"];
const RETRY_MS = 2000;
// The server may answer a change with what it had a moment before: the last change is asked for more than once.
const ASK_AGAIN_MS = [2000, 5000, 15000, 40000];

export class RunPage {
  element: HTMLElement;
  private head = el("div", { class: "run" });
  private nav = el("nav", { "aria-label": "Views" });
  private notice = el("p", { class: "notice", role: "alert" });
  private place = el("main", { tabindex: "-1" });
  private panel: Panel | null = null;
  private view = "";
  private shown: Fields | null = null;
  private asking: Panel | null = null;
  private again = false;
  private isGone = false;
  private retry = 0;
  private later = 0;
  private stop: (() => void) | null = null;

  constructor(private source: Source, readonly run: string, several: boolean) {
    this.notice.hidden = true;
    this.nav.hidden = true;
    this.element = el("div", { class: "frame" },
      el("a", { class: "skip", href: "#" }, "Skip to the view"),
      el("header", {}, several ? el("a", { class: "home", href: "#/" }, "All runs") : null, this.head, themeSwitch()),
      this.notice, this.nav, this.place);
    this.element.querySelector(".skip")?.addEventListener("click", (event) => {
      event.preventDefault();
      this.place.focus();
    });
    this.head.append(el("strong", {}, run));
  }

  // There are no other runs.
  hideHome(): void {
    this.element.querySelector(".home")?.remove();
  }

  // Once it is known to be there.
  private follow(): void {
    this.nav.hidden = false;
    this.stop ??= this.source.follow(this.run, {
      changed: () => this.changed(0),
      gone: () => this.gone(),
      silent: () => this.say("The server does not answer. What you see is its last answer; "
        + "this page asks again until it does."),
      back: () => this.say(""),
    });
  }

  private changed(times: number): void {
    void this.refresh();
    clearTimeout(this.later);
    const wait = ASK_AGAIN_MS[times];
    if (wait) this.later = window.setTimeout(() => this.changed(times + 1), wait);
  }

  show(place: Place): void {
    const view = findView(place.view);
    const other = OTHER_VIEWS.find((each) => each.name === place.view);
    if (this.panel && place.view === this.view) {
      this.panel.restore(place.options);
      void this.refresh();
      return;
    }
    this.view = place.view;
    this.panel?.close?.();
    this.panel = view ? new TablePanel(this.source, this.run, view) : other ? other.make(this.source, this.run)
      : place.view === OVERVIEW ? new Overview(this.source, this.run) : null;
    this.paintNav();
    document.title = `${this.run}: ${(view ?? other)?.title ?? "Overview"} – moescope`;
    if (!this.panel) {
      this.nav.hidden = false;
      this.place.replaceChildren(el("p", { class: "sentence" },
        `There is no view '${place.view}'; the list at the side has all.`));
      return;
    }
    this.place.replaceChildren(this.panel.element);
    this.place.setAttribute("aria-busy", "true");
    void this.refresh();
  }

  close(): void {
    this.panel?.close?.();
    this.stop?.();
    clearTimeout(this.retry);
    clearTimeout(this.later);
  }

  focusSearch(): void {
    this.place.querySelector<HTMLElement>("input[type=search]")?.focus();
  }

  // One request of a view at a time; what comes meanwhile is one more afterwards. A view that one has left
  // holds up nobody.
  async refresh(): Promise<void> {
    const panel = this.panel;
    if (!panel || this.isGone) return;
    if (this.asking === panel) {
      this.again = true;
      return;
    }
    this.asking = panel;
    this.again = false;
    clearTimeout(this.retry);
    try {
      const document = await panel.refresh();
      if (panel === this.panel || !this.shown) {
        if (document !== this.shown) this.paintHead(document);
        this.shown = document;
      }
      if (panel === this.panel) this.place.removeAttribute("aria-busy");
      // A sentence about what went wrong stood in its place.
      if (panel === this.panel && !panel.element.isConnected) this.place.replaceChildren(panel.element);
      this.follow();
    } catch (error) {
      if (panel === this.panel) this.failed(error);
    } finally {
      if (this.asking === panel) this.asking = null;
    }
    if (this.again && panel === this.panel) void this.refresh();
  }

  private failed(error: unknown): void {
    if (!(error instanceof Trouble)) throw error;
    if (error.kind === "silent" || error.kind === "busy") { // it passes: what is shown stays
      this.say(error.message);
      this.retry = window.setTimeout(() => void this.refresh().then(() => this.recovered()), RETRY_MS);
    } else if (error.kind === "missing" && this.shown && this.source.live) {
      this.gone();
    } else {
      this.place.replaceChildren(el("p", { class: "sentence" }, error.message, " ", el("a", { href: "#/" }, "All runs")));
      this.place.removeAttribute("aria-busy");
    }
  }

  private recovered(): void {
    if (this.shown && !this.isGone) this.say("");
  }

  private gone(): void {
    this.stop?.();
    this.say(`The run '${this.run}' is no longer there: it was moved or removed. What you see is its last state.`);
    this.isGone = true;
  }

  // What is gone stays gone, whatever the server says later.
  private say(sentence: string): void {
    if (this.isGone) return;
    this.notice.textContent = sentence;
    this.notice.hidden = !sentence;
  }

  private paintNav(): void {
    const link = (name: string, title: string): HTMLElement =>
      el("a", { href: format({ run: this.run, view: name, options: {} }), "data-key": name,
        ...(name === this.view ? { "aria-current": "page" } : {}) }, title);
    const all = [...VIEWS, ...OTHER_VIEWS];
    const groups = [...new Set(all.map((view) => view.group))];
    repaint(this.nav, link(OVERVIEW, "Overview"), ...groups.map((group) => el("div", {}, el("h2", {}, group),
      ...all.filter((view) => view.group === group).map((view) => link(view.name, view.title)))));
  }

  private paintHead(document: Fields): void {
    const run = fields(document["run"]);
    const lost = Object.entries(fields(document["loss"])).filter(([key, n]) => num(n) && !NO_LOSS.includes(key));
    const losses = lost.map(([key, n]) => `${value(key, n)} ${meaning("loss", key).replace(/^\w+: /, "")}`);
    const notes = text(run["notes"]);
    const status = text(run["status"]);
    const exit = num(run["exit_status"]);
    const many = (key: string, one: string): string => {
      const n = list(run[key]).length;
      return n ? `${n} ${one}${n === 1 ? "" : "s"}` : "";
    };
    const facts = [text(run["host"]), text(run["cpu"]), many("ranks", "rank"), many("devices", "device"),
      num(run["started_realtime_ns"]) ? date(num(run["started_realtime_ns"]) ?? 0) : "",
      num(run["duration_ns"]) === null ? "" : ns(num(run["duration_ns"]) ?? 0)].filter(Boolean);
    repaint(this.head,
      el("strong", {}, this.run),
      el("span", { class: `status ${status}`, title: meaning("run", "status") }, exit ? `${status} with ${exit}` : status),
      el("code", { title: text(run["command"]) }, text(run["command"]) || text(run["source"])),
      el("span", { class: "facts" }, facts.join(" · ")),
      lost.length ? el("span", { class: "lost", title: losses.join("\n") }, `Lost: ${losses.join("; ")}`)
        : el("span", { class: "kept" }, "Nothing was lost"),
      notes ? el("span", { class: "lost", title: notes }, notes.split("\n")[0] ?? "") : null);
  }
}
