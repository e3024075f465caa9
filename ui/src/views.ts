// The views, in the order of the navigation. `id`: the keys that tell rows apart.
import { Fields } from "./json";

export interface View {
  name: string;
  title: string;
  group: string;
  id: string[];
  part: string; // of the schema: its row is PART_row
  columns?: string[]; // these alone, in this order; else those that the rows have
  head?(key: string): string; // the title of a column; else the words of its key
  cell?(row: Fields, key: string): string; // what a cell says; else by the unit in its key
}

const view = (group: string, name: string, title: string, id: string[], part = name): View =>
  ({ name, title, group, id, part });

export const VIEWS: View[] = [
  view("Time", "steps", "Steps", ["rank", "step"]),
  view("Time", "requests", "Requests", ["rank", "request"]),
  view("Time", "ops", "Operations", ["name", "kind"]),
  view("Device", "kernels", "Kernels", ["name", "class"]),
  view("Device", "api", "API calls", ["name", "library"]),
  view("Device", "transfers", "Transfers", ["kind", "memory", "src", "dst"]),
  view("Device", "efficiency", "Efficiency", ["name"]),
  view("Device", "counters", "Counters", ["kernel", "metric"]),
  view("Device", "counters-kernels", "Bounds of kernels", ["kernel"]),
  view("Device", "counters-ranges", "Counters by range", ["range"]),
  view("Device", "counters-stalls", "Stalls of kernels", ["kernel", "stall"]),
  view("Device", "counters-lines", "Stalls by line", ["kernel", "file", "line", "offset"]),
  view("Experts", "routing", "Routing", ["layer", "phase"]),
  view("Experts", "routing-steps", "Routing by step", ["step", "layer", "phase"]),
  view("Experts", "routing-experts", "Routing by expert", ["step", "layer", "phase", "expert"]),
  view("Experts", "routing-pairs", "Pairs of experts", ["layer", "phase", "from", "to_layer", "to"]),
  view("Experts", "routing-k", "Experts per token", ["layer", "phase", "k"]),
  view("Experts", "counters-experts", "Counters by expert", ["layer", "expert"]),
  view("Experts", "moe", "MoE parts", ["part", "pass"]),
  view("Memory and ranks", "memory", "Memory", ["rank", "device"]),
  view("Memory and ranks", "comm", "Communication", ["name", "transport", "group", "type"]),
];

export function findView(name: string): View | undefined {
  return VIEWS.find((candidate) => candidate.name === name);
}
