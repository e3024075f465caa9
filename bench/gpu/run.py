#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What profiling costs on this machine's GPU: run.py MOESCOPE [ALTERNATIONS]

Trains the benchmark model bare, under moescope and under torch.profiler in turn, in processes of
their own, and prints the median step of each and the differences with their range.
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
MOESCOPE = os.path.abspath(sys.argv[1])
ALTERNATIONS = int(sys.argv[2]) if len(sys.argv) > 2 else 5


def train(arguments, run=None):
    command = [sys.executable, os.path.join(HERE, "train.py"), *arguments]
    if run:
        command = [MOESCOPE, "run", "-q", "-o", run, "--", *command]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])["median_ms"]


def bench(label, arguments, methods, folder):
    times = {name: [] for name in methods}
    for i in range(ALTERNATIONS):
        for name in methods if i % 2 == 0 else reversed(methods):
            extra = [] if name in ("none", "moescope") else ["--profiler", name]
            run = os.path.join(folder, f"{label}-{i}.mscope") if name == "moescope" else None
            times[name].append(train([*arguments, *extra], run))
    base = statistics.median(times["none"])
    print(f"\n{label}: bare {base:.2f} ms a step "
          f"({min(times['none']):.2f} to {max(times['none']):.2f})")
    for name in methods[1:]:
        pairs = [100 * (b / a - 1) for a, b in zip(times["none"], times[name])]
        print(f"  {name:12} {statistics.median(times[name]):8.2f} ms  "
              f"{statistics.median(pairs):+6.2f}%  ({min(pairs):+.2f} to {max(pairs):+.2f})",
              flush=True)


def main():
    with tempfile.TemporaryDirectory() as folder:
        bench("GPU-bound training, batch 32x1024", ["--batch", "32", "--steps", "20"],
              ["none", "moescope", "torch-cuda"], folder)
        bench("launch-bound training, batch 8x1024", ["--batch", "8", "--steps", "40"],
              ["none", "moescope"], folder)


if __name__ == "__main__":
    main()
