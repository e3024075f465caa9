# SPDX-License-Identifier: Apache-2.0
"""moescope run --stacks and moescope stacks: against what programs say of themselves.

No program asks for its own processor time often: the kernel likes to change threads just then, so that
looks from outside would find it in that call too often.
"""

import glob
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
import types

from cli import Skip, check, equal, main, moescope, one_sentence, test
from sampled import any_python, pythons, record_stacks, stacks, write

TRIES = 3 # at what other programs can spoil

# Who may call whom. "" stands for the standard library.
CALLS = {
    "": {"Tree.walk", "errors", "numbers"},
    "<module>": {"run", "Tree", ""},
    "Tree": set(),
    "run": {"Tree.walk", ""},
    "Tree.walk": {"Tree.walk", "Tree.leaf", "enough"},
    "Tree.leaf": {"Tree.leaf.<locals>.nested"},
    "Tree.leaf.<locals>.nested": set(),
    "errors": {"fall", "enough"},
    "fall": {"fall", "land"},
    "land": set(),
    "numbers": {"numbers.<locals>.<genexpr>", "numbers.<locals>.<lambda>", "chain", "enough"},
    "numbers.<locals>.<genexpr>": {"chain"},
    "numbers.<locals>.<lambda>": {"square"},
    "chain": {"chain", "square"},
    "square": set(),
    "enough": set(),
}

GRAPH = """import sys, threading, time


class Tree:
    def walk(self, depth, top=True):
        while True:
            for _ in range(200 if top else 2):
                if depth:
                    self.walk(depth - 1, False)
                else:
                    self.leaf()
            if not top or enough():
                return

    def leaf(self):
        def nested(n):
            return n * n
        for i in range(5):
            nested(i)


def fall(depth):
    try:
        if depth == 0:
            land()
        fall(depth - 1)
    except KeyError:
        raise ValueError(depth) from None
    finally:
        depth = None


def land():
    raise KeyError("here")


def errors():
    while not enough():
        for i in range(2000):
            try:
                fall(i % 7)
            except ValueError:
                pass


def square(n):
    return n * n


def chain(depth):
    if depth:
        yield from chain(depth - 1)
    for i in range(3):
        yield square(i)


def numbers():
    while not enough():
        for _ in range(300):
            sum(a + b for a in range(3) for b in chain(5))
            sorted(range(20), key=lambda n: square(n))


def enough():
    return time.process_time() > 2.5


def run():
    threads = []
    for function in (errors, numbers):
        threads.append(threading.Thread(target=function))
        threads[-1].start()
    Tree().walk(5)
    for thread in threads:
        thread.join()


run()
"""

# In place of functions that could not be read.
FAST = "(changing too fast to be read)"


def facts(run):
    """What the page says of processes."""
    r = moescope("stacks", run)
    equal(r.status, 0, r)
    return re.findall(r"^  process \d+: (.*)$", r.out, re.M)


def totals(run):
    """Time on a processor of each function with what it called, by its name alone."""
    times = {}
    for row in stacks(run)["rows"]:
        name = row["name"].rsplit(" (", 1)[0]
        times[name] = times.get(name, 0) + row["total_cpu_ns"]
    return times


# ---- Python stacks

def functions(code, prefix=""):
    """Of a code object and those in it, qualified names and first lines. 3.9 has no co_qualname."""
    name = prefix + code.co_name
    yield name, code.co_firstlineno
    is_function = code.co_flags & 1
    inside = "" if name == "<module>" else name + (".<locals>." if is_function else ".")
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from functions(constant, inside)


def labels(qualified):
    """As moescope writes them: the names of CALLS by label."""
    found = {}
    for name, line in functions(compile(GRAPH, "graph.py", "exec")):
        check(name in CALLS, f"{name} is not in the graph")
        found[f"{name if qualified else name.split('.')[-1]} (graph.py:{line})"] = name
    equal(len(found), len(CALLS) - 1)
    return found


def is_python(label):
    """Native ones have no line."""
    return re.search(r" \(.*:\d+\)$", label)


