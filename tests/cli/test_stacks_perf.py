# SPDX-License-Identifier: Apache-2.0
"""moescope stacks against perf, on the same program: the same functions, with the same shares of its time."""

import math
import re
import shutil
import subprocess

from cli import Skip, check, equal, main, moescope, test
from sampled import stacks, write

TRIES = 4
# By their names: what part of the time each has, in halves of a percent.
WEIGHTS = (44, 34, 28, 22, 18, 16, 12, 10, 8, 6, 1, 1)

FUNCTION = """__attribute__((noinline)) static void part_%d(void)
{
	for (int i = 0; i < %d; i++)
		sink++;
}
"""

PROGRAM = """#include <time.h>
static volatile unsigned long sink;
%s
int main(void)
{
	while (clock() < 4 * CLOCKS_PER_SEC) {
		for (int i = 0; i < 20; i++) {
%s
		}
	}
	return 0;
}
"""


def build():
    parts = [FUNCTION % (i, 2000 * weight) for i, weight in enumerate(WEIGHTS)]
    calls = [f"\t\t\tpart_{i}();" for i in range(len(WEIGHTS))]
    write("parts.c", PROGRAM % ("\n".join(parts), "\n".join(calls)))
    try:
        built = subprocess.run(["cc", "-O0", "-fno-omit-frame-pointer", "-o", "parts", "parts.c"],
                               capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise Skip("no C compiler is here") from None
    equal(built.returncode, 0, built.stderr)


def by_perf():
    """Percent by function."""
    if not shutil.which("perf"):
        raise Skip("perf is not here")
    r = subprocess.run(["perf", "record", "-q", "-e", "cpu-clock:u", "-F", "997", "-o", "perf.data", "./parts"],
                       capture_output=True, text=True, check=False)
    if r.returncode:
        raise Skip(f"perf does not work here: {r.stderr.strip()[:200]}")
    r = subprocess.run(["perf", "report", "-i", "perf.data", "--sort", "symbol", "--stdio"],
                       capture_output=True, text=True, check=False)
    equal(r.returncode, 0, r.stderr)
    return {name: float(pct) for pct, name in re.findall(r"^ *([\d.]+)% +\[\.\] (part_\d+)", r.stdout, re.M)}


def by_moescope():
    r = moescope("run", "--stacks", "--stacks-rate=1000", "-q", "-f", "-o", "a.mscope", "--", "./parts")
    equal(r.status, 0, r)
    rows = [row for row in stacks("a.mscope")["rows"] if row["name"].startswith("part_")]
    if not rows:
        raise Skip(f"no native stacks here: {moescope('stacks', 'a.mscope').out}")
    whole = stacks("a.mscope")["total"]["cpu_ns"]
    return {row["name"].split(" ")[0]: 100 * row["cpu_ns"] / whole for row in rows}, \
        sum(row["samples"] for row in rows)


def compare():
    perf = by_perf()
    own, looks = by_moescope()
    worst = 0
    for name in sorted(perf, key=perf.get)[-10:]:
        share = perf[name] / 100
        # Each look is a draw, and so is each sample of perf: four deviations, at least 2 points.
        allowed = max(2, 400 * math.sqrt(share * (1 - share) * (1 / looks + 1 / 4000)))
        worst = max(worst, abs(own.get(name, 0) - perf[name]))
        check(abs(own.get(name, 0) - perf[name]) <= allowed, name, own, perf)
    print(f"# ten largest: {worst:.1f} points apart at most, {looks} looks", flush=True)
    check(looks >= 100, looks)
    largest = {f"part_{i}" for i in range(8)}
    check(largest <= set(sorted(own, key=own.get)[-10:]), own)


@test
def shares_are_those_of_perf():
    """In one of a few tries: the two look at the program one after the other, and others take its processors now and then."""
    build()
    for left in reversed(range(TRIES)):
        try:
            compare()
            return
        except AssertionError:
            if not left:
                raise


main()
