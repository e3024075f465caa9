#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that no folders of src call each other in a cycle, by the symbols of a build.

Includes say what a file may call, symbols what it does call: a declaration can be in a header that
both sides include. A folder is where a source is, so a folder inside another counts separately.

usage: check_symbols.py [BUILD]                 circles between folders; exits 1 when there is one
       check_symbols.py [BUILD] --calls FOLDER  which of its files call which other folder, and what
       check_symbols.py [BUILD] --files FOLDER  which of its files call which, lowest first, and knots
       check_symbols.py [BUILD] --plan FILE     as if sources lay as FILE says: lines of a folder and
                                                patterns of sources, the first that matches counts
"""
import argparse
import collections
import fnmatch
import json
import pathlib
import subprocess
import sys


# Nothing is linked with these: they are loaded in front of other libraries, and have the names of their functions.
PRELOADED = ("calls/", "heap/hooks.c")


def objects(build):
    """{object: source below src}, each source once: tests and libheap_shared compile some of them again."""
    database = build / "compile_commands.json"
    if not database.exists():
        raise SystemExit(f"check_symbols.py: {database} is not there; name a build folder")
    found = {}
    for entry in json.loads(database.read_text(encoding="utf-8")):
        source = (pathlib.Path(entry["directory"]) / entry["file"]).resolve()
        output = pathlib.Path(entry["directory"]) / entry["output"]
        parts = source.parts
        if "src" not in parts or not output.exists():
            continue
        name = "/".join(parts[parts.index("src") + 1:])
        if name not in found and not entry["output"].startswith(("tests/", "libheap_shared")):
            found[name] = output
    if not found:
        raise SystemExit(f"check_symbols.py: no object of src in {build}; run ninja first")
    return {str(output): name for name, output in found.items()}


class Graph:
    """Which source uses which symbol of which other."""

    def __init__(self, build, folder_of):
        sources = objects(build)
        defined, used = collections.defaultdict(list), collections.defaultdict(set)
        listed = subprocess.run(["nm", "-g", "-P", "-A", *sources], stdout=subprocess.PIPE, text=True,
                                check=True).stdout
        for line in listed.splitlines():
            path, symbol, kind = line.split()[:3]
            source = sources[path.rstrip(":")]
            if kind == "U":
                used[source].add(symbol)
            elif kind not in "wv" and not source.startswith(PRELOADED):
                defined[symbol].append(source)
        self.sources = sorted(sources.values())
        self.folder = {source: folder_of(source) for source in self.sources}
        self.calls = {}  # (from, to): symbols
        for source, symbols in used.items():
            for symbol in symbols:
                for target in self.owners(source, defined.get(symbol, [])):
                    self.calls.setdefault((source, target), []).append(symbol)

    def owners(self, source, targets):
        """Programs may have functions of the same name; each means its own."""
        near = [t for t in targets if t.split("/")[0] == source.split("/")[0]]
        return near or targets

    def between(self, name_of):
        """{name: {other names}} of some grouping."""
        found = {name_of(s): set() for s in self.sources}
        for a, b in self.calls:
            if name_of(a) != name_of(b):
                found[name_of(a)].add(name_of(b))
        return found

    def symbols(self, chosen):
        """Lines for calls: source, target, symbols."""
        for (a, b), symbols in sorted(self.calls.items()):
            if chosen(a, b):
                yield f"  {a} -> {b}: {', '.join(sorted(symbols))}"


def knots(graph):
    """Groups of names that reach each other, those that call nothing else first (Tarjan)."""
    index, low, stack, found = {}, {}, [], []

    def visit(name):
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in sorted(graph[name]):
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            group = []
            while not group or group[-1] != name:
                group.append(stack.pop())
            found.append(sorted(group))

    for name in sorted(graph):
        if name not in index:
            visit(name)
    return found


def shortest_circle(graph, group):
    """A shortest cycle of a group."""
    best = None
    for start in group:
        came, queue = {start: None}, collections.deque([start])
        while queue:
            name = queue.popleft()
            if start in graph[name]:
                circle = []
                at = name
                while at is not None:
                    circle.append(at)
                    at = came[at]
                if best is None or len(circle) < len(best):
                    best = circle[::-1]
                break
            for other in sorted(graph[name] & set(group)):
                if other not in came:
                    came[other] = name
                    queue.append(other)
    return best


def planned(path):
    rules = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            words = line.split("#")[0].split()
            if words:
                rules.append((words[0], words[1:]))

    def folder_of(source):
        for folder, patterns in rules:
            if any(fnmatch.fnmatchcase(source, pattern) for pattern in patterns):
                return folder
        return source.rpartition("/")[0]
    return folder_of


def show_circles(graph):
    between = graph.between(graph.folder.get)
    circles = [group for group in knots(between) if len(group) > 1]
    for group in circles:
        circle = shortest_circle(between, group)
        print(f"circle of folders: {', '.join(group)}; for one, {' -> '.join(circle + circle[:1])}")
        for line in graph.symbols(lambda a, b, g=set(group): graph.folder[a] != graph.folder[b] and
                                  {graph.folder[a], graph.folder[b]} <= g):
            print(line)
    if not circles:
        print(f"{len(graph.sources)} objects in {len(between)} folders, no circle")
    return 1 if circles else 0


def show_calls(graph, folder):
    found = collections.defaultdict(list)
    for (a, b), symbols in sorted(graph.calls.items()):
        if graph.folder[a] == folder and graph.folder[b] != folder:
            found[graph.folder[b]].append(f"  {a} -> {b}: {', '.join(sorted(symbols))}")
    for other, lines in sorted(found.items()):
        print(f"{folder} -> {other}")
        print("\n".join(lines))


def show_files(graph, folder):
    inside = [s for s in graph.sources if graph.folder[s] == folder]
    if not inside:
        raise SystemExit(f"check_symbols.py: no source in {folder}")
    between = {s: {b for a, b in graph.calls if a == s and b in inside and b != s} for s in inside}
    height = {}
    for group in knots(between):
        level = max((height[o] + 1 for s in group for o in between[s] if o not in group), default=0)
        for source in group:
            height[source] = level
        if len(group) > 1:
            print(f"knot of {len(group)} at height {level}:")
        for source in group:
            short = [o.removeprefix(folder + "/") for o in sorted(between[source])]
            print(f"{'  ' if len(group) > 1 else ''}{level} {source.removeprefix(folder + '/')} -> "
                  f"{', '.join(short) or '-'}")


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1])
    parser.add_argument("build", nargs="?", default="build", type=pathlib.Path)
    parser.add_argument("--calls", metavar="FOLDER")
    parser.add_argument("--files", metavar="FOLDER")
    parser.add_argument("--plan", metavar="FILE")
    args = parser.parse_args()
    sys.setrecursionlimit(10000)
    graph = Graph(args.build.resolve(), planned(args.plan) if args.plan else
                  lambda source: source.rpartition("/")[0])
    if args.calls:
        show_calls(graph, args.calls)
    elif args.files:
        show_files(graph, args.files)
    else:
        return show_circles(graph)
    return 0


if __name__ == "__main__":
    sys.exit(main())
