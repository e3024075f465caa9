#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that end, fork and are interrupted in unusual ways (life.c): with the profiler they end
with the same status, print the same and leave the same files. What they recorded is in the run, and
what they could not record is counted there. MOESCOPE_ONLY: one scenario."""

import os
import shutil
import signal
import subprocess
import tempfile

from fault import MOESCOPE, PATIENCE_S, built, check, environment, finish, read

LIFE = built("fault-life")

# Marks and ranges that must be in the run, calls of children that must be counted.
RECORDED = {
    "pthread_exit": (1, 1, 0),
    "SYS_exit": (1, 1, 0),
    "pthread_exit-thread": (2, 2, 0),
    "SYS_exit-thread": (2, 2, 0),
    "blocked-sigterm": (1, 1, 0),
    "fork": (2, 3, 5),
    "clone": (2, 3, 5),
    "_Fork": (2, 3, 5),
    "clone-no-call": (1, 1, 0),
    "clone-pthread_exit": (1, 1, 3),
    "tsc": (0, 0, 0),
    "tsc-calls": (0, 0, 0),
    "tsc-thread": (2, 2, 0),
    "seccomp": (1, 1, 0),
}
NO_CLOCK = {"tsc-calls": 5, "tsc-thread": 5}
# Killed by SIGTERM, as they are without the profiler: the run is salvaged.
SALVAGED = {"pthread_exit-sigterm": (2, 2, 0), "SYS_exit-handler": (2, 2, 0)}


def end_of(command, folder):
    """Status and output; None: it never ended."""
    process = subprocess.Popen(command, cwd=folder, env=environment(), stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               start_new_session=True)
    try:
        output, errors = process.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return None
    return process.returncode, output, errors


def files_in(folder):
    return sorted(os.path.relpath(os.path.join(base, name), folder)
                  for base, _, names in os.walk(folder) for name in names)


def problems_of_run(scenario, run):
    tables, problems = read(run)
    if problems:
        return problems
    loss = tables["loss"]
    allowed = {"dropped_in_child", "dropped_no_clock", "salvaged", "total"}
    if scenario in ("clone-threads", "fork-threads", "signals"):
        allowed |= {"dropped_ring_full", "dropped_in_signal", "unfinished", "dropped_names",
                    "dropped_unbalanced"}
    problems += [f"loss: {k} {v}" for k, v in loss.items() if v and k not in allowed]
    wanted = RECORDED.get(scenario) or SALVAGED.get(scenario)
    if wanted:
        got = (tables["rows"]["mark"], tables["rows"]["range"], loss["dropped_in_child"])
        if got != wanted:
            problems.append(f"marks, ranges and calls of children are {got}, not {wanted}")
    if loss["dropped_no_clock"] != NO_CLOCK.get(scenario, 0):
        problems.append(f"{loss['dropped_no_clock']} calls without a clock are counted")
    if scenario in RECORDED and tables["closed"] != 2: # its shard, and that of the machine
        problems.append("the run was not closed")
    return problems


def compare(scenario):
    folder = tempfile.mkdtemp(prefix="life-")
    bare, profiled = os.path.join(folder, "bare"), os.path.join(folder, "profiled")
    run = os.path.join(folder, "run.mscope")
    for path in (bare, profiled):
        os.mkdir(path)
    try:
        want = end_of([LIFE, scenario], bare)
        got = end_of([MOESCOPE, "run", "-q", "-o", run, "--", LIFE, scenario], profiled)
        if want is None or got is None:
            return [("with" if want else "without") + " the profiler it does not end"]
        want_status = want[0] if want[0] >= 0 else 128 - want[0]
        problems = []
        if want[0] < 0 and scenario != "pthread_exit-sigterm": # with the library, but no session
            problems.append(f"signal {-want[0]} ends it without the profiler")
        if got[0] not in (want[0], want_status):
            problems.append(f"status {got[0]} and not {want[0]}: {got[2].decode()[-300:]}")
        if got[1] != want[1]:
            problems.append(f"output {got[1]!r} and not {want[1]!r}")
        if scenario != "fork-threads" and files_in(bare) != files_in(profiled):
            problems.append(f"files {files_in(profiled)} and not {files_in(bare)}")
        return problems + problems_of_run(scenario, run)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main():
    names = subprocess.run([LIFE], env=environment(), capture_output=True, text=True,
                           check=True).stdout.split()
    for name in names:
        if os.environ.get("MOESCOPE_ONLY", name) == name:
            check(f"life {name}", compare(name))
    finish()


main()
