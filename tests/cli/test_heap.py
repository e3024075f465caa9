# SPDX-License-Identifier: Apache-2.0
"""moescope run --heap and moescope heap: sums against programs that know theirs, leaks by name, and programs that must not
notice anything."""

import json
import math
import os
import pathlib
import subprocess

from cli import MOESCOPE, Skip, check, environment, equal, main, moescope, one_sentence, test
from sampled import has_lock, pythons, write

BUILD = os.environ.get("MOESCOPE_BUILD", os.path.dirname(MOESCOPE))
PROGRAM = os.path.join(BUILD, "tests", "heap-program")
DISTANCE = 512 << 10
SIGMAS = 5
TRIES = 3

LEAK = """import time

kept = []
small = {}


def remembers(i):
    kept.append(bytearray(200000))


def remembers_small(i):
    small[i] = [float(k) for k in range(20000)]


def forgets():
    return sum(len(bytearray(100000)) for _ in range(10))


def main():
    begin = time.monotonic()
    i = 0
    while time.monotonic() < begin + 3 or i < 300:
        forgets()
        LEAKS(i)
        time.sleep(0.004)
        i += 1


main()
print("done")
"""


def record(*words, options=(), status=0, **kwargs):
    r = moescope("run", "--heap", "-q", "-f", "-o", "a.mscope", *options, "--", *words, **kwargs)
    equal(r.status, status, r)
    return r


def heap(*options, run="a.mscope"):
    r = moescope("heap", run, "--json", "--limit", "0", *options)
    equal(r.status, 0, r)
    return json.loads(r.out)


def by_name(rows):
    return {row["name"].split(" ")[0]: row for row in rows}


def rows_of(document):
    return document["rows"] if "rows" in document else document["heap"]


def verdicts():
    r = moescope("report", "a.mscope", "--json")
    equal(r.status, 0, r)
    return [v for v in json.loads(r.out)["verdicts"] if v["id"] == "heap-leak"]


@test
def sums_are_those_of_the_program():
    """Of each site within five standard deviations: an allocation of s bytes that is sampled with probability p has the
    variance s * s * (1 - p) / p. The figures themselves must be more than start-up or chance."""
    out = record(PROGRAM, "truth").out
    truth = dict(line.split() for line in out.splitlines())
    found = by_name(rows_of(heap("--by-function")))
    sizes = {"site_small": 64, "site_medium": 10000, "site_large": 1 << 20, "site_grown": 30000, "site_aligned": 8192}
    for site, bytes_ in truth.items():
        total, size = int(bytes_), sizes[site]
        chance = -math.expm1(-size / DISTANCE)
        sigma = math.sqrt(total / size * size * size * (1 - chance) / chance)
        check(abs(found[site]["allocated_bytes"] - total) < SIGMAS * sigma, site, total, sigma, found[site])
        # Half of it was kept; what grew was moved, and the block before was freed.
        kept = total / 2 * (30 / 31 if site == "site_grown" else 1)
        check(abs(found[site]["live_bytes"] - kept) < SIGMAS * sigma, site, kept, sigma, found[site])
        check(SIGMAS * sigma < total, "the test says nothing", site, sigma)
    total = found["main"]["total_allocated_bytes"]
    check(total >= sum(found[site]["allocated_bytes"] for site in truth), found["main"])


@test
def a_finer_distance_has_more_samples():
    record(PROGRAM, "truth", "30", options=["--heap-kb", "8"])
    fine = heap()["total"]["samples"]
    record(PROGRAM, "truth", "30")
    coarse = heap()["total"]["samples"]
    check(fine > 4 * coarse > 0, fine, coarse)


def record_leak(*words):
    """It grows evenly only where others let it: a program that stood still for long is tried again."""
    for _ in range(TRIES):
        r = record(*words)
        found = verdicts()
        if found:
            break
    return r, found


@test
def a_leak_of_c_is_named():
    _, found = record_leak(PROGRAM, "leak", "30")
    rows = by_name(rows_of(heap()))
    check(rows["forgotten"]["growth_bytes_per_s"] > 0, rows["forgotten"])
    for site in ("cached", "start_up", "main"):
        equal(rows[site]["growth_bytes_per_s"], None, rows[site])
    equal(len(found), 1, found)
    check("forgotten (heap-program)" in found[0]["title"] and "a minute" in found[0]["title"], found)


@test
def leaks_of_python_are_named():
    """Large objects come from malloc, small ones from blocks that Python maps. Without the global lock Python has an
    allocator of its own for all."""
    for python, version in [known for known in pythons() if has_lock(known[0])]:
        for function in ("remembers", "remembers_small"):
            program = write("leak.py", LEAK.replace("LEAKS", function))
            r, found = record_leak(python, program)
            equal(r.out, "done\n")
            equal(len(found), 1, found, version)
            check(f"{function} (leak.py" in found[0]["title"] and "leak.py" in found[0]["title"], found, version)
            rows = rows_of(heap("--by-function"))
            forgets = [row for row in rows if row["name"].startswith("forgets")]
            check(forgets and all(row["growth_bytes_per_s"] is None for row in forgets), forgets, version)


