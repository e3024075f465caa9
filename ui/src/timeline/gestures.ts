// The pointer on the picture: drag moves, Shift and drag selects, the wheel zooms, a click chooses.
import { Area, Stage } from "./stage";
import { Box } from "./model";
import { panned, Span, zoomed } from "./span";

interface Point {
  x: number;
  y: number;
}

export interface Hands {
  looked(span: Span): void;
  clicked(box: Box | null): void;
  selected(area: Area, isDone: boolean): void;
}

const STILL = 4; // pixels that a click may move
const LINE = 18; // pixels in a line, for wheels that count lines
const ZOOM = 0.002;

export class Gestures {
  pointer: Point | null = null;
  private down: (Point & { scroll: number; span: Span; selects: boolean; moved: boolean }) | null = null;

  constructor(private stage: Stage, private hands: Hands) {
    const { place } = stage;
    place.addEventListener("pointerdown", (event) => this.press(event));
    place.addEventListener("pointermove", (event) => this.move(event));
    place.addEventListener("pointerup", (event) => this.release(event));
    place.addEventListener("pointercancel", () => {
      this.down = null;
    });
    place.addEventListener("pointerleave", () => {
      this.pointer = null;
      stage.point(0, 0, null);
    });
    place.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
  }

  private at(event: MouseEvent): Point {
    const box = this.stage.place.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  private press(event: PointerEvent): void {
    if (event.button !== 0) return;
    this.stage.place.setPointerCapture(event.pointerId);
    this.stage.canvas.focus({ preventScroll: true });
    this.down = { ...this.at(event), scroll: this.stage.element.scrollTop, span: this.stage.span,
      selects: event.shiftKey, moved: false };
    event.preventDefault(); // no selection of text
  }

  private move(event: PointerEvent): void {
    const at = this.at(event);
    const { down, stage } = this;
    this.pointer = at;
    if (!down) return stage.point(at.x, at.y, stage.boxUnder(at.x, at.y));
    if (Math.abs(at.x - down.x) >= STILL || Math.abs(at.y - down.y) >= STILL) down.moved = true;
    if (!down.moved) return;
    stage.point(0, 0, null);
    if (down.selects) return this.hands.selected(this.area(down, at), false);
    stage.element.scrollTop = down.scroll - (at.y - down.y);
    this.hands.looked(panned(down.span, (down.x - at.x) / stage.width));
  }

  private release(event: PointerEvent): void {
    const { down } = this;
    const at = this.at(event);
    this.down = null;
    if (!down) return;
    if (down.selects && down.moved) this.hands.selected(this.area(down, at), true);
    else if (!down.moved) this.hands.clicked(this.stage.boxUnder(at.x, at.y));
  }

  private area(down: Point, at: Point): Area {
    const times = [this.stage.time(down.x), this.stage.time(at.x)].map((time) => Math.round(time));
    return { from: Math.max(0, Math.min(...times)), to: Math.max(...times), lanes: this.stage.lanesIn(down.y, at.y) };
  }

  private wheel(event: WheelEvent): void {
    const { x } = this.at(event);
    const unit = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? LINE : 1;
    const [dx, dy] = event.shiftKey ? [event.deltaX || event.deltaY, 0] : [event.deltaX, event.deltaY];
    event.preventDefault();
    this.hands.looked(Math.abs(dx) > Math.abs(dy) ? panned(this.stage.span, (dx * unit) / this.stage.width)
      : zoomed(this.stage.span, Math.exp(dy * unit * ZOOM), x / this.stage.width));
    this.stage.point(0, 0, null);
  }
}