def impossible(stack, known):
    """Why a program of CALLS cannot have that stack, or None."""
    names = [n for n in stack.split(";") if is_python(n) or n == FAST]
    if names[-1] == FAST:
        names.pop()
    names = [known.get(n, n if "graph.py" in n else "") for n in names]
    if names and names[0] and names[0] != "<module>":
        return f"begins with {names[0]}"
    for outer, inner in zip(names, names[1:]):
        if inner in CALLS and inner in CALLS.get(outer, ()) or outer == inner == "":
            continue
        return f"{outer or 'the library'} does not call {inner or 'the library'}"
    # From the library only a thread's first function is called.
    left = [i for i, name in enumerate(names) if not name]
    if "<module>" in names and left and any(names[left[0]:]):
        return "the library calls it"
    return None


@test
def every_python_stack_is_possible():
    for python, (_, minor) in pythons():
        known = labels(minor >= 11)
        record_stacks(python, write("graph.py", GRAPH))
        told = facts("a.mscope")
        check(any(fact.startswith(f"functions of Python 3.{minor}") for fact in told), told)
        rows = stacks("a.mscope", "--by-stack")["rows"]
        looks = wrong = fast = 0
        first = None
        seen = set()
        for row in rows:
            frames = row["name"].split(";")
            # Native functions come before the interpreter is up and after a thread has left it.
            if frames[-1] != FAST and not any(map(is_python, frames)):
                continue
            looks += row["samples"]
            fast += row["samples"] if frames[-1] == FAST else 0
            why = impossible(row["name"], known)
            if why:
                wrong += row["samples"]
                first = first or f"{why}: {row['name']}"
            seen.update(known.get(f) for f in frames)
        print(f"# Python 3.{minor}, {python}: {looks - wrong} of {looks} looks possible "
              f"({100 * (looks - wrong) / max(looks, 1):.3f}%), {fast} changed too fast", flush=True)
        check(looks >= 50, f"{looks} looks")
        check(wrong <= looks / 1000, f"3.{minor}: {wrong} of {looks} looks", first)
        check(fast <= looks / 20, f"3.{minor}: {fast} of {looks} changed too fast")
        missing = {"Tree.walk", "fall", "chain", "run"} - seen
        check(not missing, f"3.{minor}: never seen: {missing}")


# ---- times

TIMES = """
import json, os, threading, time

def heavy():
    for i in range(3600000):
        pass

def light():
    for i in range(1200000):
        pass

def short_heavy():
    for i in range(600):
        pass

def short_light():
    for i in range(200):
        pass

def cost(function, times):
    start = time.thread_time()
    for _ in range(times):
        function()
    return time.thread_time() - start

def sleeper():
    time.sleep(100000)

def shorts():
    for _ in range(2000):
        short_heavy()
        short_light()

def alone(function):
    return cost(function, 500)

threading.Thread(target=sleeper, daemon=True).start()
own = dict.fromkeys(("heavy", "light"), 0)
while sum(own.values()) < 2.5:
    own["heavy"] += cost(heavy, 1)
    own["light"] += cost(light, 1)
end = time.thread_time() + 1.5
while time.thread_time() < end:
    shorts()
# The least of many: another guest of the machine may take time that counts here.
one = other = 1e9
for _ in range(20):
    one, other = min(one, alone(short_heavy)), min(other, alone(short_light))
own["short_share"] = 100 * one / (one + other)
own["cpu"] = sum(os.times()[:2])
print(json.dumps(own))
"""


def thread_time_is_the_kernels(run, own):
    """Sums of all kinds of rows are the total, and that is what the program says."""
    total = stacks(run)["total"]
    for option in ([], ["--by-thread"], ["--by-stack"]):
        rows = stacks(run, *option)["rows"]
        for field in ("samples", "cpu_ns", "ready_ns", "wait_ns"):
            equal(sum(row[field] for row in rows), total[field], option, field)
    ratio = total["cpu_ns"] / 1e9 / own["cpu"]
    print(f"# {ratio:.3f} of the program's own processor time", flush=True)
    check(0.9 <= ratio <= 1.1, f"{total['cpu_ns']} of {own['cpu']} s")