@test
def programs_do_not_notice():
    for words in (["facts"], ["threads", "200"], ["signals"], ["children"], ["exit"], ["truth", "50"]):
        bare = subprocess.run([PROGRAM, *words], stdout=subprocess.PIPE, text=True, check=False)
        r = record(PROGRAM, *words, status=bare.returncode)
        equal(r.out, bare.stdout, words)
        check(heap()["total"]["samples"] > 0, words)
        check(not list(pathlib.Path("a.mscope").glob("*.heap")), words)


@test
def a_kill_loses_nothing():
    r = record(PROGRAM, "killed", status=-9)
    equal(r.out, "now\n")
    rows = by_name(rows_of(heap()))
    total = 200 * 100000
    sigma = math.sqrt(200) * 100000 * math.sqrt(math.exp(-100000 / DISTANCE) / -math.expm1(-100000 / DISTANCE))
    check(abs(rows["forgotten"]["live_bytes"] - total) < SIGMAS * sigma, rows, sigma)


@test
def limits_leave_the_program_alone():
    """Without room for its file, or numbers for it, the library stays out."""
    bare = subprocess.run([PROGRAM, "facts"], stdout=subprocess.PIPE, text=True, check=False)
    for limit in ("ulimit -S -f 1", "ulimit -S -n 20", "ulimit -S -n 5"):
        r = record("/bin/sh", "-c", f"{limit}; exec {PROGRAM} facts", status=bare.returncode)
        equal(r.out, bare.stdout, limit)
        names = [row["name"] for row in rows_of(heap())]
        check(not any("heap-program" in name for name in names), limit, names)


@test
def a_full_disk_leaves_the_program_alone():
    pathlib.Path("small").mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", "small"], stderr=subprocess.DEVNULL,
                             check=False)
    if mounted.returncode != 0:
        raise Skip("cannot mount a tmpfs (not root)")
    try:
        r = moescope("run", "--heap", "-q", "-o", "small/a.mscope", "--", PROGRAM, "facts")
        equal(r.status, 7, r)
        check("no allocations are recorded" in r.err, r)
    finally:
        subprocess.run(["umount", "small"], check=True)


@test
def what_cannot_be_sampled_is_said():
    for name, words in (("heap-static", "linked statically"), ("heap-asan", "sanitizer")):
        program = os.path.join(BUILD, "tests", name)
        if not os.path.exists(program):
            continue
        bare = subprocess.run([program, "truth", "5"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                              env=environment(ASAN_OPTIONS="detect_leaks=0"), check=False)
        r = moescope("run", "--heap", "-q", "-f", "-o", "a.mscope", "--", program, "truth", "5",
                     env=environment(ASAN_OPTIONS="detect_leaks=0"))
        equal((r.status, r.out), (bare.returncode, bare.stdout), r)
        check("'--heap' is left out" in r.err and words in r.err, r)
        # One that the program starts goes on, too.
        r = moescope("run", "--heap", "-q", "-f", "-o", "a.mscope", "--", "/bin/sh", "-c", f"{program} truth 5; exit 3",
                     env=environment(ASAN_OPTIONS="detect_leaks=0"))
        equal((r.status, r.out), (3, bare.stdout), r)


@test
def nothing_is_loaded_without_the_option():
    shown = ["/bin/sh", "-c", "echo ${LD_PRELOAD-none} ${MOESCOPE_HEAP-none}"]
    r = moescope("run", "-q", "-f", "-o", "a.mscope", "--", *shown)
    equal(r.out, "none none\n", r)
    # An outer run's is not the inner one's, and what others have there stays.
    outer = [MOESCOPE, "run", "--heap", "-q", "-f", "-o", "b.mscope", "--", MOESCOPE, "run", "-q", "-f", "-o", "a.mscope",
             "--", *shown]
    r = subprocess.run(outer, stdout=subprocess.PIPE, text=True, env=environment(LD_PRELOAD="libm.so.6"), check=False)
    equal(r.stdout, "libm.so.6 none\n")
    r = record(*shown, env=environment(LD_PRELOAD="libm.so.6"))
    check(r.out.startswith(BUILD) and r.out.split()[0].endswith("libmoescope-heap.so:libm.so.6"), r)


@test
def steps_and_ranges_choose():
    """By allocation, whoever frees it."""
    record(PROGRAM, "truth", "20")
    equal(rows_of(heap("--range", "nothing")), [])


@test
def a_run_without_samples_says_how():
    equal(moescope("run", "-q", "-o", "a.mscope", "--", "/bin/true").status, 0)
    r = moescope("heap", "a.mscope")
    equal(r.status, 0, r)
    check("moescope run --heap" in r.out, r)
    r = moescope("run", "--heap", "--heap-kb", "0", "--", "/bin/true")
    one_sentence(r, 2, "--heap-kb")


@test
def other_forms():
    record(PROGRAM, "truth", "100")
    r = moescope("export", "a.mscope", "--to", "folded-heap", "-o", "-")
    equal(r.status, 0, r)
    lines = dict(line.rsplit(" ", 1) for line in r.out.splitlines())
    peak = heap()["total"]["peak_bytes"]
    equal(sum(int(n) for n in lines.values()), peak)
    check(any(";site_large (heap-program)" in line for line in lines), lines)
    r = moescope("sql", "a.mscope", "select sum(bytes * (1 - 2 * event)) as live from heap_samples", "--json")
    equal(json.loads(r.out)["rows"][0][0], heap()["total"]["live_bytes"], r)


if __name__ == "__main__":
    main()
