# SPDX-License-Identifier: Apache-2.0
"""moescope mark: moments of a run that is being recorded, marked from outside."""

import glob
import json
import os
import subprocess
import sys

from cli import MOESCOPE, environment, equal, main, moescope, one_sentence, test

# Records nothing until it is told to.
LATE = """
import ctypes, os, sys
sys.stdin.readline()
ctypes.CDLL(sys.argv[1]).moescope_step(1)
print(os.getpid(), flush=True)
sys.stdin.readline()
"""


@test
def marks_follow_the_program():
    """They are on the line of who watches the machine until a process has recorded something, and then on its own; rank 1 is
    sorted behind the marks before."""
    library = os.path.join(os.path.dirname(MOESCOPE), "libmoescope.so")
    with subprocess.Popen([MOESCOPE, "run", "-q", "--no-auto", "-o", "a.mscope", "--", sys.executable, "-c", LATE,
                           library], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          env=environment(RANK="1")) as running:
        while moescope("mark", "a.mscope", "early").status != 0:
            equal(running.poll(), None)
        running.stdin.write("go on\n")
        running.stdin.flush()
        pid = int(running.stdout.readline())
        while not glob.glob(f"a.mscope/1-{pid}.mst"):
            equal(running.poll(), None)
        equal(moescope("mark", "a.mscope", "late").status, 0)
        running.communicate("end\n")
    marks = json.loads(moescope("sql", "--json", "a.mscope", f"select text, pid = {pid} from marks order by time_ns").out)["rows"]
    equal(marks, [["early", 0], ["late", 1]])


@test
def moments_are_marked_from_outside():
    program = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    looking = subprocess.Popen([MOESCOPE, "attach", "-qo", "a.mscope", str(program.pid)])
    try:
        # Until it is there, marks are on the line of who watches the machine.
        while not glob.glob(f"a.mscope/*-{program.pid}-stacks.mst"):
            equal(looking.poll(), None)
        while moescope("mark", "a.mscope", "first").status != 0:
            equal(looking.poll(), None)
        r = moescope("mark", str(program.pid), "a \u202e second")
        equal(r.status, 0, r)
        program.communicate()
        equal(looking.wait(), 0)
    finally:
        program.kill()
        program.wait()
    marks = json.loads(moescope("sql", "--json", "a.mscope",
                                "select text, pid, time_ns from marks order by time_ns").out)["rows"]
    equal([row[0] for row in marks], ["first", "a \u202e second"])
    equal({row[1] for row in marks}, {program.pid})
    one_sentence(moescope("mark", "a.mscope", "late"), 1, "is not being recorded")
    one_sentence(moescope("mark", "b.mscope", "x"), 1, "b.mscope")
    one_sentence(moescope("mark", "a.mscope", ""), 2, "1 to 1024 bytes")
    one_sentence(moescope("mark", "a.mscope"), 2, "RUN|PID TEXT")


# ---- commands


if __name__ == "__main__":
    main()
