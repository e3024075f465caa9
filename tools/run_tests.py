#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs layers of tests and ends with the line 'N passed, N failed'.

A layer is a build and the tests that Meson runs in it; tests/meson.build defines them. Test
programs print one line per test: cmocka's '[       OK ] name' and '[  FAILED  ] name', or 'ok
NAME', 'FAIL NAME: why', 'skip NAME: why'. Meson runs programs; this counts lines. A program that
fails without naming a failed test counts as one.

Two layers run in parallel, so that one computes while the other waits. A layer's output is printed
when it is done. --times ends with where the time went.
"""

import argparse
import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import traceback

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
JOBS = os.cpu_count() or 2
LINES = re.compile(r"^(?:\[\s+(OK|FAILED|SKIPPED)\s+\] ([\w.-]+)|(ok|FAIL|skip) (.+))$", re.M)
# These programs print their findings; the exit status is the result.
ONE_TEST_EACH = ("lint", "tidy", "replay")
# Line numbers in stack traces, with a third less compile time than full debug information.
LINES_ONLY = "-Dc_args=-g1"
# Meson uses ccache automatically only for the compiler that it chooses.
CLANG = {"CC": "ccache clang" if shutil.which("ccache") else "clang"}


class Build:
    """A build directory next to the main one; created once, by the first layer that needs it."""

    def __init__(self, suffix="", options=("-Dwerror=true",), env=None, whole=True):
        self.suffix, self.options, self.env = suffix, options, env
        self.whole = whole  # else Meson builds what the tests need
        self.lock = threading.Lock()
        self.good = None

    def make(self, layer, main):
        self.directory = main + self.suffix
        with self.lock:
            if self.good is None:
                self.good = self.make_now(layer)
        return self.good

    def make_now(self, layer):
        commands = []
        if not os.path.exists(os.path.join(self.directory, "build.ninja")):
            commands.append(["meson", "setup", self.directory, *self.options])
        if self.suffix == "-fuzz":
            commands = [["tests/fuzz/build.sh", self.directory]]
        elif self.whole:
            commands.append(["ninja", "-C", self.directory])
        for command in commands:
            status, output = layer.run(command, self.env)
            if status != 0:
                layer.print(output[-6000:])
                layer.failed.append(" ".join(command[:3]))
                return False
        return True


MAIN = Build()
SANITIZED = ("-Db_lundef=false", "-Doptimization=1", LINES_ONLY)
ASAN = Build("-asan", ("-Db_sanitize=address,undefined", *SANITIZED), whole=False)
TSAN = Build("-tsan", ("-Db_sanitize=thread", *SANITIZED), whole=False)
# Only a compiler and zstd: no BLAS, no cairo, no test library, no man pages, no CUDA headers.
BARE = Build("-bare", ("-Dauto_features=disabled", "-Dgpu_headers=none", "-Dwerror=true",
                       "-Doptimization=1", LINES_ONLY))
SECOND = Build("-clang", ("-Dwerror=true", LINES_ONLY), CLANG)
FUZZ = Build("-fuzz")

# In starting order. The builds are spread among the tests of others.
LAYERS = {
    "unit": (MAIN, ["--suite", "unit"]),
    "asan": (ASAN, ["--suite", "unit", "--suite", "replay", "--suite", "sanitized"]),
    "cli": (MAIN, ["--suite", "cli"]),
    "tsan": (TSAN, ["--suite", "threads"]),
    "python": (MAIN, ["--suite", "together"]),
    "bare": (BARE, ["cli_tables", "cli_plots"]),
    "lab": (MAIN, ["--suite", "lab"]),
    "browser": (MAIN, ["--suite", "browser"]),
    "fault": (MAIN, ["--suite", "fault"]),
    "lint": (MAIN, ["--suite", "lint"]),
    "clang": (SECOND, ["--suite", "unit_trace", "--suite", "unit_probe", "--suite", "unit_tables",
                       "--suite", "unit_base"]),
    "fuzz": (FUZZ, ["--suite", "fuzz"]),
    "tidy": (MAIN, ["--suite", "tidy"]),
    "alone": (MAIN, ["--suite", "alone"]),
}
QUICK = ("unit", "cli", "lint")
# What only a maintainer needs before every commit of others.
FULL = ("clang", "fuzz", "tidy")
# After all others.
ALONE = "alone"


class Layer:
    """What one layer has counted, printed and spent."""

    def __init__(self, name, build, tests):
        self.name, self.build, self.tests = name, build, tests
        self.passed = 0
        self.failed, self.skipped, self.output = [], [], []
        self.programs = []  # (seconds, name)
        self.cpu_s = 0.0
        self.wall_s = 0.0

    def print(self, text):
        self.output.append(text)

    def run(self, command, env=None):
        """Runs a program; returns its status and all its output."""
        with tempfile.TemporaryFile() as out:
            start = time.monotonic()
            child = subprocess.Popen(command, cwd=ROOT, env=dict(os.environ, **(env or {})),
                                     stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            self.cpu_s += usage.ru_utime + usage.ru_stime
            if command[0] != "meson" or "setup" in command:
                self.programs.append((time.monotonic() - start, " ".join(command[:3])))
            out.seek(0)
            return child.returncode, out.read().decode(errors="replace")

    def count(self, test):
        """Counts what one test program printed."""
        suites, _, name = test["name"].rpartition(" / ")
        name = f"{self.name} {name}"
        whole = any(re.search(rf"\b{suite}$", suites) for suite in ONE_TEST_EACH)
        output = "\n".join(filter(None, (test.get("stdout"), test.get("stderr"))))
        good = test["result"] in ("OK", "SKIP")
        failed = seen = 0
        for cmocka, first, own, second in LINES.findall(output):
            verdict, what = cmocka or own, f"{name}: {first or second}"
            seen += 1
            if verdict in ("OK", "ok"):
                self.passed += 1
            elif verdict in ("SKIPPED", "skip"):
                if what not in self.skipped:  # cmocka repeats it at the end
                    self.skipped.append(what)
            else:
                failed += 1
                if what not in self.failed:
                    self.failed.append(what)
        if not good and not failed:
            self.failed.append(f"{name}: {test['result']}, exit status {test['returncode']}")
        elif whole:
            self.passed += not seen
        elif not seen:
            failed = 1
            self.failed.append(f"{name}: ran no test")
        if not good or failed:
            self.print(f"---- {name}\n{output[-20000:]}\n----")
        self.programs.append((test["duration"], name))

    def go(self, main):
        if not self.build.make(self, main):
            return
        if self.name == "python":  # gigabytes, the first time
            status, output = self.run(["tools/python_env.sh"])
            if status != 0:
                self.print(output[-3000:])
                self.failed.append("python environment")
                return
        directory = self.build.directory
        log = os.path.join(directory, "meson-logs", f"{self.name}.json")
        if os.path.exists(log):
            os.remove(log)
        status, output = self.run(["meson", "test", "-C", directory, "--logbase", self.name,
                                   "--num-processes", str(JOBS + 1),
                                   *(["--no-rebuild"] if self.build.whole else []), *self.tests])
        tests = []
        if os.path.exists(log):
            with open(log, encoding="utf-8") as lines:
                tests = [json.loads(line) for line in lines]
        for test in tests:
            self.count(test)
        if not tests or status != 0 and not self.failed:
            self.print(output[-6000:])
            self.failed.append(f"{self.name}: exit status {status} of meson test; "
                               f"'meson test -C {directory} --list' names the tests")

    def report(self, main):
        start = time.monotonic()
        try:
            self.go(main)
        except Exception:  # a defect here must not look like a passing layer
            self.failed.append(f"layer {self.name}")
            self.print(traceback.format_exc())
        self.wall_s = time.monotonic() - start
        print("\n".join([*self.output, f"{self.name}: {self.passed} passed, {len(self.failed)} failed "
                         f"in {self.wall_s:.0f} s"]), flush=True)


def print_times(layers, wall, slowest=40):
    """Where the time went. A build counts for the first layer that needs it."""
    print(f"\n{'CPU s':>8} {'wall s':>8}")
    for layer in layers:
        print(f"{layer.cpu_s:8.1f} {layer.wall_s:8.1f}  layer {layer.name}")
    print(f"{sum(layer.cpu_s for layer in layers):8.1f} {wall:8.1f}  in all, with {JOBS} cores")
    print(f"\n{'wall s':>8}  the slowest {slowest}")
    for seconds, name in sorted((p for layer in layers for p in layer.programs), reverse=True)[:slowest]:
        print(f"{seconds:8.1f}  {name}")
    print()


def chosen(args):
    """The layers to run; other names are tests of the main build."""
    if args.quick:
        names = QUICK
    elif args.only:
        names = args.only.split(",")
    else:
        names = [name for name in LAYERS if args.all or name not in FULL]
    layers = [Layer(name, *LAYERS[name]) for name in LAYERS if name in names]
    tests = [name for name in names if name not in LAYERS]
    return layers + ([Layer("tests", MAIN, tests)] if tests else [])


def main():
    parser = argparse.ArgumentParser(description="Runs the tests.")
    parser.add_argument("--build", default="build", help="build directory")
    parser.add_argument("--quick", action="store_true", help="only " + ", ".join(QUICK))
    parser.add_argument("--all", action="store_true", help="also " + ", ".join(FULL))
    parser.add_argument("--only", help="comma-separated names of tests, or layers: " + ", ".join(LAYERS))
    parser.add_argument("--times", action="store_true", help="say at the end where the time went")
    args = parser.parse_args()
    if not shutil.which("meson"):
        sys.exit("run_tests: meson is not installed; 'make deps' installs what is needed")
    start = time.monotonic()
    main_build = os.path.join(ROOT, args.build)
    layers = chosen(args)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda layer: layer.report(main_build), [x for x in layers if x.name != ALONE]))
    for layer in layers:
        if layer.name == ALONE:
            layer.report(main_build)
    if args.times:
        print_times(layers, time.monotonic() - start)
    for layer in layers:
        for line in layer.skipped:
            print(f"skipped {line}")
    failed = [line for layer in layers for line in layer.failed]
    for line in failed:
        print(f"failed {line}")
    print(f"{sum(layer.passed for layer in layers)} passed, {len(failed)} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
