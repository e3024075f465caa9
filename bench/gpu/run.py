#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The overhead and output of profiling on this machine's GPU, as one table.

run.py BUILD [--only NAME,NAME] [--alternations N] [--quick] [--time-limit SECONDS] [--json FILE]
             [--fresh] [--list] [--table]

Each measurement is a process of its own; the methods of a row run in turn, in alternating order.
Results are written to the JSON file after every measurement, and a later call resumes where the
previous one stopped (--fresh restarts), so rows can be measured in several calls. The table of all
that is in the file comes last, as Markdown on standard output; progress is on standard error.
"""
import argparse
import os
import platform
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import rows_cost  # noqa: E402
import rows_keep  # noqa: E402
from harness import Bench, Failed, OutOfTime, Skipped, say  # noqa: E402

# In the order of the table: name -> (measure, lines).
ROWS = {**rows_cost.ROWS, **rows_keep.ROWS}


def machine():
    found = {"date": time.strftime("%Y-%m-%d %H:%M:%S"), "kernel": platform.release(),
             "cpus": os.cpu_count(), "python": platform.python_version()}
    queries = {
        "gpu": ["nvidia-smi", "--query-gpu=name,driver_version,memory.total,clocks.sm",
                "--format=csv,noheader"],
        "torch": [sys.executable, "-c",
                  "import torch, transformers; print(torch.__version__, transformers.__version__)"],
    }
    for key, command in queries.items():
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=90)
            found[key] = done.stdout.strip() if done.returncode == 0 else \
                "unknown: " + done.stderr.strip()[-300:]
        except (OSError, subprocess.TimeoutExpired) as error:
            found[key] = f"unknown: {error}"
    return found


def measure_rows(bench, names):
    for name in names:
        row = bench.row(name)
        row["errors"] = []
        row.pop("skipped", None)
        say(f"{name}  ({bench.left():.0f} s left)")
        try:
            ROWS[name][0](bench)
        except Skipped as why:
            row["skipped"] = str(why)
            say(f"  skipped: {why}")
        except OutOfTime:
            row["errors"].append("the time limit came first")
            say("  the time limit came first")
        except Failed as why:
            row["errors"].append(str(why))
            say(f"  failed: {why}")
        bench.save()


def print_table(bench):
    m = bench.results["machine"]
    print(f"\n{m.get('gpu', 'GPU unknown')}; torch {m.get('torch', 'unknown')}; "
          f"{m.get('cpus')} CPUs; {m.get('date')}\n")
    print("| what | asked | measured | |")
    print("|---|---|---|---|")
    for name, (_, lines) in ROWS.items():
        row = bench.results["rows"].get(name)
        if row is None:
            continue
        if row.get("skipped"):
            print(f"| {name} | | not measured: {row['skipped']} | |")
            continue
        try:
            found = lines(bench)
        except (KeyError, IndexError, ValueError, ZeroDivisionError, TypeError) as error:
            found = [(name, "", f"no result: {type(error).__name__}: {error}", None)]
        for what, asked, measured, met in found:
            word = {True: "met", False: "**missed**", None: ""}[met]
            print(f"| {what} | {asked} | {measured} | {word} |")
        for error in row["errors"]:
            print(f"| {name} | | trouble: {error.splitlines()[0][:200]} | |")
    print(f"\nEvery figure: {bench.json_path}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0],
                                     epilog="rows: " + ", ".join(ROWS))
    parser.add_argument("build")
    parser.add_argument("--only", help="these rows alone, by name, with commas")
    parser.add_argument("--alternations", type=int, help="rounds of each row (6; --quick: 2)")
    parser.add_argument("--quick", action="store_true", help="shorter runs, fewer rounds")
    parser.add_argument("--time-limit", type=float, default=7200, help="seconds for everything")
    parser.add_argument("--json", help="where results are kept (BUILD/gpu-bench.json)")
    parser.add_argument("--fresh", action="store_true", help="forget what is in the JSON file")
    parser.add_argument("--list", action="store_true", help="print the rows' names and end")
    parser.add_argument("--table", action="store_true", help="print the table, measure nothing")
    args = parser.parse_args()
    if args.list:
        print("\n".join(ROWS))
        return
    names = args.only.split(",") if args.only else list(ROWS)
    unknown = [name for name in names if name not in ROWS]
    if unknown:
        parser.error(f"there is no row '{unknown[0]}'; the rows are {', '.join(ROWS)}")
    path = os.path.abspath(args.json or os.path.join(args.build, "gpu-bench.json"))
    if args.fresh and os.path.exists(path):
        os.remove(path)
    bench = Bench(args.build, path, args.alternations or (2 if args.quick else 6), args.quick,
                  args.time_limit)
    if not args.table:
        if not os.path.exists("/dev/nvidia0"):
            print("gpu-bench: no NVIDIA GPU on this machine (/dev/nvidia0 is not there); "
                  "nothing measured.")
            return
        if not os.path.exists(bench.moescope):
            sys.exit(f"gpu-bench: there is no {bench.moescope}; build it with 'make'.")
        bench.results["machine"] = machine()
        bench.save()
        measure_rows(bench, names)
    print_table(bench)


if __name__ == "__main__":
    main()
