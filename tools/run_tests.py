#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every layer of tests and ends with the line 'N passed, N failed'.

A layer builds what it needs and runs programs that print one line a test: cmocka's
'[       OK ] name' and '[  FAILED  ] name', or 'ok NAME', 'FAIL NAME: why', 'skip NAME: why'.
A program that exits with a failure but names no failed test counts as one.
"""

import argparse
import concurrent.futures
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
JOBS = os.cpu_count() or 2
CMOCKA = re.compile(r"^\[\s+(OK|FAILED|SKIPPED)\s+\] ([\w.-]+)$", re.M)
ASAN = {"ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0",
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"}
LINES = re.compile(r"^(ok|FAIL|skip) (.+)$", re.M)


class Results:
    def __init__(self):
        self.passed = 0
        self.failed = []
        self.skipped = []

    def record(self, name, good, why=""):
        if good:
            self.passed += 1
        else:
            self.failed.append(name)
            print(f"FAIL {name}" + (f": {why}" if why else ""), flush=True)

    def take(self, name, status, output):
        """Counts what one test program printed."""
        failed = 0
        seen = 0
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
            print(f"---- {name}\n{output}\n----", flush=True)


def run(command, timeout=1800, env=None):
    merged = dict(os.environ, **(env or {}))
    try:
        done = subprocess.run(command, cwd=ROOT, env=merged, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace",
                              timeout=timeout)
        return done.returncode, done.stdout
    except subprocess.TimeoutExpired as late:
        out = late.stdout or b""
        return 124, (out if isinstance(out, str) else out.decode(errors="replace")) + \
            f"\ntimed out after {timeout} s"


def build(results, directory, options=(), env=None):
    """Configures (once) and builds; false when that failed."""
    name = "build " + os.path.basename(directory)
    if not os.path.exists(os.path.join(directory, "build.ninja")):
        status, output = run(["meson", "setup", directory, *options], env=env)
        if status != 0:
            print(output)
            results.record(name, False, "meson setup failed")
            return False
    status, output = run(["ninja", "-C", directory])
    if status != 0:
        print(output[-6000:])
    results.record(name, status == 0)
    return status == 0


def unit(results, directory, prefix, only=None, env=None):
    """Runs the unit test programs of a build, several at a time."""
    programs = sorted(p for p in glob.glob(os.path.join(directory, "tests", "test_*"))
                      if os.access(p, os.X_OK) and os.path.isfile(p))
    if only:
        programs = [p for p in programs if re.search(only, os.path.basename(p))]
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        jobs = {p: pool.submit(run, [p], 900, env) for p in programs}
    for program, job in jobs.items():
        status, output = job.result()
        results.take(f"{prefix} {os.path.basename(program)}", status, output)


def fuzz_targets():
    with open(os.path.join(ROOT, "tests", "fuzz", "targets"), encoding="utf-8") as file:
        return file.read().split()


def replay(results, directory):
    """Every kept fuzz input through its target, built with the sanitizers."""
    for target in fuzz_targets():
        inputs = [os.path.join(ROOT, "tests", "fuzz", kind, target) for kind in
                  ("corpus", "regress")]
        status, output = run([os.path.join(directory, "tests", "fuzz-replay-" + target),
                              *filter(os.path.isdir, inputs)], env=ASAN)
        results.record(f"replay fuzz_{target}", status == 0, output[-3000:])


# Beside the test programs, and none themselves.
HELPERS = ("cli.py", "fault.py", "json_schema.py", "planted.py")


def scripts(results, directory, folder, only="", env=None):
    base = {"MOESCOPE": os.path.join(directory, "moescope"), "MOESCOPE_BUILD": directory}
    for script in sorted(glob.glob(os.path.join(ROOT, "tests", folder, "*.py"))):
        if os.path.basename(script) in HELPERS or only not in script:
            continue
        status, output = run([sys.executable, script], env=dict(base, **(env or {})))
        results.take(f"{os.path.basename(directory)} {folder} {os.path.basename(script)}", status,
                     output)


def layer_unit(results, args):
    if build(results, args.build, ["-Dwerror=true"]):
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
                                  "-Doptimization=1"]):
        unit(results, directory, "asan", env=ASAN)
        replay(results, directory)


def layer_tsan(results, args):
    directory = args.build + "-tsan"
    if build(results, directory, ["-Db_sanitize=thread", "-Db_lundef=false",
                                  "-Doptimization=1"]):
        unit(results, directory, "tsan",
             only="probe|ring|shard|tinymoe_train|gpu_(clients|gears|governor|many|sessions|sharing)|"
                  "recorder_(host|life)|base_core|tables_load|gpu_lanes|"
                  "ingest_(intake|kineto|kineto_blocks|nsight|nsight_scan)$|present_perfetto|"
                  "sql_push_down",
             env={"TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1:die_after_fork=0"})


def layer_clang(results, args):
    directory = args.build + "-clang"
    if build(results, directory, ["-Dwerror=true"], env={"CC": "clang"}):
        unit(results, directory, "clang", only="trace|probe|tables|base")


def layer_bare(results, args):
    """Only a compiler and zstd: no BLAS, no cairo, no test library, no man pages, no CUDA headers."""
    directory = args.build + "-bare"
    if build(results, directory, ["-Dauto_features=disabled", "-Dgpu_headers=none",
                                  "-Dwerror=true"]):
        for script in ("test_tables.py", "test_plots.py"):
            scripts(results, directory, "cli", only=script)


def pytest(results, name, python, files, env):
    """Runs test files under pytest and counts by its JUnit report."""
    report = os.path.join(tempfile.mkdtemp(prefix="moescope-pytest-"), "report.xml")
    status, output = run([python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short",
                          f"--junitxml={report}", *files], env=env)
    before, seen = len(results.failed), 0
    if os.path.exists(report):
        for case in xml.etree.ElementTree.parse(report).iter("testcase"):
            test = f"{name} {case.get('classname', '').split('.')[-1]}: {case.get('name')}"
            seen += 1
            if case.find("skipped") is not None:
                results.skipped.append(f"{test}: {case.find('skipped').get('message', '')[:200]}")
            elif case.find("failure") is not None or case.find("error") is not None:
                results.failed.append(test)
            else:
                results.passed += 1
    shutil.rmtree(os.path.dirname(report))
    if status == 5 and seen:  # the whole file is skipped, with its reason
        status = 0
    if status != 0:
        print(f"---- {name}\n{output[-20000:]}\n----", flush=True)
        if len(results.failed) == before:
            results.failed.append(f"{name}: exit status {status}")


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
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        list(pool.map(lambda job: pytest(results, job[0], python, job[1], job[2]), jobs))


def layer_fuzz(results, args):
    directory = args.build + "-fuzz"
    status, output = run(["tests/fuzz/build.sh", directory])
    results.record("build fuzz targets", status == 0, output[-4000:])
    if status == 0:
        status, output = run(["tests/fuzz/run.sh", "20"], env={"MOESCOPE_FUZZ_BUILD": directory})
        results.take("fuzz", status, output)


def layer_lint(results, args):
    if not build(results, args.build):
        return
    for check in ("check_includes.py", "check_format_doc.py", "check_locks.py"):
        status, output = run([sys.executable, os.path.join("tools", check)])
        results.record(f"lint {check}", status == 0, output.strip())
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
    status, output = run(["clang-format", "--dry-run", "-Werror", *sources()])
    results.record("lint clang-format", status == 0, output[:2000])


def lint_tidy(results, directory):
    with open(os.path.join(directory, "compile_commands.json")) as f:
        files = sorted({os.path.normpath(os.path.join(directory, entry["file"]))
                        for entry in json.load(f)})
    files = [f for f in files if os.sep + "src" + os.sep in f]
    # Dealt out like cards: files of one room are equally slow.
    parts = [files[i::JOBS * 4] for i in range(min(JOBS * 4, len(files)))]
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        done = list(pool.map(lambda part: run(["clang-tidy", "-quiet", "-p", directory, *part]),
                             parts))
    bad = [line for status, output in done if status != 0
           for line in output.splitlines() if " error: " in line]
    results.record("lint clang-tidy", all(status == 0 for status, _ in done), "\n".join(bad))


LAYERS = {name[6:]: function for name, function in list(globals().items())
          if name.startswith("layer_")}


def main():
    parser = argparse.ArgumentParser(description="Runs the tests.")
    parser.add_argument("--build", default="build", help="build directory")
    parser.add_argument("--only", help="comma-separated layers: " + ", ".join(LAYERS))
    args = parser.parse_args()
    args.build = os.path.join(ROOT, args.build)
    names = args.only.split(",") if args.only else list(LAYERS)
    unknown = [n for n in names if n not in LAYERS]
    if unknown:
        parser.error(f"no layer '{unknown[0]}'; there are {', '.join(LAYERS)}")
    if not shutil.which("meson"):
        sys.exit("run_tests: meson is not installed; 'make deps' installs what is needed")
    results = Results()
    for name in names:
        start = time.monotonic()
        before = results.passed, len(results.failed)
        LAYERS[name](results, args)
        print(f"{name}: {results.passed - before[0]} passed, "
              f"{len(results.failed) - before[1]} failed in {time.monotonic() - start:.0f} s",
              flush=True)
    for line in results.skipped:
        print(f"skipped {line}")
    for line in results.failed:
        print(f"failed {line}")
    print(f"{results.passed} passed, {len(results.failed)} failed")
    sys.exit(1 if results.failed else 0)


if __name__ == "__main__":
    main()
