// All that is known of one row, or of all of them together: every figure with its meaning.
import { button, Child, el } from "./dom";
import { title, value } from "./format";
import { Fields, isFields, Json, list, rowsOf, reason } from "./json";
import { meaning } from "./meanings";

const MOST_ENTRIES = 64;

function smallTable(rows: Fields[], part: string): HTMLElement {
  const keys = [...new Set(rows.flatMap((row) => Object.keys(row)))].filter((key) => !key.endsWith("_reason"));
  return el("div", { class: "wide" }, el("table", {},
    el("thead", {}, el("tr", {}, ...keys.map((key) => el("th", { scope: "col", title: meaning(part, key) }, title(key))))),
    el("tbody", {}, ...rows.slice(0, MOST_ENTRIES).map((row) => el("tr", {}, ...keys.map((key) =>
      el("td", { title: reason(row, key) || false }, value(key, row[key]))))))),
    rows.length > MOST_ENTRIES ? el("p", {}, `and ${rows.length - MOST_ENTRIES} more`) : null);
}

function nested(key: string, json: Json, part: string): HTMLElement | null {
  const rows = rowsOf(json);
  const entries = list(json);
  if (isFields(json)) return figures(json, part, key);
  if (rows.length) return smallTable(rows, part);
  if (!entries.length || Array.isArray(entries[0])) return null;
  const words = entries.slice(0, MOST_ENTRIES).map((entry) => value(key, entry)).join(", ");
  return el("p", { class: "entries" }, entries.length > MOST_ENTRIES ? `${words}, …` : words);
}

export function figures(of: Fields, part: string, inside = ""): HTMLElement {
  const made = el("dl");
  for (const [key, json] of Object.entries(of)) {
    if (key.endsWith("_reason")) continue;
    const below = typeof json === "object" && json !== null ? nested(key, json, part) : null;
    const words: Child[] = below ? [below] : [value(key, json, inside)];
    if (json === null) words.push(el("span", { class: "why" }, ` ${reason(of, key)}`));
    made.append(el("div", { class: below ? "block" : "" },
      el("dt", { title: meaning(part, key) }, inside === "phases" ? key : title(key)), el("dd", {}, ...words)));
  }
  return made;
}

// A panel at the side that is closed with Escape.
export class Drawer {
  element = el("aside", { class: "drawer", "aria-label": "Details" });

  constructor(private closed: () => void) {
    this.element.hidden = true;
    this.element.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.close();
    });
  }

  show(heading: string, ...content: Child[]): void {
    const top = this.element.hidden ? 0 : this.element.scrollTop;
    this.element.replaceChildren(
      el("header", {}, el("h2", {}, heading), button("Close", () => this.close(), { "data-key": "close" })));
    this.element.append(...content.filter((child): child is Node | string => child !== null));
    this.element.hidden = false;
    this.element.scrollTop = top;
  }

  close(): void {
    if (this.element.hidden) return;
    this.element.hidden = true;
    this.closed();
  }
}
