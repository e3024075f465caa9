#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Advice on a real device: advice_check.py BUILD [--only NAME,NAME]

Runs each problem of examples/advice/cuda_bad.py as it is and fixed. The first verdict must be
the planted one, and the mean step shorter by at least half of the predicted gain. Prints 'ok NAME'
or 'FAIL NAME: why' with the figures, and ends with 'N passed, N failed'.
"""
import argparse
import json
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)
from check import Checks, Skip  # noqa: E402

PROGRAM = [sys.executable, os.path.join(ROOT, "examples", "advice", "cuda_bad.py")]
VERDICTS = {"loader": "gpu-starved-data", "tiny": "gpu-starved-launch",
            "pageable": "transfer-bound", "sync": "gpu-starved-sync", "clocks": "clock-throttled"}
LOW_CLOCKS = "345,900"
ENV = {"PYTHONPATH": os.pathsep.join(
    [os.path.join(ROOT, "python"), *filter(None, [os.environ.get("PYTHONPATH")])])}


def report(checks, *words):
    path = checks.new_path()
    checks.must(checks.run(*checks.under(path, *PROGRAM, *words), limit=180, env=ENV))
    done = checks.must(checks.run(checks.moescope, "report", path, "--json"))
    return json.loads(done.stdout)


def mean_ns(document):
    return document["steps"]["total"]["time"]["mean_ns"]


def limits(document):
    """What may precede the planted verdict is not about the program's speed."""
    return [v for v in document["verdicts"] if v["id"] != "profiler-cost"]


def with_low_clocks(checks, name):
    """The report of a run with locked clocks, which only an administrator may lock."""
    done = checks.run("nvidia-smi", "-lgc", LOW_CLOCKS)
    if done.returncode != 0:
        raise Skip(f"clocks cannot be locked here: {(done.stdout + done.stderr).strip()}")
    try:
        return report(checks, name)
    finally:
        checks.must(checks.run("nvidia-smi", "-rgc"))


def check_problem(checks, name):
    bad = with_low_clocks(checks, name) if name == "clocks" else report(checks, name)
    fixed = report(checks, name, "--fixed")
    first = limits(bad)[0]
    gain = first["gain_pct"] or 0
    won = 100 * (1 - mean_ns(fixed) / mean_ns(bad))
    figures = (f"{first['id']} first, gain {gain:.1f}%, won {won:.1f}% "
               f"({mean_ns(bad) / 1e6:.2f} to {mean_ns(fixed) / 1e6:.2f} ms)")
    checks.check(f"{name}: the verdict", first["id"] == VERDICTS[name],
                 f"{figures}; all: {[(v['id'], v['gain_pct']) for v in bad['verdicts']]}")
    checks.check(f"{name}: half of the gain is won", gain >= 5 and won >= gain / 2, figures)
    print(f"   {figures}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("--only", default=",".join(VERDICTS), help="names, separated by commas")
    args = parser.parse_args()
    names = args.only.split(",")
    if set(names) - set(VERDICTS):
        parser.error(f"there is only {', '.join(VERDICTS)}")
    with tempfile.TemporaryDirectory() as folder:
        checks = Checks(args.build, folder)
        return checks.each(names, check_problem)


if __name__ == "__main__":
    sys.exit(main())
