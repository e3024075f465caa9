// What is said of events, areas and names.
import { count, ns } from "../format";
import { Box, Lane } from "./model";
import { moment } from "./span";

// The last part of a mangled name: each part has its length in front.
function demangled(name: string): string {
  let [rest, part] = [name.replace(/^_ZN?/, ""), ""];
  for (let match = /^\d+/.exec(rest); match; match = /^\d+/.exec(rest)) {
    const [from, to] = [match[0].length, match[0].length + Number(match[0])];
    part = rest.slice(from, to);
    rest = rest.slice(to);
  }
  return part || name;
}

// "void at::native::kernel<float>(int)" is "kernel" where there is little room.
export function brief(name: string): string {
  if (name.startsWith("_Z")) return demangled(name);
  const head = name.replace(/^void /, "").replace(/\(anonymous namespace\)::/g, "").replace(/[<(].*$/, "");
  return head.slice(head.lastIndexOf("::") + 1).replace(/^:+/, "") || name;
}

export function laneWords(lane: Lane | undefined): string {
  if (!lane) return "";
  return [lane.group, lane.title, lane.title.startsWith(lane.kind) ? "" : lane.kind, lane.depth ? `level ${lane.depth + 1}` : ""]
    .filter(Boolean).join(", ");
}

export function many(n: number, one: string): string {
  return `${n < 1e4 ? n : count(n)} ${one}${n === 1 ? "" : "s"}`;
}

const LONGEST = 160;

export function boxWords(box: Box): string {
  const name = box.name.length > LONGEST ? `${box.name.slice(0, LONGEST)}…` : box.name;
  const time = `${ns(box.duration)} at ${moment(box.start)}`;
  return box.merged > 1 ? `${many(box.merged, "event")} merged here, the longest ${name}; together ${time}`
    : `${name}: ${time}`;
}
