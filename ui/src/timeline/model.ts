// What the server tells of a timeline: its lanes, and the boxes of a stretch of time. Times are nanoseconds since
// the first event of the run.
import { fields, Fields, Json, list, num, rowsOf, text } from "../json";

export interface Lane {
  lane: number;
  rank: number;
  group: string; // "rank 0"
  kind: string; // steps, kernels, copies, ranges, api
  title: string; // "GPU 0 stream 7"
  depth: number;
  events: number;
}

export interface About {
  end: number;
  events: number;
  lanes: Lane[];
  leftOut: number; // events that have no place
  absent: string; // why there is no event
  stepsAbsent: string; // why there are no steps
  sinceStart: number; // the first event, since the start of the run
}

// An event, or several that are too narrow to be told apart.
export interface Box {
  lane: number;
  start: number;
  duration: number;
  name: string;
  merged: number;
}

// The boxes of a lane by their start; they never overlap.
export interface Boxes {
  n: number;
  start: Float64Array;
  duration: Float64Array;
  name: Uint32Array; // of Names
  merged: Float64Array;
}

// Names as small numbers, the same in all answers.
export class Names {
  words: string[] = [];
  numbers = new Map<string, number>(); // the server's, which may change while a run grows
  private ids = new Map<string, number>();

  id(word: string): number {
    let id = this.ids.get(word);
    if (id === undefined) {
      id = this.words.push(word) - 1;
      this.ids.set(word, id);
    }
    return id;
  }
}

export function readAbout(answer: Fields): About {
  const lanes = rowsOf(answer["lanes"]).map((lane) => ({ lane: num(lane["lane"]) ?? 0, rank: num(lane["rank"]) ?? 0,
    group: text(lane["group"]), kind: text(lane["kind"]), title: text(lane["title"]), depth: num(lane["depth"]) ?? 0,
    events: num(lane["events"]) ?? 0 }));
  return { end: num(answer["end_ns"]) ?? 0, events: num(answer["events"]) ?? 0, lanes,
    leftOut: num(answer["left_out"]) ?? 0, absent: text(answer["absent"]), stepsAbsent: text(answer["steps_absent"]),
    sinceStart: num(answer["since_start_ns"]) ?? 0 };
}

// From an array at once: there may be hundreds of thousands.
function column(json: Json | undefined): Float64Array {
  return new Float64Array(list(json) as number[]);
}

export function readBoxes(answer: Fields, names: Names): Map<number, Boxes> {
  const from = num(answer["from"]) ?? 0;
  const ids = new Map<number, number>();
  for (const [id, word] of Object.entries(fields(answer["names"]))) {
    ids.set(Number(id), names.id(text(word)));
    names.numbers.set(text(word), Number(id));
  }
  const unknown = names.id("");
  return new Map(rowsOf(answer["lanes"]).map((lane) => {
    const start = column(lane["start"]);
    const name = new Uint32Array(column(lane["name"]));
    for (let i = 0; i < start.length; i++) {
      start[i] += from;
      name[i] = ids.get(name[i]) ?? unknown;
    }
    return [num(lane["lane"]) ?? 0, { n: start.length, start, duration: column(lane["duration"]), name,
      merged: column(lane["merged"]) }];
  }));
}

// The first box that ends after a time; n if there is none.
export function firstAfter(boxes: Boxes, time: number): number {
  let [low, high] = [0, boxes.n];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (boxes.start[middle] + boxes.duration[middle] > time) high = middle;
    else low = middle + 1;
  }
  return low;
}

export function boxAt(lane: number, boxes: Boxes, names: Names, i: number): Box {
  return { lane, start: boxes.start[i], duration: boxes.duration[i], name: names.words[boxes.name[i]] ?? "",
    merged: boxes.merged[i] };
}

// "3,5-9": lanes as the server reads them.
export function laneList(lanes: number[]): string {
  const parts: string[] = [];
  const sorted = [...lanes].sort((a, b) => a - b);
  for (let i = 0; i < sorted.length; ) {
    let last = i;
    while (last + 1 < sorted.length && sorted[last + 1] === sorted[last] + 1) last++;
    parts.push(last > i ? `${sorted[i]}-${sorted[last]}` : String(sorted[i]));
    i = last + 1;
  }
  return parts.join(",");
}
