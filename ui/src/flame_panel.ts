// The flame graph: times by stack, of the host or of the devices.
import { adjust, go, here, Options } from "./address";
import { Figure } from "./charts/figure";
import { FlameChart } from "./charts/flame";
import { button, el, repaint } from "./dom";
import { ns, pct } from "./format";
import { Fields, num } from "./json";
import { Panel } from "./panel";
import { CHEAPEST, Source, Trouble } from "./source";
import { everyNode, findPath, pathOf, readStacks, StackNode } from "./stacks";

const KINDS: { [of: string]: { title: string; means: string; none: string } } = {
  host: { title: "Host time", none: "This run has no ranges, operations or calls of the host.",
    means: "Time of ranges, operations and calls on the threads of the host" },
  device: { title: "Device time", none: "This run has no kernels or copies with their times.",
    means: "Time of kernels and copies, under what the host was doing when it launched them" },
};

export class FlamePanel implements Panel {
  element: HTMLElement;
  private figure = new Figure("Time by stack");
  private kinds = el("div", { class: "choices", role: "group", "aria-label": "Whose time" });
  private search: HTMLInputElement;
  private count = el("p", { class: "count", role: "status" });
  private way = el("nav", { class: "way", "aria-label": "Zoomed into" });
  private document: Fields | null = null;
  private root: StackNode | null = null;

  constructor(private source: Source, private run: string) {
    this.search = el("input", { type: "search", placeholder: "Search (/)", "aria-label": "Search the flame graph",
      "aria-keyshortcuts": "/" });
    this.search.addEventListener("input", () => {
      adjust({ find: this.search.value });
      this.paint();
    });
    this.element = el("section", { class: "view flame", "aria-label": "Flame graph" }, el("h1", {}, "Flame graph"),
      el("div", { class: "bar" }, this.kinds, this.search), this.count, this.way, this.figure.element);
    this.element.addEventListener("keydown", (event) => {
      if (event.key === "Backspace" && event.target instanceof HTMLCanvasElement) this.out();
    });
    this.figure.show(null);
    this.restore(here().options);
  }

  private get kind(): string {
    return here().options["of"] === "device" ? "device" : "host";
  }

  async refresh(): Promise<Fields> {
    const head = await this.source.view(this.run, CHEAPEST, { limit: "1" });
    if (!this.source.live) {
      throw new Trouble("The flame graph is not in this file; 'moescope serve' shows it, and 'moescope export --to folded' "
        + "writes its stacks.", "refused");
    }
    const kind = this.kind;
    const document = await this.source.view(this.run, "stacks", { of: kind });
    if (document !== this.document && kind === this.kind) {
      this.document = document;
      this.root = readStacks(document);
      this.paint();
    }
    return head;
  }

  restore(options: Options): void {
    this.search.value = options["find"] ?? "";
    this.paint();
  }

  private zoom(to: StackNode): void {
    const path = pathOf(to);
    if (path === (here().options["zoom"] ?? "")) return;
    const place = here();
    const { zoom: _, ...others } = place.options;
    go({ ...place, options: path ? { ...others, zoom: path } : others });
  }

  private out(): void {
    const at = this.root && findPath(this.root, here().options["zoom"] ?? "");
    if (at?.parent) this.zoom(at.parent);
  }

  private paint(): void {
    repaint(this.kinds, ...Object.entries(KINDS).map(([of, { title, means }]) => button(title, () => {
      const place = here();
      go({ ...place, options: { ...place.options, of, zoom: "" } });
    }, { "data-key": of, title: means, "aria-pressed": String(of === this.kind) })));
    if (!this.root || !this.document || this.document["of"] !== this.kind) return;
    const zoom = findPath(this.root, here().options["zoom"] ?? "");
    const find = this.search.value.trim().toLowerCase();
    const found = find ? new Set(everyNode(this.root).filter((of) => of.parent && !of.merged
      && of.name.toLowerCase().includes(find))) : null;
    const empty = this.root.totalNs === 0;
    this.figure.show(empty ? null : new FlameChart({ root: this.root, zoom, found, open: (to) => this.zoom(to) }),
      KINDS[this.kind]?.title, empty ? "" : this.note());
    this.paintCount(found);
    this.paintWay(zoom);
  }

  private note(): string {
    const merged = num(this.document?.["merged"]) ?? 0;
    const share = pct((100 * (num(this.document?.["merged_ns"]) ?? 0)) / (this.root?.totalNs || 1));
    const least = ns(num(this.document?.["least_ns"]) ?? 0);
    return `Click a box, or press Enter, to zoom into it; Backspace goes back. ${merged
      ? `Stacks below ${least}, or more than ${num(this.document?.["deepest"]) ?? 0} deep, are added up where they are: `
        + `${merged} of them, ${share} of the time.` : ""}`;
  }

  // Time that is inside of what was found, once: a match inside a match is already counted.
  private paintCount(found: Set<StackNode> | null): void {
    const all = this.root?.totalNs ?? 0;
    if (!all) {
      this.count.textContent = `Nothing to show: ${KINDS[this.kind]?.none ?? ""}`;
    } else if (!found) {
      this.count.textContent = `${ns(all)} in all`;
    } else {
      const inside = (of: StackNode | null): boolean => of !== null && (found.has(of) || inside(of.parent));
      const sum = [...found].filter((of) => !inside(of.parent)).reduce((time, of) => time + of.totalNs, 0);
      this.count.textContent = `${found.size} ${found.size === 1 ? "box matches" : "boxes match"}: ${ns(sum)}, `
        + `${pct((100 * sum) / all)} of the time`;
    }
  }

  private paintWay(zoom: StackNode): void {
    const way: StackNode[] = [];
    for (let at: StackNode | null = zoom; at; at = at.parent) way.unshift(at);
    this.way.hidden = way.length < 2;
    repaint(this.way, ...way.flatMap((of, i) => [i ? " › " : "", i + 1 === way.length ? el("b", {}, of.name)
      : button(of.name, () => this.zoom(of), { "data-key": `way ${i}` })]));
  }
}
