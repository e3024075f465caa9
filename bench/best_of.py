# SPDX-License-Identifier: Apache-2.0
"""best_of.py NAME KERNELS RUN COMMAND...: one row of bench/report.sh, the best of three runs.

Wall and CPU time and the peak resident memory of the command, as the system counts them.
"""
import json
import os
import subprocess
import sys
import time

TIMES = 3


def events(moescope, run):
    """Kernels, calls, ranges and operations of the run: the rows of its chunks."""
    kinds = ("kernel", "api", "range", "op")
    total = 0
    for name in os.listdir(run):
        if name.endswith(".mst"):
            dump = subprocess.run([moescope, "dump", "--json", os.path.join(run, name)], check=True,
                                  capture_output=True)
            total += sum(row["records"] for row in json.loads(dump.stdout)["rows"]
                         if row["kind"] in kinds)
    return total


def once(command):
    """(wall seconds, CPU seconds, KiB) of one run of the command."""
    start = time.monotonic()
    with open(os.devnull, "wb") as nowhere:
        process = subprocess.Popen(command, stdout=nowhere)
        _, status, usage = os.wait4(process.pid, 0)
    wall = time.monotonic() - start
    if status:
        sys.exit(f"best_of.py: {' '.join(command)} ended with status {status}")
    return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss


def main():
    name, kernels, run, *command = sys.argv[1:]
    total = events(command[0], run)
    results = [once(command) for _ in range(TIMES)]
    wall, cpu = min(r[0] for r in results), min(r[1] for r in results)
    peak = max(r[2] for r in results) / 1024
    print(f"{name:<14} {int(kernels):>12} {total:>12} {wall:>10.3f} {cpu:>10.3f} "
          f"{total / wall:>14.0f} {peak:>10.0f}", flush=True)


if __name__ == "__main__":
    main()
