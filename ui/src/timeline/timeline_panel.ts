// The view "Timeline": what is looked at, chosen, selected and searched. All of that is in the address.
import { adjust, here, Options } from "../address";
import { Drawer } from "../details";
import { button, el } from "../dom";
import { count, ns } from "../format";
import { Fields, num } from "../json";
import { Panel } from "../panel";
import { CHEAPEST, Source, Trouble } from "../source";
import { Events } from "./events";
import { areaFacts, eventFacts, foundFacts, Found, readFound } from "./facts";
import { Gestures } from "./gestures";
import { KEYS, keyName } from "./keys";
import { foldsOf } from "./lanes";
import { Loader } from "./loader";
import { About, Box, boxAt, firstAfter, Lane, laneList, Names, readAbout } from "./model";
import { Newest } from "./newest";
import { around, panned, Span, spanWords, zoomed } from "./span";
import { Area, Stage } from "./stage";
import { readWanted } from "./wanted";
import { boxWords, brief, laneWords, many } from "./words";

const PAN = 0.2;
const ZOOM = 0.7;
const EXTEND = 0.05; // of what is in sight, by a key
const ASK_MS = 150;
const PATIENCE_MS = 500; // until a sentence says what is awaited

export class TimelinePanel implements Panel {
  element: HTMLElement;
  private body: HTMLElement;
  private sentence = el("p", { class: "count" });
  private facts = el("p", { class: "count" });
  private told = el("p", { class: "count told", role: "status", id: "timeline-told" });
  private search = el("input", { type: "search", placeholder: "Search names (/)", "aria-label": "Search names of events",
    "aria-keyshortcuts": "/", maxlength: "200" });
  private names = new Names();
  private stage: Stage;
  private gestures: Gestures;
  private drawer: Drawer;
  private answer: Fields | null = null;
  private about: About | null = null;
  private lanes = new Map<number, Lane>();
  private fitsAll = true;
  private wanted = ""; // back end
  private found: Found[] = [];
  private name = ""; // that is looked for
  private goesOn = false; // to the first of what is being searched
  private events = new Events((what, options) => this.ask(what, options), this.names);
  private sums: Newest<Area, Fields>;
  private finder: Newest<string, Fields>;
  private listener = (event: KeyboardEvent): void => this.key(event);

  constructor(private source: Source, private run: string) {
    const failed = (error: unknown): void => this.failed(error);
    this.wanted = here().options["backend"] ?? "";
    this.sums = new Newest(ASK_MS, (area: Area) => this.ask("sums", { ...limits(area), lanes: laneList(area.lanes) }),
      (sums, area) => this.showSums(sums, area), failed);
    this.finder = new Newest(ASK_MS, (text: string) => this.ask("search", { text }),
      (answer, text) => this.showFound(readFound(answer), text), failed);
    this.stage = new Stage(new Loader((options) => this.ask("boxes", options), this.names, () => this.stage.paintSoon(),
      failed), this.names, this.wanted, (key) => this.fold(key));
    this.gestures = new Gestures(this.stage, { looked: (span) => this.look(span),
      clicked: (box) => this.open(box), selected: (area, isDone) => this.select(area, isDone) });
    this.drawer = new Drawer(() => this.stage.canvas.focus({ preventScroll: true }));
    this.drawer.element.classList.add("below");
    this.body = el("div", { class: "timeline-body" }, this.bar(), this.facts, this.stage.element, this.told,
      this.drawer.element);
    this.element = el("section", { class: "view timeline", "aria-label": "Timeline" }, el("h1", {}, "Timeline"),
      this.sentence, this.body);
    this.body.hidden = true;
    document.addEventListener("keydown", this.listener);
  }

