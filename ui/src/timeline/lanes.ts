// Where lanes stand: rows from top to bottom, below the names of their groups. Groups and tracks can be folded.
import { Lane } from "./model";

export interface Row {
  y: number;
  height: number;
  label: string;
  lane: Lane | null; // whose boxes are in it; a group that is not folded has none
  isGroup: boolean;
  folds: string; // the key of what it folds; "": nothing
  folded: boolean;
}

export interface Layout {
  rows: Row[];
  height: number;
}

const GROUP = 22;
const LANE = 18;
const GAP = 3; // above a track

function labelOf(lane: Lane): string {
  return lane.title.startsWith(lane.kind) ? lane.title : `${lane.title} · ${lane.kind}`;
}

function trackKey(lane: Lane): string {
  return `${lane.group}/${lane.title}/${lane.kind}`;
}

// What stays the same when lanes get other numbers.
export function laneKey(lane: Lane): string {
  return `${trackKey(lane)}/${lane.depth}`;
}

function byKey(lanes: Lane[], key: (lane: Lane) => string): Map<string, Lane[]> {
  const found = new Map<string, Lane[]>();
  for (const lane of lanes) {
    const rest = found.get(key(lane));
    if (rest) rest.push(lane);
    else found.set(key(lane), [lane]);
  }
  return found;
}

// A folded group shows its first lane, a folded track its first row.
export function layOut(lanes: Lane[], folded: Set<string>): Layout {
  const rows: Row[] = [];
  let y = 0;
  const add = (row: Omit<Row, "y">): void => {
    rows.push({ ...row, y });
    y += row.height;
  };
  for (const [group, own] of byKey(lanes, (lane) => lane.group)) {
    const closed = folded.has(group);
    add({ height: GROUP, label: group, lane: closed ? own[0] ?? null : null, isGroup: true, folds: group, folded: closed });
    if (closed) continue;
    for (const [track, parts] of byKey(own, trackKey)) {
      const shut = folded.has(track);
      y += GAP;
      (shut ? parts.slice(0, 1) : parts).forEach((lane, i) => add({ height: LANE, label: i ? "" : labelOf(lane), lane,
        isGroup: false, folds: i || parts.length < 2 ? "" : track, folded: shut }));
    }
    y += GAP;
  }
  return { rows, height: y };
}

// What must be open for a lane to be in sight.
export function foldsOf(lane: Lane): string[] {
  return [lane.group, trackKey(lane)];
}

export function rowAt(layout: Layout, y: number): Row | undefined {
  return layout.rows.find((row) => y >= row.y && y < row.y + row.height);
}

// The lanes of rows that touch a stretch of the height.
export function lanesBetween(layout: Layout, top: number, bottom: number): number[] {
  return layout.rows.filter((row) => row.lane && row.y + row.height > top && row.y < bottom)
    .map((row) => (row.lane as Lane).lane);
}

export function rowOf(layout: Layout, lane: number): Row | undefined {
  return layout.rows.find((row) => row.lane?.lane === lane);
}
