# SPDX-License-Identifier: Apache-2.0
"""moescope stacks --steps and --range: functions that a program calls only there."""

import json
import pathlib

from cli import check, equal, main, moescope, one_sentence, test
from sampled import any_python, record_stacks, stacks, write

PYTHON = pathlib.Path(__file__).resolve().parents[2] / "python"

STEPS = """import sys, threading, time
sys.path.insert(0, sys.argv[1])
import moescope

def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        for i in range(20000):
            pass

def even():
    spin(0.4)

def odd():
    spin(0.4)

def rest():
    time.sleep(0.4)

def beside():
    over.wait()

over = threading.Event()
thread = threading.Thread(target=beside)
thread.start()
for step in range(6):
    with moescope.range("work"):
        odd() if step % 2 else even()
    with moescope.range("rest"):
        rest()
    moescope.step()
over.set()
thread.join()
"""


def recorded():
    record_stacks(any_python(), write("steps.py", STEPS), str(PYTHON))


def times(*options):
    """Of each function with what it called: on a processor and waiting."""
    found = {}
    for row in stacks("a.mscope", *options)["rows"]:
        name = row["name"].rsplit(" (", 1)[0]
        found[name] = (row["total_cpu_ns"] / 1e9, row["total_wait_ns"] / 1e9)
    return {name: found.get(name, (0, 0)) for name in ("even", "odd", "rest", "beside")}


# A look sees one end of a hundredth of a second, or more on a busy machine.
NEAR = 0.15


@test
def steps_have_what_they_called():
    recorded()
    for step in range(6):
        got = times("--steps", str(step))
        this, other = ("odd", "even") if step % 2 else ("even", "odd")
        check(got[this][0] > 0.2, step, got)
        check(got[other][0] < NEAR, step, got)
        check(got["rest"][1] > 0.2, step, got)
        check(got["beside"][1] > 0.3, step, got)
    every = times()
    check(sum(times("--steps", str(step))["rest"][1] for step in range(6)) <= every["rest"][1] + 1e-6, every)
    equal(times("--steps", "0:"), times("--steps", "0:5"))


@test
def ranges_have_what_they_called():
    recorded()
    work, rest = times("--range", "work"), times("--range", "rest")
    check(work["even"][0] > 0.5 and work["odd"][0] > 0.5, work)
    check(rest["rest"][1] > 1, rest)
    check(work["rest"][1] < 6 * NEAR and rest["even"][0] < 3 * NEAR and rest["odd"][0] < 3 * NEAR, work, rest)
    equal(work["beside"], (0, 0))  # another thread
    one = times("--range", "work", "--steps", "1")
    check(one["odd"][0] > 0.2 and one["even"][0] < NEAR, one)


@test
def what_is_not_there():
    recorded()
    for options in (("--steps", "100:"), ("--range", "nowhere")):
        r = moescope("stacks", "a.mscope", *options)
        equal(r.status, 0, r)
        check("no samples of threads in these steps or ranges" in r.out, r)
        equal(json.loads(moescope("stacks", "a.mscope", "--json", *options).out)["rows"], [])
    one_sentence(moescope("stacks", "a.mscope", "--steps", "x"), 2, "--steps")


main()
