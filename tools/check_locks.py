#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that every static lock of the probe is in the list that a forked child reinitialises: mutexes
and conditions of src/probe are declared by PROBE_LOCK and PROBE_CONDITION (src/probe/core/locks.h). And that nobody
there waits by the wall clock, which somebody may set back.

usage: check_locks.py [ROOT]
Prints one line per violation and exits 1; exits 0 silently if there is none.
"""
import pathlib
import re
import sys

LIST = "locks.h"
UNLISTED = re.compile(r"PTHREAD_\w*(MUTEX|COND|RWLOCK)\w*_INITIALIZER\w*"
                      r"|\bstatic\b[^;(]*\b(pthread_(mutex|cond|rwlock|spinlock)_t|sem_t)\b")


def offences(root):
    for path in sorted((root / "src" / "probe").rglob("*.[ch]")):
        if path.name == LIST:
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if UNLISTED.search(line):
                yield f"{path.relative_to(root)}:{number}: a lock outside the list of {LIST}"
            if "CLOCK_REALTIME" in line:
                yield f"{path.relative_to(root)}:{number}: the wall clock; clock_deadline and clock_monotonic_ns are for waiting"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else
                        pathlib.Path(__file__).resolve().parent.parent)
    found = list(offences(root))
    for line in found:
        print(line)
    sys.exit(1 if found else 0)


main()
