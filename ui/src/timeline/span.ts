// The stretch of time in sight, and how it moves. It stays inside the run.
import { ns } from "../format";

export interface Span {
  from: number;
  to: number;
}

const LEAST_NS = 50;

export function within(span: Span, end: number): Span {
  const length = Math.min(Math.max(span.to - span.from, LEAST_NS), Math.max(end, LEAST_NS));
  const from = Math.min(Math.max(span.from, 0), Math.max(end, LEAST_NS) - length);
  return { from, to: from + length };
}

export function panned(span: Span, share: number): Span {
  const by = (span.to - span.from) * share;
  return { from: span.from + by, to: span.to + by };
}

// The time at `share` of the width stays where it is.
export function zoomed(span: Span, factor: number, share: number): Span {
  const at = span.from + (span.to - span.from) * share;
  return { from: at - (at - span.from) * factor, to: at + (span.to - at) * factor };
}

// With what stands around it.
export function around(start: number, duration: number): Span {
  const margin = Math.max(duration * 0.25, LEAST_NS);
  return { from: start - margin, to: start + duration + margin };
}

// A moment with all its digits.
export function moment(time: number): string {
  return `${(time / 1e9).toFixed(9).replace(/\.?0+$/, "")} s`;
}

export interface Axis {
  base: string; // what the labels count from, if not from the start of the run
  ticks: { time: number; label: string }[];
}

const UNITS: [number, string][] = [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]];

// About `n` round times. Far from the start of the run, they count from the last round moment before.
export function axisOf(span: Span, n: number): Axis {
  const rough = (span.to - span.from) / n;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(1, [1, 2, 5, 10].map((m) => m * power).find((each) => each >= rough) ?? power);
  const [unit, name] = UNITS.find(([size]) => size <= step) ?? [1, "ns"];
  const base = unit === 1e9 ? 0 : Math.floor(span.from / (unit * 1000)) * unit * 1000;
  const ticks = [];
  for (let time = Math.ceil(span.from / step) * step; time <= span.to; time += step) {
    const value = Math.round((time - base) / unit);
    ticks.push({ time, label: `${base ? "+" : ""}${value} ${name}` });
  }
  return { base: base ? moment(base) : "", ticks };
}

export function spanWords(span: Span): string {
  return `${moment(Math.round(span.from))} to ${moment(Math.round(span.to))} (${ns(span.to - span.from)})`;
}
