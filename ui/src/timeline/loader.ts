// Boxes for what is in sight, with up to half a screen on each side, so that small moves need no answer. What is there is
// shown, at whatever scale, until something better comes.
import { Fields } from "../json";
import { Boxes, laneList, Names, readBoxes } from "./model";
import { Newest } from "./newest";
import { Span } from "./span";

export interface Sight {
  span: Span;
  width: number; // pixels
  lanes: number[];
}

interface Question {
  from: number;
  to: number;
  scale: number; // ns a pixel
  lanes: number[];
  width: number;
  margin: number; // ns
  version: number;
}

const DEBOUNCE_MS = 30;
const MOST_PIXELS = 8192;
const ALIGN_PIXELS = 256;
const REST_MS = 2000;
const MOST_COLUMNS = 60000; // of all lanes together, before the margin shrinks: answers are read between two frames

// Scales are powers of the square root of 2, and stretches begin at multiples of some pixels: boxes are cut at the
// same places in all answers of a scale, so that nothing flickers.
function scaleOf(sight: Sight): number {
  const exact = (sight.span.to - sight.span.from) / sight.width;
  return 2 ** (Math.floor(Math.log2(exact) * 2) / 2);
}

function questionOf(sight: Sight, end: number, version: number): Question {
  const scale = scaleOf(sight);
  const length = sight.span.to - sight.span.from;
  const align = scale * ALIGN_PIXELS;
  const room = Math.min(MOST_PIXELS - 2 * ALIGN_PIXELS, MOST_COLUMNS / sight.lanes.length) * scale;
  const margin = Math.min(length / 2, Math.max(length / 8, (room - length) / 2));
  const from = Math.max(0, Math.floor(Math.floor((sight.span.from - margin) / align) * align));
  const to = Math.max(from + 1, Math.min(end, Math.ceil(Math.ceil((sight.span.to + margin) / align) * align)));
  return { from, to, scale, lanes: sight.lanes, version, margin,
    width: Math.min(MOST_PIXELS, Math.max(1, Math.ceil((to - from) / scale))) };
}

export class Loader {
  lanes = new Map<number, Boxes>();
  private have: Question | null = null;
  private asked: Question | null = null;
  private version = 0;
  private isResting = false;
  private newest: Newest<Question, Fields>;

  constructor(ask: (options: { [key: string]: string }) => Promise<Fields>, private names: Names,
    private changed: () => void, failed: (error: unknown) => void) {
    this.newest = new Newest(DEBOUNCE_MS,
      (q: Question) => ask({ from: String(q.from), to: String(q.to), width: String(q.width), lanes: laneList(q.lanes) }),
      (answer, question) => this.take(answer, question),
      (error) => {
        this.rest();
        failed(error);
      });
  }

  // The run has grown, and lanes may have other numbers: what is here holds until the new boxes come.
  stale(moved: Map<number, number | undefined>): void {
    this.version++;
    this.lanes = new Map([...this.lanes].flatMap(([lane, boxes]) => {
      const now = moved.get(lane);
      return now === undefined ? [] : [[now, boxes] as const];
    }));
  }

  close(): void {
    this.newest.close();
  }

  want(sight: Sight, end: number): void {
    if (this.isResting || !sight.lanes.length || sight.width < 1 || this.covers(this.have, sight, end)
      || this.covers(this.asked, sight, end)) return;
    this.asked = questionOf(sight, end, this.version);
    this.newest.put(this.asked, !this.have);
  }

  // With some room left, so that the next boxes are there before they are needed.
  private covers(question: Question | null, sight: Sight, end: number): boolean {
    if (!question || question.version !== this.version || question.scale !== scaleOf(sight)) return false;
    const room = question.margin / 4;
    const known = new Set(question.lanes);
    return question.from <= Math.max(0, sight.span.from - room) && question.to >= Math.min(end, sight.span.to + room)
      && sight.lanes.every((lane) => known.has(lane));
  }

  private take(answer: Fields, question: Question): void {
    if (this.asked === question) this.asked = null;
    if (question.version !== this.version) return this.changed();
    const boxes = readBoxes(answer, this.names);
    // Lanes out of sight keep what they had, for the moment when they come back.
    for (const lane of question.lanes) {
      const own = boxes.get(lane);
      if (own) this.lanes.set(lane, own);
      else this.lanes.delete(lane);
    }
    this.have = question;
    this.changed();
  }

  // A server that does not answer is not asked at every frame.
  private rest(): void {
    this.asked = null;
    this.isResting = true;
    window.setTimeout(() => {
      this.isResting = false;
      this.changed();
    }, REST_MS);
  }
}
