// Rows of a table: which columns they have, which rows are wanted, in which order.
import { cell } from "./format";
import { Fields, Json } from "./json";
import { View } from "./views";

export interface Column {
  key: string;
  numeric: boolean;
}

export interface Columns {
  shown: Column[];
  absent: Map<string, string[]>; // columns without a single value, by the reason
}

export function cellOf(view: View, row: Fields, key: string): string {
  return view.cell ? view.cell(row, key) : cell(row, key);
}

export function rowKey(view: View, row: Fields): string {
  return view.id.map((key) => String(row[key] ?? "")).join("|");
}

function isScalar(value: Json | undefined): boolean {
  return typeof value !== "object";
}

// Of all rows: some keys are only where they apply. Lists and objects are in a row's details.
export function columnsOf(view: View, rows: Fields[]): Columns {
  if (view.columns) {
    return { shown: view.columns.map((key) => ({ key,
      numeric: rows.every((row) => row[key] === null || typeof row[key] === "number") })), absent: new Map() };
  }
  const kinds = new Map<string, { scalar: boolean; numeric: boolean; why: string }>();
  for (const row of rows) {
    for (const key of Object.keys(row)) {
      if (key.endsWith("_reason")) continue;
      const kind = kinds.get(key) ?? { scalar: false, numeric: true, why: "" };
      const value = row[key];
      if (value === null) kind.why ||= String(row[`${key}_reason`] ?? "unknown");
      else if (isScalar(value)) kind.scalar = true;
      else kind.why = "";
      if (typeof value === "string" || typeof value === "boolean") kind.numeric = false;
      kinds.set(key, kind);
    }
  }
  const shown: Column[] = [];
  const absent = new Map<string, string[]>();
  // Long names have a short form beside them.
  const long = kinds.has("short_name") ? ["name", "kernel"] : [];
  for (const [key, kind] of kinds) {
    if (kind.scalar && !long.includes(key)) shown.push({ key, numeric: kind.numeric });
    else if (!kind.scalar && kind.why) absent.set(kind.why, [...(absent.get(kind.why) ?? []), key]);
  }
  const first = ["short_name", ...view.id];
  const rank = (key: string): number => (first.includes(key) ? first.indexOf(key) : first.length);
  shown.sort((a, b) => rank(a.key) - rank(b.key));
  return { shown, absent };
}

// Every word must be somewhere in the row.
export function search(view: View, rows: Fields[], find: string): Fields[] {
  const words = find.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return rows;
  return rows.filter((row) => {
    const all = Object.keys(row).filter((key) => isScalar(row[key])).map((key) => `${row[key]} ${cellOf(view, row, key)}`)
      .join(" ").toLowerCase();
    return words.every((word) => all.includes(word));
  });
}

// `sort` is a key, with "-" in front for the largest first; absent values come last.
export function sorted(rows: Fields[], sort: string): Fields[] {
  const key = sort.replace(/^-/, "");
  const sign = sort.startsWith("-") ? -1 : 1;
  if (!key) return rows;
  return [...rows].sort((a, b) => {
    const x = a[key];
    const y = b[key];
    const missing = Number(x === null || x === undefined) - Number(y === null || y === undefined);
    if (missing) return missing;
    if (typeof x === "number" && typeof y === "number") return sign * (x - y);
    return sign * String(x ?? "").localeCompare(String(y ?? ""));
  });
}
