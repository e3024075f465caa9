// The keys of the timeline, in words.
export const KEYS: [string, string][] = [
  ["A, D", "earlier, later; or drag"],
  ["W, S", "zoom in, out around the pointer; or the wheel"],
  ["Home", "show all"],
  ["← →", "the event before, after"],
  ["↑ ↓", "the lane above, below"],
  ["Enter", "details; goes into merged events"],
  ["F", "zoom to what is chosen or selected"],
  ["Shift + arrows", "select an area; or Shift and drag"],
  ["/", "search names"],
  ["N", "the next event of a name"],
  ["Page Up, Down", "lanes above, below"],
  ["Escape", "choose nothing"],
];

// "" with a modifier that is the browser's.
export function keyName(event: KeyboardEvent): string {
  if (event.ctrlKey || event.altKey || event.metaKey) return "";
  if (event.key.length === 1) return event.shiftKey ? "" : event.key.toLowerCase();
  return `${event.shiftKey ? "Shift+" : ""}${event.key}`;
}
