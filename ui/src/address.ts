// What is shown is in the address: #/RUN/VIEW?sort=…&find=…&row=…&steps=A:B. Nothing is kept elsewhere.
export type Options = { [key: string]: string };

export interface Place {
  run: string; // "": the list of runs
  view: string;
  options: Options;
}

export const OVERVIEW = "overview";
export const TIMELINE = "timeline";

// The parts of an address that a person has typed may be no valid code.
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function parse(hash: string): Place {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const [run = "", view = ""] = path.split("/").map(decoded);
  return { run, view: view || OVERVIEW, options: Object.fromEntries(new URLSearchParams(query)) };
}

export function format(place: Place): string {
  if (!place.run) return "#/";
  const query = new URLSearchParams(Object.entries(place.options).filter(([, value]) => value !== ""));
  const words = query.toString();
  return `#/${encodeURIComponent(place.run)}/${encodeURIComponent(place.view)}${words ? `?${words}` : ""}`;
}

// Browsers allow some 200 changes of the address in 30 seconds; a key that is held down makes more. So all but the
// first of a burst are written together, unless the page has gone elsewhere meanwhile.
const BURST_MS = 250;
let pending: { from: string; hash: string } | null = null;
let burst = 0;

function write(): void {
  burst = 0;
  if (pending && pending.from === location.hash && pending.hash !== location.hash) {
    history.replaceState(null, "", pending.hash);
    burst = window.setTimeout(write, BURST_MS);
  }
  pending = null;
}

export function here(): Place {
  return parse(pending?.from === location.hash ? pending.hash : location.hash);
}

// Another place: the browser's back button returns.
export function go(place: Place): void {
  location.hash = format(place);
}

// The same place, looked at in another way.
export function adjust(changes: Options): void {
  const place = here();
  pending = { from: location.hash, hash: format({ ...place, options: { ...place.options, ...changes } }) };
  if (!burst) write();
}
