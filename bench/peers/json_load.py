# SPDX-License-Identifier: Apache-2.0
"""json_load.py FILE.json: the kernels of a trace with Python's json: their number and time."""
import collections
import json
import sys


def main():
    with open(sys.argv[1], encoding="utf-8", errors="replace") as file:
        trace = json.load(file)
    names = collections.defaultdict(lambda: [0, 0])
    for event in trace["traceEvents"]:
        if event.get("cat") in ("kernel", "Kernel"):
            sums = names[event["name"]]
            sums[0] += 1
            sums[1] += round(event["dur"] * 1000)
    print("kernels", sum(n for n, _ in names.values()),
          "kernel_ns", sum(ns for _, ns in names.values()), "names", len(names))


if __name__ == "__main__":
    main()
