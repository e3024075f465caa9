#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every allocation of the profiler fails in turn, and all from each on: the program ends as it
would without a profiler. MOESCOPE_ALLOCATIONS: how many (200)."""

import os
import shutil
import subprocess
import tempfile

from fault import (PATIENCE_S, VICTIM, built, check, environment, finish, read, skip,
                   victim_without_profiler)

FAILMALLOC = built("libfailmalloc.so")
LIMIT = int(os.environ.get("MOESCOPE_ALLOCATIONS", "200"))
EXPECTED = victim_without_profiler()


def run_victim(folder, **extra):
    """Problems of one run, its count file, and the run."""
    run = os.path.join(folder, "run.mscope")
    count = os.path.join(folder, "count")
    shutil.rmtree(run, ignore_errors=True)
    os.mkdir(run)
    done = subprocess.run([VICTIM], env=environment(MOESCOPE_RUN=run, LD_PRELOAD=FAILMALLOC,
                                                    FAIL_COUNT=count, MOESCOPE_RING_KB=64, **extra),
                          capture_output=True, timeout=PATIENCE_S)
    problems = []
    if done.returncode != 7:
        problems.append(f"exit status {done.returncode}: {done.stderr.decode().strip()[-300:]}")
    if done.stdout != EXPECTED:
        problems.append(f"output {done.stdout!r}")
    calls, failed = (int(word) for word in open(count, encoding="ascii").read().split())
    return problems, calls, failed, run


def readable(run):
    """A run of which anything was written opens."""
    if not any(name.endswith(".mst") for name in os.listdir(run)):
        return []
    tables, problems = read(run)
    if tables and any(t["twice"] for t in tables["threads"]):
        problems.append("records twice")
    return problems


def sanitized():
    """Sanitizers bring their own allocator, which a preloaded one cannot stand before."""
    with open(VICTIM, "rb") as f:
        program = f.read()
    return b"__asan_init" in program or b"__tsan_init" in program


def main():
    if sanitized():
        skip("allocation failures", "a sanitizer's allocator is in the build")
        return
    folder = tempfile.mkdtemp(prefix="moescope-memory-")
    try:
        problems, calls, _, run = run_victim(folder)
        tables, found = read(run)
        problems += found
        if tables and sum(t["n"] for t in tables["threads"]) + tables["loss"]["dropped_ring_full"] \
                < 80000:
            problems.append(f"records are missing without a failure: {tables}")
        check(f"no failure ({calls} allocations)", problems)
        for mode in ("FAIL_AT", "FAIL_FROM"):
            problems = []
            injected = 0
            for n in range(1, LIMIT + 1):
                if n > calls + 20: # nothing is left to fail
                    break
                found, _, failed, run = run_victim(folder, **{mode: n})
                found += readable(run)
                injected += failed
                problems += [f"{mode}={n}: {p}" for p in found]
            if not injected:
                problems.append("nothing was made to fail")
            check(f"allocation failures, {mode} ({injected} injected)", problems)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    finish()


main()
