// Numbers for people, as the terminal shows them (src/base/text/format.c). The unit is in the key.
import { Fields, isFields, Json } from "./json";

// Three significant digits; rounding may not make a fourth (9.995 is 10.0).
function decimals(magnitude: number): number {
  if (magnitude < 9.995) return 2;
  return magnitude < 99.95 ? 1 : 0;
}

function scaled(value: number, units: string[]): string {
  let unit = 0;
  while (unit + 1 < units.length && Math.abs(value) >= 999.5) {
    value /= 1000;
    unit++;
  }
  const digits = unit === 0 && Number.isInteger(value) ? 0 : decimals(Math.abs(value));
  return value.toFixed(digits) + units[unit];
}

const two = (n: number): string => String(n).padStart(2, "0");

export function ns(value: number): string {
  const seconds = Math.abs(value) / 1e9;
  const sign = value < 0 ? "-" : "";
  if (seconds >= 3599.5) {
    const minutes = Math.floor(seconds / 60 + 0.5);
    return `${sign}${Math.floor(minutes / 60)}h ${two(minutes % 60)}m`;
  }
  if (seconds >= 119.5) {
    const whole = Math.floor(seconds + 0.5);
    return `${sign}${Math.floor(whole / 60)}m ${two(whole % 60)}s`;
  }
  return scaled(value, [" ns", " us", " ms", " s"]);
}

export const bytes = (value: number): string => scaled(value, [" B", " kB", " MB", " GB", " TB", " PB"]);
export const count = (value: number): string => scaled(value, ["", " k", " M", " G", " T", " P"]);
const rate = (value: number): string => scaled(value, ["/s", " k/s", " M/s", " G/s", " T/s"]);
const flops = (value: number): string =>
  scaled(value, [" FLOP/s", " kFLOP/s", " MFLOP/s", " GFLOP/s", " TFLOP/s", " PFLOP/s"]);

export function pct(value: number): string {
  const magnitude = Math.abs(value);
  if (magnitude < 0.995) return `${value.toFixed(2)}%`;
  return `${value.toFixed(magnitude < 99.95 ? 1 : 0)}%`;
}

export function ratio(value: number): string {
  const magnitude = Math.abs(value);
  if (magnitude === 0) return "0";
  return value.toFixed(magnitude < 0.9995 ? 3 : decimals(magnitude));
}

export function date(realtimeNs: number): string {
  return `${new Date(realtimeNs / 1e6).toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

// The first that fits a key decides.
const UNITS: [RegExp, (value: number) => string][] = [
  [/realtime_ns$/, date],
  [/(^|_)timestamp$/, (v) => date(v * 1e9)],
  [/(^|_)ns$|phases$/, ns],
  [/_ms$/, (v) => ns(v * 1e6)],
  [/(^|_)mib_per_s$/, (v) => `${bytes(v * 1048576)}/s`],
  [/(^|_)bytes_per_s$/, (v) => `${bytes(v)}/s`],
  [/(^|_)flops_per_s$/, flops],
  [/_per_s$/, rate],
  [/(^|_)bytes(_per_step|_touched.*)?$|^composition/, bytes],
  [/_mb$/, (v) => bytes(v * 1e6)],
  [/(^|_)pct$/, pct],
  [/_mhz$/, (v) => `${v.toFixed(0)} MHz`],
  [/_w$/, (v) => `${v.toFixed(0)} W`],
  [/_c$/, (v) => `${v.toFixed(0)} °C`],
  [/^device$/, (v) => (v < 0 ? "host" : String(v))],
  [/^(step|rank|layer|expert|index|stream|request|pid|exit_status|late_rank|from|to|tile_rows)$/, String],
];

function unitOf(key: string): ((value: number) => string) | undefined {
  return UNITS.find(([pattern]) => pattern.test(key))?.[1];
}

// `inside` is the key of the object that holds it: a summary's unit is there.
export function number(key: string, value: number, inside = ""): string {
  const own = unitOf(key) ?? (/^(count|samples)$/.test(key) ? undefined : unitOf(inside));
  if (own) return own(value);
  return Number.isInteger(value) ? count(value) : ratio(value);
}

export function value(key: string, json: Json | undefined, inside = ""): string {
  if (json === null || json === undefined) return "–";
  if (typeof json === "number") return number(key, json, inside);
  if (typeof json === "boolean") return json ? "yes" : "no";
  if (typeof json === "string") return json;
  if (isFields(json)) return Object.keys(json).length ? `${Object.keys(json).length} figures` : "none";
  return json.length === 1 ? "1 entry" : `${json.length} entries`;
}

const BY_UNIT: { [unit: string]: (value: number) => string } = { ns, bytes, count, ratio, per_s: rate, "%": pct };

// A figure whose unit is named beside it, not in its key.
export function byUnit(unit: string, value: number): string {
  return (BY_UNIT[unit] ?? ratio)(value);
}

// What the cell of a row says.
export function cell(row: Fields, key: string): string {
  return value(key, row[key]);
}

const UNIT_SUFFIX = /(?<!^self)_bytes$|_(ns|pct|ms|mb|mhz|w|c)$/;

// The words of a key without its unit: time_ns is "time", tokens_per_s "tokens/s".
export function title(key: string): string {
  return key.replace(/_(bytes|flops|mib)_per_s$/, "").replace(/_per_s$/, "/s").replace(/realtime_ns$/, "")
    .replace(UNIT_SUFFIX, "").replace(/_/g, " ").trim() || key;
}

// The same for keys side by side: where one figure stands in two units, shares have their sign.
export function titles(keys: string[]): Map<string, string> {
  const plain = keys.map(title);
  return new Map(keys.map((key, i) => {
    const own = plain[i] as string;
    return [key, key.endsWith("_pct") && plain.indexOf(own) !== plain.lastIndexOf(own) ? `${own} %` : own];
  }));
}
