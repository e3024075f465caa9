// What is said of events, areas and names.
import { count, ns } from "../format";
import { Box, Lane } from "./model";
import { moment } from "./span";

// "void at::native::kernel<float>(int)" is "kernel" where there is little room.
export function brief(name: string): string {
  const head = name.replace(/^void /, "").replace(/[<(].*$/, "");
  return head.slice(head.lastIndexOf("::") + 1).replace(/^:+/, "") || name;
}

export function laneWords(lane: Lane | undefined): string {
  if (!lane) return "";
  return [lane.group, lane.title, lane.kind !== lane.title ? lane.kind : "", lane.depth ? `level ${lane.depth + 1}` : ""]
    .filter(Boolean).join(", ");
}

export function many(n: number, one: string): string {
  return `${n < 1e4 ? n : count(n)} ${one}${n === 1 ? "" : "s"}`;
}

export function boxWords(box: Box): string {
  const time = `${ns(box.duration)} at ${moment(box.start)}`;
  return box.merged > 1 ? `${many(box.merged, "event")} merged here, the longest ${box.name}; together ${time}`
    : `${box.name}: ${time}`;
}
