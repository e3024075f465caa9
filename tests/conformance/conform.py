#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Traces of other people: moescope's figures for each, compared with an independent recount.

    tests/conformance/conform.py FOLDER [--list traces.json] [--table docs/conformance.md]

FOLDER holds the files; the list says where each is from. Without a list every file in the folder is
compared. Every difference is printed, and the exit status is 1 if there is one. MOESCOPE names
the program.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import subprocess
import sys

from recount import kind_of, recount

HERE = pathlib.Path(__file__).resolve().parent
MOESCOPE = os.environ.get("MOESCOPE", str(HERE.parents[1] / "build/moescope"))
OTHER_LIMIT_PCT = 10


class Refused(Exception):
    pass


def asked(command, path, *options):
    done = subprocess.run([MOESCOPE, command, path, *options, "--json"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise Refused(done.stderr.strip())
    return json.loads(done.stdout)


def at(report, *keys):
    """A value of the report, None if it or an enclosing part is absent."""
    for key in keys:
        report = None if report is None else report[key]
    return report


def of_devices(report, key):
    return sorted(row[key] for row in at(report, "timeline", "devices") or [])


def with_kernels(report):
    """Time in which a device ran a kernel; none for one that only copied."""
    told = (row["compute_ns"] + row["comm_ns"] - row["overlap_ns"]
            for row in at(report, "comm", "total", "devices") or [])
    return sorted(time for time in told if time)


def of_nccl(report, key):
    """Only if NCCL is the only communication: then there is no doubt about what is compute."""
    rows = at(report, "comm", "total", "transports") or []
    if any(row["transport"] != "nccl" for row in rows):
        return None
    return sorted(row[key] for row in rows)


def of_memory(report, key):
    rows = [row for row in at(report, "memory", "rows") or [] if row["device"] >= 0]
    return sorted(row[key] for row in rows if row[key] is not None) or None


def of_host(report, key):
    rows = [row for row in at(report, "memory", "rows") or [] if row["device"] < 0]
    return sorted(row[key] for row in rows)


def named(section, *columns, key="name", only=lambda row: True):
    """The rows of a section by name, numbers summed over rows of one name."""
    def told(report):
        found = {}
        for row in at(report, section, "rows") or []:
            if only(row):
                sums = found.setdefault(row[key], [0] * len(columns))
                found[row[key]] = [a + (row[column] or 0) for a, column in zip(sums, columns)]
        return [[name, *sums] for name, sums in sorted(found.items())]
    return told


def device_ranges(report):
    rows = [row for row in report["spans"] or [] if row["domain"] == "gpu"]
    return [sum(row["count"] for row in rows), sum(row["time_ns"] for row in rows)]


def launched_by(report):
    """For operations and ranges alike."""
    return [row for row in named("ops", "self_gpu_ns")(report) if row[1]]


def total(section, key):
    return lambda report: at(report, section, "total", key)


# Every figure of the recount, and where moescope reports it.
TOLD = {
    "kernels": total("kernels", "count"),
    "kernel ns": total("kernels", "time_ns"),
    "busy ns": lambda r: of_devices(r, "busy_ns"),
    "windows ns": lambda r: of_devices(r, "window_ns"),
    "kernel rows": named("kernels", "count", "time_ns"),
    "busy with kernels ns": with_kernels,
    "copies": total("transfers", "count"),
    "copy ns": total("transfers", "time_ns"),
    "copy bytes": total("transfers", "bytes"),
    "copy kinds": named("transfers", "count", "time_ns", key="kind",
                        only=lambda row: row["kind"] != "memset"),
    "sets": total("transfers", "sets"),
    "set ns": total("transfers", "set_time_ns"),
    "set bytes": total("transfers", "set_bytes"),
    "calls": total("api", "count"),
    "call ns": total("api", "time_ns"),
    "call rows": named("api", "count", "time_ns"),
    "operation rows": named("ops", "count", only=lambda row: row["kind"] == "op"),
    "range rows": named("ops", "count", only=lambda row: row["kind"] == "range"),
    "ranges": total("ops", "count"),
    "device ranges": device_ranges,
    "device time of ranges": launched_by,
    "device time elsewhere": lambda r: [at(r, "ops", "total", "gpu_outside_ns") or 0,
                                        at(r, "ops", "total", "gpu_unplaced_ns") or 0],
    "steps": total("steps", "steps"),
    "step ns": lambda r: sorted(row["time_ns"] for row in at(r, "steps", "rows") or []),
    "nccl ns": lambda r: of_nccl(r, "comm_ns"),
    "nccl beside compute ns": lambda r: of_nccl(r, "overlap_ns"),
    "host collectives": lambda r: [at(r, "comm", "total", "host_count") or 0,
                                   at(r, "comm", "total", "host_time_ns") or 0],
    "peak allocated": lambda r: of_memory(r, "peak_allocated_bytes"),
    "peak reserved": lambda r: of_memory(r, "peak_reserved_bytes"),
    "peak on the host": lambda r: of_host(r, "peak_allocated_bytes"),
    "segments": lambda r: of_memory(r, "segments"),
    "reserved": lambda r: of_memory(r, "reserved_bytes"),
    "allocated": lambda r: of_memory(r, "allocated_bytes"),
    "allocated in blocks": lambda r: of_memory(r, "account_allocated_bytes"),
}
# Where moescope may report nothing, because the recount knows less.
MAY_BE_SILENT = {"nccl ns", "nccl beside compute ns"}


def nothing_of(value):
    return not value or (isinstance(value, list) and not any(value))


def other_share(path):
    """Share of device time in kernels, in percent; None without any."""
    view = asked("kernels", path, "--by", "class")
    time = at(view, "total", "time_ns")
    other = sum(row["time_ns"] for row in view["rows"] or [] if row["class"] == "other")
    return 100 * other / time if time else None


def compare(path):
    """What was counted, differences as (figure, counted, reported), the share of `other`."""
    try:
        counted = recount(path)
    except (ValueError, KeyError, EOFError, OSError) as why:
        return {"unread": f"the recount could not read it: {why}"}
    try:
        report = asked("report", path)
        other = other_share(path) if kind_of(path) != "snapshot" else None
    except Refused as why:
        return {"unread": f"moescope refused it: {why}"}
    result = {"counted": counted, "differences": [], "compared": [], "other_pct": other}
    for figure, value in counted.items():
        if figure not in TOLD:
            continue
        told = TOLD[figure](report)
        if told is None and figure in MAY_BE_SILENT:
            continue
        result["compared"].append(figure)
        if told != value and not (told is None and nothing_of(value)):
            result["differences"].append((figure, value, told))
    lost = {key: n for key, n in report["loss"].items() if n}
    result["lost"] = lost
    return result


def entries_of(folder, listed):
    if listed:
        with open(listed, encoding="utf-8") as file:
            return json.load(file)
    names = sorted(str(p.relative_to(folder)) for p in pathlib.Path(folder).rglob("*")
                   if p.is_file() and p.suffix not in (".md", ".txt") and p.name != "index.json")
    return [{"file": name} for name in names]


def is_listed(entry, path):
    if not os.path.exists(path):
        return False
    with open(path, "rb") as file:
        return entry.get("sha256") in (None, hashlib.sha256(file.read()).hexdigest())


def apart(value, other):
    """For long lists: what the other one lacks."""
    if not isinstance(value, list) or len(value) < 4:
        return value
    return [row for row in value if row not in (other or [])][:3]


def say(entry, result):
    """One line per file, one more per difference."""
    if "unread" in result:
        print(f"{entry['file']}: {result['unread']}")
        return
    other = result["other_pct"]
    words = [f"{len(result['compared'])} figures",
             f"{len(result['differences'])} differ" if result["differences"] else "equal"]
    if other is not None:
        words.append(f"other {other:.1f}%")
    if result["lost"]:
        words.append(" ".join(f"{key} {n}" for key, n in result["lost"].items()))
    print(f"{entry['file']}: {', '.join(words)}")
    for figure, counted, told in result["differences"]:
        print(f"    {figure}: counted {apart(counted, told)}, told {apart(told, counted)}")


FIGURE_GROUPS = (
    ("kernels", ("kernels", "kernel ns", "kernel rows", "busy ns", "windows ns",
                 "busy with kernels ns")),
    ("copies", ("copies", "copy ns", "copy kinds", "copy bytes", "sets", "set ns", "set bytes")),
    ("calls", ("calls", "call ns", "call rows")),
    ("operations", ("operation rows", "range rows", "ranges", "device ranges",
                    "device time of ranges", "device time elsewhere", "host collectives")),
    ("steps", ("steps", "step ns")),
    ("NCCL", ("nccl ns", "nccl beside compute ns")),
    ("memory", ("peak allocated", "peak reserved", "peak on the host", "segments", "reserved",
                "allocated", "allocated in blocks")),
)


def cell(result, figures):
    """Whether a group of figures agrees; empty if the file has none."""
    compared = [f for f in figures if f in result["compared"]]
    if not compared or all(nothing_of(result["counted"][f]) for f in compared):
        return ""
    differ = [f for f, *_ in result["differences"] if f in figures]
    return "differs: " + ", ".join(differ) if differ else "equal"


INTRODUCTION = """# Traces of other people, recounted

Files from public repositories, as moescope reads them, compared with a plain reader that shares no code
with it (`tests/conformance/recount.py`). To regenerate this page:

```
tests/conformance/conform.py FOLDER --list tests/conformance/traces.json --table docs/conformance.md
```

FOLDER holds the files under the names of the first column. The files are not part of this repository; the
list gives the source, commit and SHA-256 of each.

- **kernels**: number and time by name and in total, busy time of each device (the union of kernels,
  copies and sets).
- **copies**: number, bytes and time of copies and sets. **calls**: number and time of runtime and driver
  calls, by name.
- **operations**: number of operations and ranges by name, and the device time of what each launched,
  by the innermost around the call; number and time of host collectives. **steps**: number and times of
  `ProfilerStep`s.
- **NCCL**: its time on each device, and how much of it overlaps other kernels; compared if it is the only
  communication.
- **memory**: highest totals that the allocator reported for each device; for snapshots, the peaks from
  replaying the history, and segments and bytes at the end.
- An empty cell: the file has none. **other**: share of kernel time in the class `other`; kernels that
  authors of CUDA programs named themselves belong there.
"""


def rows_of(entries, results):
    head = ["file", "producer", "source", "licence", *(name for name, _ in FIGURE_GROUPS), "other"]
    yield head
    yield ["---"] * len(head)
    for entry, result in zip(entries, results):
        source = f"{entry.get('repository', '')} {entry.get('commit', '')[:10]}"
        front = [f"`{entry['file']}`", entry.get("producer", ""), source, entry.get("licence", "")]
        if "unread" in result:
            yield front + [result["unread"]] + [""] * len(FIGURE_GROUPS)
            continue
        other = result["other_pct"]
        yield front + [cell(result, figures) for _, figures in FIGURE_GROUPS] + \
            ["" if other is None else f"{other:.1f}%"]


def summary(entries, results):
    read = [r for r in results if "unread" not in r]
    equal = sum(not r["differences"] for r in read)
    figures = sum(len(r["compared"]) for r in read)
    devices = [r["other_pct"] for r in read if r["other_pct"] is not None]
    high = sum(share > OTHER_LIMIT_PCT for share in devices)
    sources = len({entry.get("repository") for entry in entries})
    return (f"{len(entries)} files of {sources} repositories, {figures} figures compared: "
            f"{equal} files equal in all, "
            f"{len(read) - equal} with a difference, {len(entries) - len(read)} not read. "
            f"`other` is above {OTHER_LIMIT_PCT}% of kernel time in {high} of the {len(devices)} "
            "files with kernels.")


def write_table(path, entries, results):
    with open(path, "w", encoding="utf-8") as file:
        file.write(INTRODUCTION + "\n" + summary(entries, results) + "\n\n")
        for row in rows_of(entries, results):
            file.write("| " + " | ".join(c.replace("|", "\\|") for c in row) + " |\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--list", help="what the files are, as JSON")
    parser.add_argument("--table", help="write the page of the documentation")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    args = parser.parse_args()
    entries = entries_of(args.folder, args.list)
    paths = [os.path.join(args.folder, e["file"]) for e in entries]
    missing = [e["file"] for e, path in zip(entries, paths) if not is_listed(e, path)]
    if missing:
        sys.exit(f"{args.folder} lacks {len(missing)} files of the list, or has others of their "
                 f"names: {missing[0]} first")
    with concurrent.futures.ProcessPoolExecutor(args.jobs) as pool:
        results = []
        for entry, result in zip(entries, pool.map(compare, paths)):
            say(entry, result)
            results.append(result)
    print(summary(entries, results))
    if args.table:
        write_table(args.table, entries, results)
    return int(any(r.get("differences") or "unread" in r for r in results))


if __name__ == "__main__":
    sys.exit(main())