@test
def times_are_the_programs_own():
    own = json.loads(record_stacks(any_python(), write("times.py", TIMES)))
    thread_time_is_the_kernels("a.mscope", own)
    times = totals("a.mscope")

    wanted = 100 * own["heavy"] / (own["heavy"] + own["light"])
    got = 100 * times["heavy"] / (times["heavy"] + times["light"])
    print(f"# heavy: {got:.1f}%, by itself {wanted:.1f}%", flush=True)
    check(abs(got - wanted) <= 5, f"heavy has {got}%, not {wanted}%")

    # Each look at short functions is a draw: four deviations of that many. A thread that has not run
    # since the last one is no new draw, so there are no more than 100 a second of its own time.
    # Those in alone() do not count.
    pairs = {"short_heavy": 0, "short_light": 0}
    looks = 0
    for row in stacks("a.mscope", "--by-stack")["rows"]:
        names = [f.rsplit(" (", 1)[0] for f in row["name"].split(";")]
        short = [name for name in names if name in pairs]  # native functions may be inside of it
        if "shorts" in names and short:
            pairs[short[0]] += row["cpu_ns"]
            looks += row["samples"]
    looks = min(looks, sum(pairs.values()) / 1e7)
    check(looks >= 10, f"{looks} looks")
    wanted = own["short_share"]
    got = 100 * pairs["short_heavy"] / sum(pairs.values())
    allowed = max(5, 400 * math.sqrt(wanted / 100 * (1 - wanted / 100) / looks))
    print(f"# short_heavy: {got:.1f}%, by itself {wanted:.1f}%, {looks:.0f} looks", flush=True)
    check(abs(got - wanted) <= allowed, f"short_heavy has {got}%, not {wanted}%, of {looks}")
    a_sleeping_thread_waits()


def a_sleeping_thread_waits():
    asleep = [row for row in stacks("a.mscope")["rows"] if row["name"].startswith("sleeper (")]
    equal(len(asleep), 1, asleep)
    row = asleep[0]
    equal(row["name"], "sleeper (times.py:%d)" %
          (TIMES.split("\n").index("def sleeper():") + 1))
    whole = row["total_cpu_ns"] + row["total_wait_ns"]
    check(row["total_wait_ns"] > 0.95 * whole, row)
    threads = stacks("a.mscope", "--by-thread")["rows"]
    equal(len(threads), 2, threads)
    # By far the most of what that thread does is to sleep.
    check(row["total_wait_ns"] > 0.9 * max(t["wait_ns"] for t in threads), row, threads)


# ---- native stacks

NATIVE = """
#include <time.h>
static volatile unsigned long sink;
__attribute__((noinline)) static void inner(void)
{
	for (long i = 0; i < 20000000; i++)
		sink++;
}
__attribute__((noinline)) static void middle(void)
{
	inner();
	sink++;
}
__attribute__((noinline)) static void outer(void)
{
	while (clock() < CLOCKS_PER_SEC)
		middle();
	sink++;
}
int main(void)
{
	outer();
	return 0;
}
"""


