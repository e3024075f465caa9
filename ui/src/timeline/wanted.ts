// A stretch of time that a link from elsewhere wants to be shown: "START:END:RANK:LANE:DEVICE", in nanoseconds since the
// start of the run. A gap has no event: it is shown on all lanes of the device.
import { About, Lane } from "./model";
import { Span } from "./span";

const MOMENT_SHARE = 0.02; // of the run, around a moment

export interface Wanted {
  span: Span; // as the timeline counts
  isEvent: boolean;
  lanes: Lane[];
  sight: Span | null; // null: the stretch with what stands around it
  words: string; // which lanes
}

function isShown(lane: Lane, kind: string, device: string): boolean {
  if (kind === "steps") return lane.kind === "steps";
  const own = /^GPU (\d+) /.exec(lane.title)?.[1];
  if (own === undefined || (device && own !== device)) return false;
  return kind === "copies" ? lane.kind === "copies" : lane.kind === "kernels" || lane.kind === "copies";
}

// null: it is no such text.
export function readWanted(words: string, about: About): Wanted | null {
  const [start = "", end = "", rank = "", kind = "", device = ""] = words.split(":");
  const [from, to] = [Number(start) - about.sinceStart, Number(end) - about.sinceStart];
  if (!start || !end || !(from <= to)) return null;
  const half = about.end * MOMENT_SHARE / 2;
  return { span: { from, to: Math.max(from + 1, to) }, isEvent: kind === "steps" || kind === "copies",
    lanes: about.lanes.filter((lane) => lane.rank === Number(rank) && isShown(lane, kind, device)),
    sight: to > from ? null : { from: from - half, to: to + half }, words: `${kind} of rank ${rank}` };
}
