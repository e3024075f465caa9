// The tree of stacks, as the server sends it: lists of equal length, a parent always before its children.
import { fields, Fields, list, num, numbers, text } from "./json";

export interface StackNode {
  name: string;
  parent: StackNode | null;
  depth: number;
  selfNs: number;
  totalNs: number;
  count: number;
  merged: boolean; // several small ones added up
  children: StackNode[]; // the largest first
}

function node(name: string, parent: StackNode | null, times: [number, number], count: number, merged = false): StackNode {
  const made = { name, parent, depth: parent ? parent.depth + 1 : 0, selfNs: times[0], totalNs: times[1], count, merged,
    children: [] };
  parent?.children.push(made);
  return made;
}

export function readStacks(document: Fields): StackNode {
  const names = list(document["names"]).map(text);
  const columns = fields(document["nodes"]);
  const [parent, name, self, total, count, merged, mergedNs] = ["parent", "name", "self_ns", "total_ns", "count", "merged",
    "merged_ns"].map((key) => numbers(columns[key])) as [number[], number[], number[], number[], number[], number[], number[]];
  const made: StackNode[] = [];
  parent.forEach((above, i) => {
    made.push(node(i ? names[name[i] as number] ?? "" : "all", made[above] ?? null, [self[i] ?? 0, total[i] ?? 0],
      count[i] ?? 0));
  });
  made.forEach((of, i) => {
    of.children.sort((a, b) => b.totalNs - a.totalNs);
    const n = merged[i] ?? 0;
    if (n) node(`${n} smaller ${n === 1 ? "stack" : "stacks"}`, of, [mergedNs[i] ?? 0, mergedNs[i] ?? 0], n, true);
  });
  return made[0] ?? node("all", null, [0, num(document["total_ns"]) ?? 0], 0);
}

const word = (name: string): string => name.replace(/;/g, ":");

// As in the folded exports: "outer;inner", without the root.
export function pathOf(of: StackNode): string {
  const words: string[] = [];
  for (let at = of; at.parent; at = at.parent) words.unshift(word(at.name));
  return words.join(";");
}

// The deepest node of the path that is there: a run that grows may have lost the rest to the small ones.
export function findPath(root: StackNode, path: string): StackNode {
  let at = root;
  for (const part of path ? path.split(";") : []) {
    const next = at.children.find((child) => word(child.name) === part);
    if (!next) break;
    at = next;
  }
  return at;
}

export function everyNode(root: StackNode): StackNode[] {
  const all = [root];
  for (let i = 0; i < all.length; i++) all.push(...(all[i] as StackNode).children);
  return all;
}