def compile_c(text, name, *options):
    write(name + ".c", text)
    try:
        built = subprocess.run(["cc", "-O0", "-fno-omit-frame-pointer", *options, "-o", name, name + ".c"],
                               capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise Skip("no C compiler is here") from None
    equal(built.returncode, 0, built.stderr)


@test
def native_functions_have_names():
    compile_c(NATIVE, "spin")
    record_stacks("./spin")
    rows = stacks("a.mscope", "--by-stack")["rows"]
    told = facts("a.mscope")
    if told:
        # Without perf events there is a reason in words, and no name of a function.
        check(rows and all(row["name"] == "(no stack was seen)" for row in rows), rows)
        raise Skip(f"no native stacks here: {told[0]}")
    whole = sum(row["cpu_ns"] for row in rows)
    named = sum(row["cpu_ns"] for row in rows
                if row["name"].endswith("main (spin);outer (spin);middle (spin);inner (spin)"))
    check(named > 0.8 * whole, f"{named} of {whole}", rows)


@test
def build_ids_of_files_with_functions():
    compile_c(NATIVE, "spin", "-Wl,--build-id=0x0123456789abcdef")
    record_stacks("./spin")
    if facts("a.mscope"):
        raise Skip(f"no native stacks here: {facts('a.mscope')[0]}")
    r = moescope("sql", "--json", "a.mscope", "select key, value from facts where key like 'build id of %'")
    equal(r.status, 0, r)
    found = dict(json.loads(r.out)["rows"])
    equal(found.get("build id of " + os.path.realpath("spin")), "0123456789abcdef", found)


WAITING = """
#include <unistd.h>
static volatile long sink;
__attribute__((noinline)) static void inner(void)
{
	char end;
	sink += read(0, &end, 1);
}
__attribute__((noinline)) static void middle(long n)
{
	volatile char room[200];
	room[n] = 1;
	inner();
	sink += room[n];
}
__attribute__((noinline)) static void outer(long n)
{
	middle(n);
	sink++;
}
int main(void)
{
	inner(); /* until it is looked at */
	outer(sink % 100);
	return 0;
}
"""


@test
def waiting_functions_without_frame_pointers():
    if "also without frame pointers" not in " ".join(moescope("doctor").out.split()):
        raise Skip("not x86-64, or threads that leave a processor are not told of")
    compile_c(WAITING, "waiting", "-O2", "-fomit-frame-pointer")
    read_end, write_end = os.pipe()
    program = subprocess.Popen([os.environ["MOESCOPE"], "run", "--stacks", "-qo", "a.mscope", "./waiting"],
                               stdin=read_end)
    try:
        while not glob.glob("a.mscope/*.mst"):
            equal(program.poll(), None)
            os.sched_yield()
        os.write(write_end, b"x")
        deadline = time.monotonic() + 1
        while time.monotonic() < deadline:
            os.sched_yield()
    finally:
        os.write(write_end, b"x")
        equal(program.wait(), 0)
    if facts("a.mscope"):
        raise Skip(f"no native stacks here: {facts('a.mscope')[0]}")
    rows = stacks("a.mscope", "--by-stack")["rows"]
    longest = max(rows, key=lambda row: row["wait_ns"])
    names = [f.rsplit(" (", 1)[0] for f in longest["name"].split(";")]
    equal([n for n in names if n in ("main", "outer", "middle", "inner")], ["main", "outer", "middle", "inner"], rows)


LIBRARY = """
typedef long callback(long);
static volatile long sink;
__attribute__((noinline)) long work(long n)
{
	for (long i = 0; i < n; i++)
		sink++;
	return n;
}
long with_callback(callback *inside, long n)
{
	return inside(n) + 1;
}
"""

MIXED = """import ctypes, os, time
library = ctypes.CDLL(os.path.abspath("libwork.so"))
kind = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_long)

def inside(n):
    return library.work(n)

def caller():
    while time.process_time() < 1:
        library.with_callback(kind(inside), 10000000)

caller()
"""


def share_with_native(python, minor):
    """Of the time in Python's function, that with the native function that it calls."""
    record_stacks(python, write("mixed.py", MIXED))
    told = facts("a.mscope")
    if f"functions of Python 3.{minor} and native ones" not in told:
        raise Skip(f"native functions are not joined here: {told}")
    at_work = whole = with_all = 0
    for row in stacks("a.mscope", "--by-stack")["rows"]:
        names = [f.rsplit(" (", 1)[0] for f in row["name"].split(";")]
        if "inside" not in names:
            continue
        whole += row["cpu_ns"]
        equal([n for n in names if n in ("<module>", "caller", "inside")], ["<module>", "caller", "inside"])
        if names[-1] == "work":
            check(names.index("work") > names.index("inside"), row)
            at_work += row["cpu_ns"]
        if "with_callback" in names:
            equal([n for n in names if n in ("caller", "with_callback", "inside", "work")][:3],
                  ["caller", "with_callback", "inside"])
            with_all += row["cpu_ns"]
    check(whole > 0.5e9, whole)
    print(f"# Python 3.{minor}: {100 * at_work / whole:.0f}% with the native function inside, "
          f"{100 * with_all / whole:.0f}% with all", flush=True)
    return at_work / whole


@test
def native_functions_are_inside_pythons():
    compile_c(LIBRARY, "libwork.so", "-shared", "-fPIC")
    for python, (_, minor) in pythons():
        # They pause where other programs make threads leave a processor thousands of times a second.
        check(any(share_with_native(python, minor) > 0.5 for _ in range(TRIES)), f"3.{minor}")


# ---- processes

SPIN = """
import time
def spin(seconds=1):
    end = time.process_time() + seconds
    while time.process_time() < end:
        for i in range(100000):
            pass
"""


def processes(run):
    """Time on a processor by process."""
    times = {}
    for row in stacks(run, "--by-thread")["rows"]:
        pid = int(re.search(r", thread \d+ of (\d+)$", row["name"])[1])
        times[pid] = times.get(pid, 0) + row["cpu_ns"]
    return times


@test
def programs_that_become_others():
    python = any_python()
    write("spin.py", SPIN + "import os\nspin()\nprint(os.getpid())\n")
    pid = int(record_stacks("sh", "-c", f"exec {python} spin.py"))
    equal(list(processes("a.mscope")), [pid])
    check(totals("a.mscope")["spin"] > 0.5e9, totals("a.mscope"))

    # From one Python to another, the same or not.
    for other in {python, pythons()[-1][0]}:
        write("first.py", SPIN.replace("spin", "before") + "import os, sys\nbefore(0.5)\n"
              "os.execv(sys.argv[1], [sys.argv[1], 'spin.py'])\n")
        pid = int(record_stacks(python, "first.py", other))
        equal(list(processes("a.mscope")), [pid])
        times = totals("a.mscope")
        check(0.25e9 < times["before"] < 0.75e9, other, times)
        check(0.5e9 < times["spin"] < 1.25e9, other, times)


@test
def programs_that_become_others_again_and_again():
    """Sometimes the change is seen between two looks, sometimes by a look that fails."""
    write("again.py", SPIN + """
import os, sys
spin(0.12)
left = int(sys.argv[1])
if left:
    loop = "i=0; while [ $i -lt 40000 ]; do i=$((i+1)); done"
    os.execv("/bin/sh", ["sh", "-c", f"{loop}; exec {sys.executable} again.py {left - 1}"])
print("end")
""")
    equal(record_stacks(any_python(), "again.py", "25"), "end\n")
    check(totals("a.mscope")["spin"] > 1e9, totals("a.mscope"))


@test
def children_are_processes_of_their_own():
    write("children.py", SPIN + """
import json, multiprocessing, os
if __name__ == "__main__":
    forked = os.fork()
    if not forked:
        spin(0.7)
        os._exit(0)
    child = multiprocessing.get_context("spawn").Process(target=spin, args=(0.7,))
    child.start()
    spin(0.7)
    child.join()
    os.waitpid(forked, 0)
    print(json.dumps([os.getpid(), forked, child.pid]))
""")
    own = json.loads(record_stacks(any_python(), "children.py"))
    times = processes("a.mscope")
    for pid in own:
        check(times.get(pid, 0) > 0.35e9, own, times)
    check(totals("a.mscope")["spin"] > 1.05e9, totals("a.mscope"))


@test
def a_program_that_ends_at_once():
    for words, status in ((["true"], 0), (["false"], 1), (["sh", "-c", "exit 7"], 7),
                          ([any_python(), "-c", ""], 0)):
        record_stacks(*words, status=status)
        stacks("a.mscope")


@test
def a_program_that_ends_by_a_signal():
    python = any_python()
    spin = SPIN + "import os, signal, sys\nspin(0.2)\nos.kill(os.getpid(), int(sys.argv[1]))\n"
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV):
        words = ["--", python, write("spin.py", spin), str(int(number))]
        plain = moescope("run", "-q", "-f", "-o", "plain.mscope", *words)
        r = moescope("run", "--stacks", "-q", "-f", "-o", "a.mscope", *words)
        equal(r.status, plain.status, r)
        equal(r.status, -number, r)
        check(stacks("a.mscope")["total"]["cpu_ns"] > 0)
    check("spin" in totals("a.mscope"), totals("a.mscope"))


