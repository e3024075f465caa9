# SPDX-License-Identifier: Apache-2.0
"""What the fault tests share. MOESCOPE_BUILD is the build directory: moescope, libmoescope.so,
and fault-victim, fault-reader, libfailmalloc.so there or in its tests folder."""

import json
import os
import subprocess
import sys

BUILD = os.path.abspath(os.environ.get("MOESCOPE_BUILD", "build"))


def built(name):
    for folder in (BUILD, os.path.join(BUILD, "tests"), os.path.join(BUILD, "tests", "fault")):
        if os.path.exists(os.path.join(folder, name)):
            return os.path.join(folder, name)
    sys.exit(f"{name}: not in {BUILD}; build it first, or set MOESCOPE_BUILD")


# For a program that hangs. On a busy machine all take long, so that less would say nothing.
PATIENCE_S = 600
MOESCOPE = built("moescope")
VICTIM = built("fault-victim")
READER = built("fault-reader")
_failures = 0


def environment(**extra):
    """The test's own, without anything that a surrounding profiler set."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("MOESCOPE_")}
    env["LD_LIBRARY_PATH"] = BUILD + os.pathsep * bool(env.get("LD_LIBRARY_PATH")) + env.get(
        "LD_LIBRARY_PATH", "")
    env.update({k: str(v) for k, v in extra.items()})
    return env


def ok(name):
    print(f"ok {name}", flush=True)


def skip(name, why):
    print(f"skip {name}: {why}", flush=True)


def fail(name, why):
    global _failures
    _failures += 1
    print(f"FAIL {name}: {why}", flush=True)


def check(name, problems):
    """One line for a test: what is wrong, or ok."""
    if problems:
        fail(name, "; ".join(problems[:5]))
    else:
        ok(name)


def finish():
    sys.exit(1 if _failures else 0)


def victim_without_profiler():
    """Exit status and output as they must always be."""
    done = subprocess.run([VICTIM], env=environment(), capture_output=True, timeout=PATIENCE_S)
    assert done.returncode == 7, done
    return done.stdout


def report(run):
    """The report as JSON, and what is wrong with it."""
    done = subprocess.run([MOESCOPE, "report", run, "--json"], env=environment(),
                          capture_output=True, timeout=PATIENCE_S)
    if done.returncode != 0:
        return None, [f"report exits with {done.returncode}: {done.stderr.decode().strip()}"]
    try:
        return json.loads(done.stdout), []
    except ValueError as error:
        return None, [f"the report is not JSON: {error}"]


def read(run):
    """The tables as fault-reader sees them, and what is wrong with them."""
    done = subprocess.run([READER, run], env=environment(), capture_output=True, timeout=PATIENCE_S)
    if done.returncode != 0:
        return None, [f"the tables do not load ({done.returncode}): {done.stderr.decode().strip()}"]
    return json.loads(done.stdout), []
