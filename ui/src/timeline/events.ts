// Single events that are out of sight, or merged with others: asked for one by one.
import { Options } from "../address";
import { Fields, isFields, num } from "../json";
import { Box, boxAt, Boxes, firstAfter, Lane, Names, readBoxes } from "./model";

// An address has room for 2048 characters, which some names of kernels exceed.
const LONGEST_NAME = 1500;

export class Events {
  constructor(private ask: (what: string, options: Options) => Promise<Fields>, private names: Names) {}

  // The event at a time with its name: seen so near that nothing is merged.
  async at(lane: number, start: number, duration: number): Promise<Box | null> {
    const boxes = await this.boxes(lane, start, start + Math.max(1, duration));
    const i = boxes ? firstAfter(boxes, start) : 0;
    return boxes && i < boxes.n ? boxAt(lane, boxes, this.names, i) : null;
  }

  // The event of exactly these times in one of the lanes.
  async exactly(lanes: Lane[], start: number, duration: number): Promise<Box | null> {
    for (const { lane } of lanes) {
      const box = await this.at(lane, start, duration);
      if (box?.merged === 1 && box.start === start && box.duration === duration) return box;
    }
    return null;
  }

  // The first or last event of a stretch: seen from afar, then from nearer until it stands alone.
  async alone(lane: number, from: number, to: number, isFirst: boolean): Promise<Box | null> {
    while (to > from) {
      const boxes = await this.boxes(lane, from, to);
      const inside = Array.from({ length: boxes?.n ?? 0 }, (_, i) => boxAt(lane, boxes as Boxes, this.names, i))
        .filter((box) => box.start >= from && box.start + box.duration <= to);
      const box = isFirst ? inside[0] : inside[inside.length - 1];
      if (!box) return null;
      const end = box.start + Math.max(1, box.duration);
      if (box.merged <= 1 || (box.start === from && end === to)) return box;
      [from, to] = [box.start, end];
    }
    return null;
  }

  // The next event of a name that starts after a time; behind the last comes the first.
  async next(name: string, after: number): Promise<Box | null> {
    const id = this.names.numbers.get(name);
    const isLong = encodeURIComponent(name).length > LONGEST_NAME;
    const which: Options = isLong && id !== undefined ? { id: String(id) } : { name };
    const found = (await this.ask("find", { ...which, after: String(after) }))["found"];
    return isFields(found) ? { ...readEvent(found), name, merged: 1 } : null;
  }

  // A step of a rank: all ranks have one of that name.
  async step(rank: number, step: number, lanes: Map<number, Lane>): Promise<Box | null> {
    let after = -1;
    for (let i = 0; i < lanes.size; i++) {
      const found = await this.next(`step ${step}`, after);
      if (!found || lanes.get(found.lane)?.rank === rank) return found;
      after = found.start;
    }
    return null;
  }

  private async boxes(lane: number, from: number, to: number): Promise<Boxes | undefined> {
    return readBoxes(await this.ask("boxes", { from: String(from), to: String(to), width: "64", lanes: String(lane) }),
      this.names).get(lane);
  }
}

function readEvent(of: Fields): { lane: number; start: number; duration: number } {
  return { lane: num(of["lane"]) ?? 0, start: num(of["start"]) ?? 0, duration: num(of["duration"]) ?? 0 };
}