@test
def the_output_is_the_programs():
    write("out.py", SPIN + "spin(0.3)\nfor i in range(5000):\n    print(i, 'x' * (i % 70))\n")
    python = any_python()
    plain = moescope("run", "-q", "-o", "plain.mscope", "--", python, "out.py")
    equal(plain.status, 0, plain)
    equal(record_stacks(python, "out.py"), plain.out)
    check(plain.out.endswith("x\n"), plain.out[-100:])


# ---- a program that is already running

JOINED = """import sys, threading, time
values, over = [], threading.Event()
def work():
    value = 1
    while not over.is_set():
        for i in range(1000):
            value = (value * 6364136223846793005 + 1442695040888963407) % 2**64
        values.append(value)
def waits():
    sys.stdin.read()
thread = threading.Thread(target=work)
thread.start()
print("ready", flush=True)
waits()
over.set()
thread.join()
value = 1
for i in range(1000 * len(values)):
    value = (value * 6364136223846793005 + 1442695040888963407) % 2**64
print("right" if values[-1] == value else "wrong")
"""


@test
def a_running_program_is_joined_and_left():
    write("joined.py", JOINED)
    program = subprocess.Popen([any_python(), "joined.py"], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    try:
        equal(program.stdout.readline(), "ready\n")
        for i in range(5):
            r = moescope("attach", str(program.pid), "-d", "0.5s", "-o", f"{i}.mscope")
            equal(r.status, 0, r)
            check("the program continues" in r.err, r)
            own = totals(f"{i}.mscope")
            check("work" in own and "waits" in own, own)
            equal(stacks(f"{i}.mscope")["run"]["status"], "left")
        # Until its end.
        last = subprocess.Popen([os.environ["MOESCOPE"], "attach", "-o", "last.mscope", str(program.pid)],
                                stderr=subprocess.PIPE, text=True)
        while not glob.glob("last.mscope/*.mst"):
            os.sched_yield()
        equal(program.communicate()[0], "right\n")
        equal(program.returncode, 0)
        check("to the program's end" in last.communicate()[1])
        equal(last.returncode, 0)
        equal(stacks("last.mscope")["run"]["status"], "unknown")
    finally:
        program.kill()
        program.wait()


@test
def what_cannot_be_joined():
    one_sentence(moescope("attach", "4194305"), 1, "there is no process 4194305")
    one_sentence(moescope("attach", "abc"), 2, "not the number of a process")
    one_sentence(moescope("attach", "-d", "abc", "1"), 2, "abc")
    equal(os.listdir("."), [])


@test
def rates_that_cannot_be():
    for rate in ("0", "5000", "-1", "many"):
        one_sentence(moescope("run", "--stacks", f"--stacks-rate={rate}", "--", "true"), 2,
                     "--stacks-rate")
    equal(os.listdir("."), [])


@test
def a_rate_is_the_most():
    write("spin.py", SPIN + "spin(0.5)\n")
    r = moescope("run", "--stacks", "--stacks-rate=10", "-q", "-o", "a.mscope", "--", any_python(),
                 "spin.py")
    equal(r.status, 0, r)
    data = stacks("a.mscope")
    # Pauses are from a half to one and a half of a tenth of a second.
    check(data["total"]["samples"] <= 2 + data["run"]["duration_ns"] / 50e6, data["total"])


@test
def folded_stacks_have_the_functions():
    write("spin.py", SPIN + "def caller():\n    spin()\ncaller()\n")
    record_stacks(any_python(), "spin.py")
    r = moescope("export", "a.mscope", "--to", "folded-host", "-o", "-")
    equal(r.status, 0, r)
    found = 0
    for line in r.out.splitlines():
        stack, ns = line.rsplit(" ", 1)
        names = [re.sub(r" \(.*", "", f) for f in stack.split(";") if is_python(f)]
        if names[-3:] == ["<module>", "caller", "spin"]:
            found += int(ns)
    check(found > 0.5e9, r.out)


@test
def a_run_without_stacks_says_what_to_do():
    equal(moescope("run", "-q", "-o", "a.mscope", "--", "true").status, 0)
    r = moescope("stacks", "a.mscope")
    equal(r.status, 0, r)
    check("no stacks in this run: record it with 'moescope run --stacks'" in r.out, r)
    equal(stacks("a.mscope")["rows"], [])


main()
