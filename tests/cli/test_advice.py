# SPDX-License-Identifier: Apache-2.0
"""Programs with a planted problem: the first verdict names it, and what it advises helps.

Times are medians over the steps of a run. On a busy machine a pair of runs can differ for other
reasons, so that a pair counts when one of a few shows the gain. Advice to do two things at once can
only be tried where two cores are free; where they are not, the verdict alone is checked.
"""

import json
import os
import subprocess
import time

from cli import (MOESCOPE, OF_OTHERS, PATIENCE_S, TINYMOE, Skip, check, environment, equal, main,
                 moescope, need, test)

EXAMPLES = os.path.join(os.path.dirname(MOESCOPE), "examples", "advice")
TRIES = 3
# Experts wide enough to matter, each token to one of them: a collapsed router leaves one thread
# with all of the work.
COLLAPSING = ["--steps", "24", "--layers", "2", "--width", "32", "--heads", "2", "--experts", "4",
              "--top-k", "1", "--expert-width", "512", "--batch", "8", "--context", "32",
              "--threads", "2"]


def example(name):
    path = os.path.join(EXAMPLES, "advice_" + name)
    need(path)
    return path


def report(path, *words):
    done = subprocess.run([MOESCOPE, "run", "-q", "-o", path, "--", *words], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE_S,
                          env=environment(OPENBLAS_NUM_THREADS=1), check=False)
    equal(done.returncode, 0)
    shown = moescope("report", path, "--json")
    equal(shown.status, 0)
    return json.loads(shown.out), done.stdout


def median_ns(document):
    return document["steps"]["total"]["time"]["p50_ns"]


def idle_cores():
    """How many of all, while nothing of this test runs."""
    def idle_ticks():
        with open("/proc/stat", encoding="ascii") as f:
            return int(f.readline().split()[4])
    begin, before = time.monotonic(), idle_ticks()
    time.sleep(0.5)
    return (idle_ticks() - before) / os.sysconf("SC_CLK_TCK") / (time.monotonic() - begin)


def two_cores_free():
    """Nobody else works, and two programs at once take not much longer than one."""
    if idle_cores() < 1.5:
        return False
    def seconds(n):
        begin = time.monotonic()
        children = [subprocess.Popen([example("loader"), "12"], stdout=subprocess.DEVNULL,
                                     env=environment()) for _ in range(n)]
        for child in children:
            equal(child.wait(timeout=PATIENCE_S), 0)
        return time.monotonic() - begin
    return seconds(2) < 1.25 * seconds(1)


def first_verdict(document):
    """On a busy machine steps vary and processors are taken away, whatever the program does."""
    of_machine = {"step-variation", "slow-start"} | OF_OTHERS
    return [v for v in document["verdicts"] if v["id"] not in of_machine][0]


def helps(verdict_id, bad, fixed, parallel=False):
    """The verdict comes first, and the fixed program is faster by at least half of its gain."""
    seen = []
    for attempt in range(TRIES):
        before, said_before = report(f"bad-{attempt}.mscope", *bad)
        first = first_verdict(before)
        equal(first["id"], verdict_id)
        equal(first["severity"], "critical")
        if first["gain_pct"] is None:
            # One thread was always quicker than the other: nothing to compare it with.
            check(parallel and first["gain_pct_reason"], "a gain, or why there is none")
            continue
        check(first["gain_pct"] >= 5, f"a gain worth the change, not {first['gain_pct']}")
        check(first["advice"] and first["gain_assumption"], "advice and its assumption")
        after, said_after = report(f"fixed-{attempt}.mscope", *fixed)
        won = 100 * (1 - median_ns(after) / median_ns(before))
        if won >= first["gain_pct"] / 2:
            return said_before, said_after
        if parallel and not two_cores_free():
            raise Skip("the verdict is right, but no two cores are free to try its advice")
        seen.append((round(first["gain_pct"], 1), round(won, 1)))
    # A machine that seldom runs two threads at once cannot win by a second one either.
    if not seen or (parallel and 2 * len(seen) <= TRIES):
        raise Skip("the verdict is right, but mostly only one thread had work")
    raise AssertionError(f"half of the gain of {verdict_id} is won; (gain, won): {seen}")


@test
def a_loader_that_is_late():
    said_before, said_after = helps("data-loading", [example("loader")],
                                    [example("loader"), "--cached"])
    equal(said_before, said_after)


@test
def a_loader_beside_the_work():
    said_before, said_after = helps("data-loading", [example("loader")],
                                    [example("loader"), "--fixed"], parallel=True)
    equal(said_before, said_after)


@test
def a_router_that_has_collapsed():
    need(TINYMOE)
    helps("router-collapsed", [TINYMOE, "--collapse", *COLLAPSING], [TINYMOE, *COLLAPSING],
          parallel=True)


@test
def a_leak():
    before, said_before = report("bad.mscope", example("leak"))
    after, said_after = report("fixed.mscope", example("leak"), "--fixed")
    leak = [v for v in before["verdicts"] if v["id"] == "memory-leak"][0]
    check("graph of the loss" in leak["title"], leak["title"])
    equal(leak["evidence"]["bytes_per_step"], 65536 * 4)
    equal(first_verdict(before)["id"], "memory-leak")
    check(leak["gain_pct"] is None and leak["gain_pct_reason"], "a leak is no matter of time")
    check(not [v for v in after["verdicts"] if v["id"] == "memory-leak"], "no leak any more")
    peaks = [d["memory"]["rows"][0]["peak_allocated_bytes"] for d in (before, after)]
    check(peaks[1] * 20 < peaks[0], "the peak is that of one step")
    equal(said_before, said_after)


if __name__ == "__main__":
    main()
