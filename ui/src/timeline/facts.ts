// What the drawer tells of an event, of an area, and of the names that were found.
import { format, Options, Place } from "../address";
import { button, Child, el } from "../dom";
import { ns } from "../format";
import { Fields, num, rowsOf, text } from "../json";
import { Box, Lane } from "./model";
import { moment } from "./span";
import { laneWords, many } from "./words";

// Where the events of a kind have their rows.
const TABLES: { [kind: string]: [string, string] } = { steps: ["steps", "Steps"], kernels: ["kernels", "Kernels"],
  copies: ["transfers", "Transfers"], ranges: ["ops", "Operations"], api: ["api", "API calls"] };

function rowPlace(run: string, box: Box, lane: Lane): Place | null {
  const view = TABLES[lane.kind]?.[0];
  const step = /^step (\d+)$/.exec(box.name)?.[1];
  if (!view) return null;
  const options: Options = lane.kind === "copies" ? {} : lane.kind !== "steps" ? { find: box.name }
    : step ? { row: `${lane.rank}|${step}` } : {};
  return { run, view, options };
}

function pairs(entries: [string, string][]): HTMLElement {
  return el("dl", {}, ...entries.map(([key, value]) => el("div", {}, el("dt", {}, key), el("dd", {}, value))));
}

export interface Actions {
  zoom(): void;
  next(): void;
}

export function eventFacts(run: string, box: Box, lane: Lane | undefined, actions: Actions): Child[] {
  const place = lane ? rowPlace(run, box, lane) : null;
  const table = lane ? TABLES[lane.kind]?.[1] ?? "" : "";
  return [el("p", { class: "acts" }, button("Zoom to it (F)", actions.zoom, { "data-key": "zoom" }),
    button("Next of this name (N)", actions.next, { "data-key": "next" }),
    place ? el("a", { href: format(place), "data-key": "row" }, place.options["row"] ? `Its row in ${table}` : `Look for it in ${table}`) : null),
  pairs([["start", moment(box.start)], ["duration", ns(box.duration)], ["end", moment(box.start + box.duration)],
    ["lane", laneWords(lane)], ["name", box.name]])];
}

function sumTable(heads: string[], rows: [string, number, number][]): HTMLElement {
  return el("table", { class: "sums" },
    el("thead", {}, el("tr", {}, ...heads.map((head) => el("th", { scope: "col" }, head)))),
    el("tbody", {}, ...rows.map(([name, events, busy]) => el("tr", {}, el("td", { title: name }, name),
      el("td", { class: "number" }, String(events)), el("td", { class: "number" }, ns(busy))))));
}

function sumRow(row: Fields, name: string): [string, number, number] {
  return [name, num(row["events"]) ?? 0, num(row["busy_ns"]) ?? 0];
}

export function areaFacts(sums: Fields, lanes: Map<number, Lane>): Child[] {
  const absent = text(sums["by_name_absent"]);
  const byLane = rowsOf(sums["lanes"]).map((row) => sumRow(row, laneWords(lanes.get(num(row["lane"]) ?? -1))));
  const byName = rowsOf(sums["by_name"]).map((row) => sumRow(row, text(row["name"])));
  return [el("div", { class: "both" }, sumTable(["lane", "events", "busy"], byLane),
    absent ? el("p", { class: "why" }, absent) : sumTable(["name", "events", "busy"], byName))];
}

export interface Found {
  id: number; // the server's
  name: string;
  events: number;
  busy: number;
}

export function readFound(answer: Fields): Found[] {
  return rowsOf(answer["names"]).map((row) => ({ id: num(row["id"]) ?? 0, name: text(row["name"]),
    events: num(row["events"]) ?? 0, busy: num(row["busy_ns"]) ?? 0 }));
}

export function foundFacts(found: Found[], open: (found: Found) => void): Child[] {
  return [el("ul", { class: "found" }, ...found.map((each) => el("li", {},
    button(each.name, () => open(each), { "data-key": `found ${each.name}`, title: each.name }),
    el("span", {}, `${many(each.events, "event")}, ${ns(each.busy)}`))))];
}