  private bar(): HTMLElement {
    const act = (label: string, words: string, action: () => void): HTMLElement =>
      button(label, action, { title: words, "aria-label": words, "data-key": words });
    this.search.addEventListener("input", () => this.find(this.search.value));
    this.search.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.next();
      else if (event.key === "Escape") this.stage.canvas.focus();
      else return;
      event.preventDefault();
    });
    return el("div", { class: "bar" }, el("div", { class: "acts" },
      act("◂", "Earlier (A)", () => this.pan(-PAN)), act("▸", "Later (D)", () => this.pan(PAN)),
      act("+", "Zoom in (W)", () => this.zoom(ZOOM)), act("−", "Zoom out (S)", () => this.zoom(1 / ZOOM)),
      act("All", "Show all (Home)", () => this.fitAll()), this.help()), this.search);
  }

  private help(): HTMLElement {
    return el("details", { class: "keys" }, el("summary", {}, "Keys"), el("dl", {},
      ...KEYS.map(([keys, words]) => el("div", {}, el("dt", {}, keys), el("dd", {}, words)))));
  }

  private ask(what: string, options: Options): Promise<Fields> {
    return this.source.ask(this.run, `timeline/${what}`, options);
  }

  close(): void {
    document.removeEventListener("keydown", this.listener);
    this.sums.close();
    this.finder.close();
    this.stage.close();
  }

  async refresh(): Promise<Fields> {
    const patience = window.setTimeout(() => this.wait(), PATIENCE_MS);
    const answer = await this.source.view(this.run, "timeline", {}).finally(() => clearTimeout(patience));
    if (answer !== this.answer) this.take(answer);
    // The head of the page is about the run, of which the lanes say nothing.
    return this.source.view(this.run, CHEAPEST, { limit: "1" });
  }

  private wait(): void {
    if (!this.about) this.sentence.textContent = "The server prepares the timeline; a large run takes a minute, once.";
  }

  private take(answer: Fields): void {
    const first = this.about === null || this.about.lanes.length === 0;
    const about = readAbout(answer);
    this.answer = answer;
    this.about = about;
    this.lanes = new Map(about.lanes.map((lane) => [lane.lane, lane]));
    this.body.hidden = about.lanes.length === 0;
    this.sentence.textContent = about.lanes.length ? "" : about.absent || "Nothing to show: this run has no events.";
    this.sentence.hidden = about.lanes.length > 0;
    if (!about.lanes.length) return;
    this.stage.setAbout(about);
    if (first) {
      this.restore(here().options);
      this.stage.measure(); // asks for boxes now, not after the browser has come to lay out the page
    } else if (this.fitsAll) {
      this.stage.look({ from: 0, to: about.end });
    }
    this.paintFacts();
  }

  // A server that is gone is told by the frame of the page.
  private failed(error: unknown): void {
    if (!(error instanceof Trouble)) throw error;
    if (error.kind !== "silent") this.say(error.message);
  }

  private after(work: Promise<void>): void {
    work.catch((error: unknown) => this.failed(error));
  }

  private say(words: string): void {
    this.told.textContent = words;
  }

  private paintFacts(): void {
    if (!this.about) return;
    const { events, lanes, leftOut, stepsAbsent } = this.about;
    this.facts.title = leftOut ? "Left out are events without times, and those of too many at a time." : "";
    this.facts.textContent = `${many(events, "event")} in ${many(lanes.length, "lane")}`
      + (leftOut ? `, ${count(leftOut)} left out; ` : "; ")
      + `in sight ${spanWords(this.stage.span)}; drawn by ${this.stage.backendName}`
      + (this.wanted && this.wanted !== this.stage.backendName ? ` (this browser has no '${this.wanted}')` : "")
      + (stepsAbsent ? `; ${stepsAbsent}` : "");
  }

  // The address

  restore(options: Options): void {
    const wanted = options["backend"] ?? "";
    const [from, to] = [Number(options["from"] ?? NaN), Number(options["to"] ?? NaN)];
    if (!this.about?.lanes.length) return;
    if (wanted !== this.wanted) this.stage.use(this.wanted = wanted);
    this.fitsAll = !(from < to);
    this.stage.setFolded(new Set((options["folded"] ?? "").split("|").filter(Boolean)));
    this.stage.look(this.fitsAll ? { from: 0, to: this.about.end } : { from, to });
    if (this.search.value !== (options["find"] ?? "")) {
      this.search.value = options["find"] ?? "";
      this.find(this.search.value);
    }
    this.restoreArea(options["area"] ?? "");
    this.after(options["span"] ? this.restoreSpan(options["span"]) : options["step"] ? this.restoreStep(options["step"])
      : this.restoreEvent(options["event"] ?? ""));
    this.paintFacts();
  }

  private restoreArea(words: string): void {
    const [from = NaN, to = NaN, first = NaN, last = NaN] = words.split(":").map(Number);
    const lanes = this.shownLanes();
    const [begin, end] = [lanes.indexOf(first), lanes.indexOf(last)];
    if (from < to && begin >= 0 && end >= begin) this.select({ from, to, lanes: lanes.slice(begin, end + 1) }, true);
    else this.stage.area = null;
  }

  private async restoreEvent(words: string): Promise<void> {
    const [lane = NaN, start = NaN, duration = NaN] = words.split(":").map(Number);
    this.stage.chosen = null;
    if (words && this.lanes.has(lane) && start >= 0 && duration >= 0) {
      this.open(await this.events.at(lane, start, duration), false);
    }
  }

  // A link from a table names a step by its rank and number.
  private async restoreStep(words: string): Promise<void> {
    const [rank = NaN, step = NaN] = words.split(":").map(Number);
    adjust({ step: "" });
    const found = await this.events.step(rank, step, this.lanes);
    if (found) this.goTo(found);
    else this.say(`There is no step ${step} of rank ${rank} in this timeline.`);
  }

  // A link from a verdict names a stretch of time.
  private async restoreSpan(words: string): Promise<void> {
    const wanted = this.about ? readWanted(words, this.about) : null;
    adjust({ span: "" });
    if (!wanted?.lanes.length) return this.say(`This timeline has no lane for ${wanted?.words ?? `'${words}'`}.`);
    const { span, lanes, sight } = wanted;
    const event = wanted.isEvent ? await this.events.exactly(lanes, span.from, span.to - span.from) : null;
    this.unfold(lanes);
    this.look(sight ?? around(span.from, span.to - span.from));
    if (event) return this.goTo(event);
    this.stage.reveal(lanes[0]?.lane ?? 0);
    this.select({ ...span, lanes: lanes.map((lane) => lane.lane) }, true);
  }

  // What is in sight

  private look(span: Span): void {
    if (!this.about) return;
    this.stage.look(span);
    const { from, to } = this.stage.span;
    this.fitsAll = from <= 0 && to >= this.about.end;
    adjust(this.fitsAll ? { from: "", to: "" } : { from: String(Math.floor(from)), to: String(Math.ceil(to)) });
    this.paintFacts();
  }

  private pan(share: number): void {
    this.look(panned(this.stage.span, share));
  }

  private zoom(factor: number): void {
    const x = this.gestures.pointer?.x;
    this.look(zoomed(this.stage.span, factor, x === undefined ? 0.5 : x / this.stage.width));
  }

  private fitAll(): void {
    this.look({ from: 0, to: this.about?.end ?? 1 });
  }

  private fitChosen(): void {
    const { area, chosen } = this.stage;
    if (chosen) this.look(around(chosen.start, chosen.duration));
    else if (area) this.look(around(area.from, area.to - area.from));
  }

  private fold(key: string): void {
    const folded = new Set(this.stage.folded);
    if (!folded.delete(key)) folded.add(key);
    this.setFolded(folded);
  }

  private setFolded(folded: Set<string>): void {
    this.stage.setFolded(folded);
    adjust({ folded: [...folded].join("|") });
  }

  private unfold(lanes: Lane[]): void {
    const hiding = lanes.flatMap(foldsOf).filter((key) => this.stage.folded.has(key));
    if (hiding.length) this.setFolded(new Set([...this.stage.folded].filter((key) => !hiding.includes(key))));
  }

  // One event

  private choose(box: Box | null): void {
    this.stage.chosen = box;
    this.stage.paintSoon();
    adjust({ event: box ? `${box.lane}:${box.start}:${box.duration}` : "" });
    this.say(box ? `${boxWords(box)}, in ${laneWords(this.lanes.get(box.lane))}` : "");
  }

  // With its details. Merged events are an area that can be added up.
  private open(box: Box | null, isNew = true): void {
    if (box && box.merged > 1) {
      this.choose(null);
      return this.select({ from: box.start, to: box.start + Math.max(1, box.duration), lanes: [box.lane] }, true);
    }
    this.choose(box);
    if (isNew && this.stage.area) this.select(null, true);
    if (!box) return this.drawer.close();
    this.drawer.show(brief(box.name), ...eventFacts(this.run, box, this.lanes.get(box.lane),
      { zoom: () => this.fitChosen(), next: () => this.next(box.name) }));
  }

  private goTo(box: Box): void {
    const lane = this.lanes.get(box.lane);
    const length = this.stage.span.to - this.stage.span.from;
    const share = box.duration / length;
    if (lane) this.unfold([lane]);
    const middle = box.start + box.duration / 2;
    const room = share > 0.8 || share < 0.005 ? Math.max(box.duration * 10, 1000) : length;
    const isSeen = room === length && box.start >= this.stage.span.from && box.start + box.duration <= this.stage.span.to;
    if (!isSeen) this.look({ from: middle - room / 2, to: middle + room / 2 });
    this.stage.reveal(box.lane);
    this.open(box);
  }

  // By arrow keys: the box beside the chosen one, or the first in sight.
  private step(dx: number, dy: number): void {
    const rows = this.stage.layout.rows.filter((row) => row.lane);
    const { chosen, span } = this.stage;
    const at = rows.findIndex((row) => row.lane?.lane === chosen?.lane);
    const time = chosen ? chosen.start + chosen.duration / 2 : (span.from + span.to) / 2;
    if (chosen && at >= 0 && dx) {
      const boxes = this.stage.loader.lanes.get(chosen.lane);
      const i = boxes ? firstAfter(boxes, chosen.start + Math.max(0, chosen.duration) / 2) + dx : -1;
      if (boxes && i >= 0 && i < boxes.n) this.arrive(boxAt(chosen.lane, boxes, this.names, i));
      else this.after(this.beyond(chosen, dx));
      return;
    }
    for (let i = at < 0 ? 0 : at + dy; i >= 0 && i < rows.length; i += dy || 1) {
      const lane = rows[i]?.lane?.lane ?? -1;
      const boxes = this.stage.loader.lanes.get(lane);
      if (!boxes?.n) continue;
      return this.arrive(boxAt(lane, boxes, this.names, Math.min(firstAfter(boxes, time), boxes.n - 1)));
    }
  }

  // The event before or after one, out of sight.
  private async beyond(chosen: Box, dx: number): Promise<void> {
    const [from, to] = dx > 0 ? [chosen.start + chosen.duration, this.about?.end ?? 0] : [0, chosen.start];
    const box = await this.events.alone(chosen.lane, from, to, dx > 0);
    if (box) this.arrive(box);
    else this.say(dx > 0 ? "This is the last event of its lane." : "This is the first event of its lane.");
  }

  private arrive(box: Box): void {
    const { span } = this.stage;
    const length = span.to - span.from;
    const end = box.start + box.duration;
    if (end < span.from || box.start > span.to) {
      const middle = Math.min(end, box.start + length / 2);
      this.look({ from: middle - length / 2, to: middle + length / 2 });
    }
    this.choose(box);
    this.stage.reveal(box.lane);
  }

  private enter(): void {
    const { chosen } = this.stage;
    if (chosen && chosen.merged > 1) this.after(this.enterMerged(chosen));
    else if (chosen) this.open(chosen);
    else if (this.found.length) this.next();
  }

  private async enterMerged(box: Box): Promise<void> {
    this.look(around(box.start, box.duration));
    this.choose(await this.events.alone(box.lane, box.start, box.start + Math.max(1, box.duration), true));
  }

  // An area

  private select(area: Area | null, isDone: boolean): void {
    this.stage.area = area;
    this.stage.paintSoon();
    if (!isDone) return;
    const ends = area?.lanes.length ? `${area.from}:${area.to}:${area.lanes[0]}:${area.lanes[area.lanes.length - 1]}` : "";
    adjust({ area: ends });
    if (area?.lanes.length && area.to > area.from) this.sums.put(area, true);
  }

  private shownLanes(): number[] {
    return this.stage.layout.rows.flatMap((row) => (row.lane ? [row.lane.lane] : []));
  }

  private extend(dx: number, dy: number): void {
    const { span, chosen } = this.stage;
    const lanes = this.shownLanes();
    const start = chosen?.start ?? span.from + (span.to - span.from) * 0.45;
    const area = this.stage.area ?? { from: Math.round(start), lanes: [chosen?.lane ?? lanes[0] ?? 0],
      to: Math.round(start + (chosen?.duration ?? (span.to - span.from) * 0.1)) };
    const first = lanes.indexOf(area.lanes[0] ?? 0);
    const last = Math.min(lanes.length - 1, Math.max(first, first + area.lanes.length - 1 + dy));
    const to = Math.round(area.to + dx * EXTEND * (span.to - span.from));
    this.select({ from: area.from, to: Math.min(this.about?.end ?? 0, Math.max(area.from + 1, to)),
      lanes: lanes.slice(first, last + 1) }, true);
  }

  private showSums(sums: Fields, area: Area): void {
    if (this.stage.area !== area) return;
    const [events, busy] = [num(sums["events"]) ?? 0, num(sums["busy_ns"]) ?? 0];
    const words = `${many(events, "event")}, busy ${ns(busy)}, in ${ns(area.to - area.from)} of `
      + many(area.lanes.length, "lane");
    this.drawer.show(`Selected: ${words}`, ...areaFacts(sums, this.lanes));
    this.say(`Selected: ${words}`);
  }

  // Names

  private find(words: string): void {
    const text = words.trim();
    adjust({ find: text });
    this.stage.setFind(text);
    this.found = [];
    this.name = "";
    if (text) this.finder.put(text);
  }

  private showFound(found: Found[], text: string): void {
    if (text !== this.search.value.trim()) return;
    const goesOn = this.goesOn;
    this.found = found;
    for (const each of found) this.names.numbers.set(each.name, each.id);
    this.goesOn = false;
    const events = found.reduce((sum, each) => sum + each.events, 0);
    this.say(found.length ? `${many(found.length, "name")} with '${text}', ${many(events, "event")}; `
      + "Enter or N goes to the next" : `No name has '${text}'.`);
    this.drawer.show(`Names with '${text}'`, ...foundFacts(found, (each) => this.next(each.name)));
    if (goesOn && found.length) this.next();
  }

  // The next event of a name: after the chosen one, or from the left edge of the picture on.
  private next(name = this.name || this.found[0]?.name || this.stage.chosen?.name || ""): void {
    const { chosen, span } = this.stage;
    const after = chosen?.name === name ? chosen.start : Math.floor(span.from) - 1;
    if (!name) {
      this.goesOn = this.search.value.trim() !== "";
      return;
    }
    this.name = name;
    this.after(this.events.next(name, after).then((found) => {
      if (found) this.goTo(found);
      else this.say(`There is no event '${name}' any more.`);
    }));
  }

  // Keys

  private escape(): void {
    this.choose(null);
    this.select(null, true);
    this.drawer.close();
  }

  private key(event: KeyboardEvent): void {
    const { target } = event;
    const name = keyName(event);
    const onPicture = target === this.stage.canvas || target === document.body;
    if (this.body.hidden || !name || target instanceof HTMLInputElement || target instanceof HTMLSelectElement) return;
    const anywhere: { [key: string]: () => void } = { a: () => this.pan(-PAN), d: () => this.pan(PAN),
      w: () => this.zoom(ZOOM), s: () => this.zoom(1 / ZOOM), f: () => this.fitChosen(), n: () => this.next() };
    const page = this.stage.element.clientHeight * 0.8;
    const picture: { [key: string]: () => void } = { Home: () => this.fitAll(), Enter: () => this.enter(),
      Escape: () => this.escape(), ArrowLeft: () => this.step(-1, 0), ArrowRight: () => this.step(1, 0),
      ArrowUp: () => this.step(0, -1), ArrowDown: () => this.step(0, 1),
      "Shift+ArrowLeft": () => this.extend(-1, 0), "Shift+ArrowRight": () => this.extend(1, 0),
      "Shift+ArrowUp": () => this.extend(0, -1), "Shift+ArrowDown": () => this.extend(0, 1),
      PageUp: () => this.stage.element.scrollBy(0, -page), PageDown: () => this.stage.element.scrollBy(0, page) };
    const action = anywhere[name] ?? (onPicture ? picture[name] : undefined);
    if (!action) return;
    event.preventDefault();
    action();
  }
}

function limits(span: Span): Options {
  return { from: String(span.from), to: String(span.to) };
}
