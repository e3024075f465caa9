#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every layer of tests and ends with the line 'N passed, N failed'.

A layer builds what it needs and runs programs that print one line a test: cmocka's
'[       OK ] name' and '[  FAILED  ] name', or 'ok NAME', 'FAIL NAME: why', 'skip NAME: why'.
A program that exits with a failure but names no failed test counts as one.

Layers run side by side: the tests of one while the next is built. What a layer has to say is printed
when it is done. --times ends with where the time went: CPU time, and time that was spent waiting.
"""

import argparse
import concurrent.futures
import contextlib
import glob
import heapq
import itertools
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import xml.etree.ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
JOBS = os.cpu_count() or 2
CMOCKA = re.compile(r"^\[\s+(OK|FAILED|SKIPPED)\s+\] ([\w.-]+)$", re.M)
ASAN = {"ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0",
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"}
# Lines in stack traces, and a third less time in the compiler than with all that a debugger wants.
LINES_ONLY = "-Dc_args=-g1"
LINES = re.compile(r"^(ok|FAIL|skip) (.+)$", re.M)


# Who goes first when there is not room for all, and how much room one takes. A build takes more than
# half, so that there is one at a time; most tests wait more than they compute, and take little.
BUILD, TEST, LINT, LAST = range(4)
ROOM = 2 * JOBS + 1
WHOLE_BUILD = JOBS + 1
BUSY = 2


class Slots:
    """Room for programs: first by rank, then by layer, then by who came first."""

    def __init__(self, room):
        self.free = room
        self.changed = threading.Condition()
        self.waiting = []
        self.count = itertools.count()

    @contextlib.contextmanager
    def take(self, room, rank):
        with self.changed:
            ticket = (rank, Layer.current().number, next(self.count))
            heapq.heappush(self.waiting, ticket)
            self.changed.wait_for(lambda: self.waiting[0] == ticket and self.free >= room)
            heapq.heappop(self.waiting)
            self.free -= room
            self.changed.notify_all()
        try:
            yield
        finally:
            with self.changed:
                self.free += room
                self.changed.notify_all()


SLOTS = Slots(ROOM)


class Layer:
    """What one layer has counted, printed and spent. A thread belongs to one layer."""

    thread = threading.local()

    def __init__(self, name, number):
        self.name = name
        self.number = number
        self.passed = 0
        self.failed = []
        self.skipped = []
        self.output = []
        self.times = []  # (wall, CPU, what)
        self.lock = threading.Lock()

    @classmethod
    def current(cls):
        return cls.thread.layer

    def enter(self):
        Layer.thread.layer = self

    def print(self, text):
        self.output.append(text)

    def record(self, name, good, why=""):
        with self.lock:
            if good:
                self.passed += 1
            else:
                self.failed.append(name)
                self.print(f"FAIL {name}" + (f": {why}" if why else ""))

    def take(self, name, status, output):
        """Counts what one test program printed."""
        failed = 0
        seen = 0
        with self.lock:
            for verdict, test in CMOCKA.findall(output) + LINES.findall(output):
                seen += 1
                if verdict in ("OK", "ok"):
                    self.passed += 1
                elif verdict in ("SKIPPED", "skip"):
                    self.skipped.append(f"{name}: {test}")
                else:
                    failed += 1
                    if f"{name}: {test}" not in self.failed:
                        self.failed.append(f"{name}: {test}")
            if status != 0 and not failed:
                failed = 1
                self.failed.append(f"{name}: exit status {status}")
            elif not seen:
                failed = 1
                self.failed.append(f"{name}: ran no test")
            if failed:
                self.print(f"---- {name}\n{output}\n----")

    def each(self, function, jobs):
        """The function for every job, as many at once as there is room for; results in order."""
        with concurrent.futures.ThreadPoolExecutor(ROOM, initializer=self.enter) as pool:
            return list(pool.map(function, jobs))


def run(command, timeout=1800, env=None, room=1, rank=TEST, name=None):
    """Runs a program when there is room for it; its status and all that it printed."""
    with SLOTS.take(room, rank), tempfile.TemporaryFile() as out:
        start = time.monotonic()
        child = subprocess.Popen(command, cwd=ROOT, env=dict(os.environ, **(env or {})),
                                 stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
        ended = os.pidfd_open(child.pid)
        late = not select.select([ended], [], [], timeout)[0]
        os.close(ended)
        if late:
            os.kill(child.pid, signal.SIGKILL)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        Layer.current().times.append((time.monotonic() - start, usage.ru_utime + usage.ru_stime,
                                      name or os.path.basename(command[0])))
        out.seek(0)
        output = out.read().decode(errors="replace")
    if late:
        return 124, output + f"\ntimed out after {timeout} s"
    return child.returncode, output


BUILDS = {}
BUILDS_LOCK = threading.Lock()


def build(results, directory, options=("-Dwerror=true",), env=None, only=None):
    """Configures and builds, once for all layers; only: the test programs wanted. False when that
    failed."""
    with BUILDS_LOCK:
        first = directory not in BUILDS
        lock = BUILDS.setdefault(directory, {"lock": threading.Lock(), "good": None})
    with lock["lock"]:
        if lock["good"] is None:
            lock["good"] = build_now(results, directory, options, env, only)
    results.record("build " + os.path.basename(directory), lock["good"],
                   "" if first else "said once, by the first layer that needs it")
    return lock["good"]


def build_now(results, directory, options, env, only):
    name = os.path.basename(directory)
    if not os.path.exists(os.path.join(directory, "build.ninja")):
        status, output = run(["meson", "setup", directory, *options], env=env, rank=BUILD,
                             name="meson setup " + name)
        if status != 0:
            results.print(output)
            return False
    targets = []
    if only:
        listed = run(["ninja", "-C", directory, "-t", "targets", "all"], rank=BUILD)[1]
        targets = [t for t in re.findall(r"^(tests/test_\w+): ", listed, re.M)
                   if re.search(only, os.path.basename(t))]
    status, output = run(["ninja", "-C", directory, f"-j{JOBS}", *targets], room=WHOLE_BUILD,
                         rank=BUILD, name="ninja " + name)
    if status != 0:
        results.print(output[-6000:])
    return status == 0


def unit(results, directory, prefix, only=None, env=None):
    """Runs the unit test programs of a build, several at a time."""
    programs = sorted(p for p in glob.glob(os.path.join(directory, "tests", "test_*"))
                      if os.access(p, os.X_OK) and os.path.isfile(p))
    if only:
        programs = [p for p in programs if re.search(only, os.path.basename(p))]

    def one(program):
        name = f"{prefix} {os.path.basename(program)}"
        results.take(name, *run([program], env=env, name=name))

    results.each(one, programs)


def fuzz_targets():
    with open(os.path.join(ROOT, "tests", "fuzz", "targets"), encoding="utf-8") as file:
        return file.read().split()


def replay(results, directory):
    """Every kept fuzz input through its target, built with the sanitizers."""
    def one(target):
        inputs = [os.path.join(ROOT, "tests", "fuzz", kind, target) for kind in
                  ("corpus", "regress")]
        name = f"replay fuzz_{target}"
        status, output = run([os.path.join(directory, "tests", "fuzz-replay-" + target),
                              *filter(os.path.isdir, inputs)], env=ASAN, name=name)
        results.record(name, status == 0, output[-3000:])

    results.each(one, fuzz_targets())


# Beside the test programs, and none themselves.
HELPERS = ("cli.py", "experiments.py", "fault.py", "json_schema.py", "planted.py")
# These try whether advice makes a program faster: beside others they could only skip that.
ALONE = ("test_advice.py",)


def scripts(results, directory, folder, only="", env=None):
    base = {"MOESCOPE": os.path.join(directory, "moescope"), "MOESCOPE_BUILD": directory}
    found = [script for script in sorted(glob.glob(os.path.join(ROOT, "tests", folder, "*.py")))
             if os.path.basename(script) not in HELPERS and only in script]

    def one(script):
        name = f"{os.path.basename(directory)} {folder} {os.path.basename(script)}"
        alone = os.path.basename(script) in ALONE
        results.take(name, *run([sys.executable, script], env=dict(base, **(env or {})), name=name,
                                room=ROOM if alone else 1, rank=LAST if alone else TEST))

    results.each(one, found)


def layer_unit(results, args):
    if build(results, args.build):
        unit(results, args.build, "unit")


def layer_cli(results, args):
    if build(results, args.build):
        scripts(results, args.build, "cli")


def layer_fault(results, args):
    if build(results, args.build):
        scripts(results, args.build, "fault")


def layer_lab(results, args):
    """Experiments with what they meet outside: servers, Slurm, MPI."""
    if build(results, args.build):
        scripts(results, args.build, "lab", only="/lab/test_")


def layer_asan(results, args):
    directory = args.build + "-asan"
    if build(results, directory, ["-Db_sanitize=address,undefined", "-Db_lundef=false",
                                  "-Doptimization=1", LINES_ONLY]):
        unit(results, directory, "asan", env=ASAN)
        replay(results, directory)


# What has threads, and what they run through.
TSAN = ("probe|ring|shard|tinymoe_train|gpu_(clients|gears|governor|many|sessions|sharing)|"
        "recorder_(host|life)|base_core|tables_load|gpu_lanes|"
        "ingest_(intake|kineto|kineto_blocks|nsight|nsight_scan)$|present_perfetto|sql_push_down")


def layer_tsan(results, args):
    directory = args.build + "-tsan"
    if build(results, directory, ["-Db_sanitize=thread", "-Db_lundef=false", "-Doptimization=1",
                                  LINES_ONLY], only=TSAN):
        unit(results, directory, "tsan", only=TSAN,
             env={"TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1:die_after_fork=0"})


def layer_clang(results, args):
    directory = args.build + "-clang"
    # Meson takes ccache by itself only for the compiler that it chooses.
    clang = "ccache clang" if shutil.which("ccache") else "clang"
    if build(results, directory, ["-Dwerror=true", LINES_ONLY], env={"CC": clang}):
        unit(results, directory, "clang", only="trace|probe|tables|base")


def layer_bare(results, args):
    """Only a compiler and zstd: no BLAS, no cairo, no test library, no man pages, no CUDA headers."""
    directory = args.build + "-bare"
    if build(results, directory, ["-Dauto_features=disabled", "-Dgpu_headers=none",
                                  "-Dwerror=true", LINES_ONLY]):
        for script in ("test_tables.py", "test_plots.py"):
            scripts(results, directory, "cli", only=script)


def pytest(results, name, python, files, env):
    """Runs test files under pytest and counts by its JUnit report."""
    report = os.path.join(tempfile.mkdtemp(prefix="moescope-pytest-"), "report.xml")
    status, output = run([python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short",
                          f"--junitxml={report}", *files], env=env, room=BUSY, name=name)
    failed, seen = 0, 0
    with results.lock:
        if os.path.exists(report):
            for case in xml.etree.ElementTree.parse(report).iter("testcase"):
                test = f"{name} {case.get('classname', '').split('.')[-1]}: {case.get('name')}"
                seen += 1
                if case.find("skipped") is not None:
                    why = case.find("skipped").get("message", "")[:200]
                    results.skipped.append(f"{test}: {why}")
                elif case.find("failure") is not None or case.find("error") is not None:
                    results.failed.append(test)
                    failed += 1
                else:
                    results.passed += 1
        if status == 5 and seen:  # the whole file is skipped, with its reason
            status = 0
        if status != 0:
            results.print(f"---- {name}\n{output[-20000:]}\n----")
            if not failed:
                results.failed.append(f"{name}: exit status {status}")
    shutil.rmtree(os.path.dirname(report))


def layer_python(results, args):
    if not build(results, args.build):
        return
    status, output = run(["tools/python_env.sh"])
    results.record("python environment", status == 0, output[-3000:])
    if status != 0:
        return
    folder = output.strip().splitlines()[-1]
    python = os.path.join(folder, "bin", "python")
    path = os.path.join(ROOT, "python")
    env = {"PYTHONPATH": path, "MOESCOPE_BUILD": args.build, "OMP_NUM_THREADS": "1",
           "PYTHONDONTWRITEBYTECODE": "1", "HF_HUB_OFFLINE": "1", "MPLBACKEND": "Agg"}
    files = sorted(glob.glob(os.path.join(ROOT, "tests", "python", "**", "test_*.py"),
                             recursive=True))
    older = dict(env, PYTHONPATH=os.pathsep.join([os.path.join(folder, "transformers4"), path]))
    jobs = [("python " + os.path.basename(f)[5:-3], [f], env) for f in files]
    # What looks into models must hold for both generations of the library.
    jobs += [("transformers 4 " + os.path.basename(f)[5:-3], [f], older) for f in files
             if "routing_families" in f]
    results.each(lambda job: pytest(results, job[0], python, job[1], job[2]), jobs)


def layer_fuzz(results, args):
    directory = args.build + "-fuzz"
    status, output = run(["tests/fuzz/build.sh", directory], room=WHOLE_BUILD, rank=BUILD,
                         name="build fuzz targets")
    results.record("build fuzz targets", status == 0, output[-4000:])
    if status == 0:
        def one(target):
            name = f"fuzz {target}"
            results.take(name, *run(["tests/fuzz/run.sh", "20", target], room=BUSY, name=name,
                                    env={"MOESCOPE_FUZZ_BUILD": directory}))

        results.each(one, fuzz_targets())


def layer_lint(results, args):
    if not build(results, args.build):
        return
    for check in ("check_includes.py", "check_format_doc.py", "check_locks.py"):
        status, output = run([sys.executable, os.path.join("tools", check)], name=check)
        results.record(f"lint {check}", status == 0, output.strip())
    status, output = run([sys.executable, os.path.join("tools", "check_symbols.py"), args.build],
                         name="check_symbols.py")
    results.record("lint check_symbols.py", status == 0, output.strip())
    lint_format(results)
    lint_tidy(results, args.build)


def sources():
    found = []
    for folder in ("src", "include", "bench", "tests", "examples"):
        for base, _, names in os.walk(os.path.join(ROOT, folder)):
            found += [os.path.join(base, n) for n in names if n.endswith((".c", ".h", ".cu", ".cuh"))]
    return sorted(found)


def lint_format(results):
    """Versions of clang-format differ in taste; the files follow version 14 (Debian 12)."""
    version = run(["clang-format", "--version"])[1]
    if " 14." not in version:
        results.skipped.append(f"lint clang-format: wants version 14, this is {version.strip()}")
        return
    status, output = run(["clang-format", "--dry-run", "-Werror", *sources()], room=BUSY, rank=LINT)
    results.record("lint clang-format", status == 0, output[:2000])


def lint_tidy(results, directory):
    """clang-tidy reads a file once for each way in which it is compiled; what differs only in the
    program that it is linked into is one way."""
    with open(os.path.join(directory, "compile_commands.json"), encoding="utf-8") as f:
        entries = json.load(f)
    ways = {}
    for entry in entries:
        file = os.path.normpath(os.path.join(directory, entry["file"]))
        macros = frozenset(re.findall(r"-D\S+", entry["command"]))
        if os.sep + "src" + os.sep in file:
            ways.setdefault((file, macros), entry)
    files = sorted({file for file, _ in ways})
    # Dealt out like cards: files of one room are equally slow.
    parts = [files[i::JOBS * 16] for i in range(min(JOBS * 16, len(files)))]
    with tempfile.TemporaryDirectory(prefix="moescope-tidy-") as folder:
        with open(os.path.join(folder, "compile_commands.json"), "w", encoding="utf-8") as f:
            json.dump(list(ways.values()), f)
        done = results.each(lambda part: run(["clang-tidy", "-quiet", "-p", folder, *part],
                                             room=BUSY, rank=LINT), parts)
    bad = [line for status, output in done if status != 0
           for line in output.splitlines() if " error: " in line]
    results.record("lint clang-tidy", all(status == 0 for status, _ in done), "\n".join(bad))


LAYERS = {name[6:]: function for name, function in list(globals().items())
          if name.startswith("layer_")}


def run_layer(layer, args):
    layer.enter()
    start = time.monotonic()
    try:
        LAYERS[layer.name](layer, args)
    except Exception:  # a defect here must not look like a layer that passed
        layer.record(f"layer {layer.name}", False, traceback.format_exc())
    for text in layer.output:
        print(text)
    print(f"{layer.name}: {layer.passed} passed, {len(layer.failed)} failed in "
          f"{time.monotonic() - start:.0f} s", flush=True)


def print_times(layers, wall, slowest=40):
    """Where the time went. A build counts for the first layer that needs it."""
    total = sum(cpu for layer in layers for _, cpu, _ in layer.times)
    print(f"\n{'CPU s':>8} {'waits s':>8}")
    for layer in layers:
        cpu = sum(t[1] for t in layer.times)
        waits = sum(max(0.0, t[0] - t[1]) for t in layer.times)
        print(f"{cpu:8.1f} {waits:8.1f}  layer {layer.name}")
    print(f"{total:8.1f} {'':8}  in all, in {wall:.0f} s with {JOBS} cores")
    print(f"\n{'CPU s':>8} {'wall s':>8}  the slowest {slowest}")
    programs = [(max(t[0], t[1]), *t) for layer in layers for t in layer.times]
    for _, took, cpu, name in sorted(programs, reverse=True)[:slowest]:
        print(f"{cpu:8.1f} {took:8.1f}  {name}")
    print()


def main():
    parser = argparse.ArgumentParser(description="Runs the tests.")
    parser.add_argument("--build", default="build", help="build directory")
    parser.add_argument("--only", help="comma-separated layers: " + ", ".join(LAYERS))
    parser.add_argument("--times", action="store_true", help="say at the end where the time went")
    args = parser.parse_args()
    args.build = os.path.join(ROOT, args.build)
    names = args.only.split(",") if args.only else list(LAYERS)
    unknown = [n for n in names if n not in LAYERS]
    if unknown:
        parser.error(f"no layer '{unknown[0]}'; there are {', '.join(LAYERS)}")
    if not shutil.which("meson"):
        sys.exit("run_tests: meson is not installed; 'make deps' installs what is needed")
    start = time.monotonic()
    layers = [Layer(name, number) for number, name in enumerate(names)]
    threads = [threading.Thread(target=run_layer, args=(layer, args), daemon=True)
               for layer in layers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if args.times:
        print_times(layers, time.monotonic() - start)
    for line in itertools.chain.from_iterable(layer.skipped for layer in layers):
        print(f"skipped {line}")
    failed = list(itertools.chain.from_iterable(layer.failed for layer in layers))
    for line in failed:
        print(f"failed {line}")
    print(f"{sum(layer.passed for layer in layers)} passed, {len(failed)} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
