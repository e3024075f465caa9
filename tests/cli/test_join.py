# SPDX-License-Identifier: Apache-2.0
"""moescope attach --inside and moescope detach: the program that is joined must not notice.

MOESCOPE_JOIN_CYCLES: how often each program is joined and left, once if it is not set. The proof is 200.
"""

import ctypes
import functools
import glob
import itertools
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import time

from cli import MOESCOPE, Skip, check, environment, equal, main, moescope, one_sentence, test
from sampled import pythons

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.dirname(MOESCOPE)
PROGRAM = os.path.join(HERE, "joined_program.py")
CYCLES = int(os.environ.get("MOESCOPE_JOIN_CYCLES", "1"))
MODES = ["busy", "sleep", "epoll", "lock", "stdin", "waitpid", "c_calls", "endless_epoll", "numpy_like",
         "contended"]
KNOWN = pythons()


def driver():
    """A library that has the name of CUDA's, so that joining is of use."""
    fake = os.path.join(BUILD, "tests", "libfake_driver.so")
    if not os.path.exists(fake):
        raise Skip("this build has no scripted CUDA driver")
    if not os.path.exists("libcuda.so.1"):  # a program may have it mapped
        shutil.copy(fake, "libcuda.so.1")
    return os.path.abspath(".")


@functools.cache
def may_join():
    """Why not, or None."""
    if os.uname().machine != "x86_64":
        return "programs are joined on x86-64 only"
    child = subprocess.Popen(["sleep", "600"])
    r = subprocess.run([sys.executable, "-c", "import ctypes, sys; "
                        "sys.exit(ctypes.CDLL(None).ptrace(0x4206, int(sys.argv[1]), None, None) != 0)",
                        str(child.pid)], check=False)  # PTRACE_SEIZE, by another process than its parent
    child.kill()
    child.wait()
    return "this machine does not let a process be debugged" if r.returncode else None


class Program:
    def __init__(self, python, *words, libraries="libcuda.so.1", options=(), **variables):
        if may_join():
            raise Skip(may_join())
        read, write = os.pipe()
        end, self.to_end = os.pipe()
        self.answers, self.plain = read, "plain" in words
        # From 3.12 on Python warns of forks beside any thread, and a program that is joined has some.
        env = environment(LD_LIBRARY_PATH=driver(), JOINED_LIBRARIES=libraries,
                          PYTHONWARNINGS="ignore::DeprecationWarning:__main__", **variables)
        env["JOINED_ANSWERS"], env["JOINED_END"] = str(write), str(end)
        self.process = subprocess.Popen([python, *options, PROGRAM, *words], env=env, text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=[write, end])
        os.close(write)
        os.close(end)
        self.pid = self.process.pid
        equal(self.process.stdout.readline(), "ready\n")

    def send(self, number, answer):
        """It must arrive, and be answered before the next."""
        self.process.send_signal(number)
        if os.read(self.answers, 1) != answer:
            self.process.kill()
            raise AssertionError(f"no answer to signal {number}: {self.process.communicate()}")

    def end(self, **counts):
        """What it says at its end; nothing was wrong, and its output is its own."""
        if not self.plain:
            self.process.send_signal(signal.SIGTERM)
        os.close(self.to_end)
        out, err = self.process.communicate()
        os.close(self.answers)
        equal((self.process.returncode, err), (0, ""), out)
        told = json.loads(out)
        equal(told.pop("wrong"), [])
        for name, wanted in counts.items():
            equal(told[name], wanted, told)
        return told


def attach(program, *words, **more):
    return subprocess.Popen([MOESCOPE, "attach", "--inside", *words, str(program.pid)], text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(), **more)


def is_inside(run):
    try:
        return "inside\n" in pathlib.Path(run, "join.state").read_text(encoding="utf-8")
    except OSError:
        return False


def wait_until(condition, *context):
    until = time.monotonic() + 120
    while not condition():
        check(time.monotonic() < until, "it never came", *context)
        time.sleep(0.002)


def held(program):
    """Its threads and open files."""
    folder = f"/proc/{program.pid}"
    return (len(os.listdir(f"{folder}/task")),
            {fd: os.path.realpath(f"{folder}/fd/{fd}") for fd in os.listdir(f"{folder}/fd")})


def scripted():
    """The Pythons that take scripts."""
    return [(path, version) for path, version in KNOWN if version >= (3, 14)]


def cycle(program, name, meanwhile=lambda: None):
    """Joined, recorded, left."""
    looking = attach(program, "-q", "-o", name)
    until = time.monotonic() + 60  # more than it waits before it says so
    while not is_inside(name) and looking.poll() is None and time.monotonic() < until:
        time.sleep(0.002)
    meanwhile()
    r = moescope("detach", program.pid)
    out, err = looking.communicate()  # why it did not get in, if so
    equal((looking.returncode, out, err, r.status, r.err), (0, "", "", 0, ""))


def kinds(version):
    """Of programs that are joined in different ways: from 3.14 on those without handlers are given a script."""
    return ([], ["plain"]) if version >= (3, 14) else ([],)


@test
def every_python_waiting_for_everything():
    for python, version in KNOWN:
        for mode, words in itertools.product(MODES, kinds(version)):
            program = Program(python, mode, *words)
            before = held(program)
            for i in range(CYCLES):
                cycle(program, f"{i}.mscope")
                shutil.rmtree(f"{i}.mscope")
            if mode not in ("lock", "stdin", "epoll", "endless_epoll", "contended"):  # those make some themselves
                wait_until(lambda: held(program) == before, python, mode)
            program.end(scripts=CYCLES if words else 0)


@test
def signals_arrive_meanwhile():
    """All that was sent, whenever it came; also from handlers that raise."""
    for python, _ in KNOWN:
        for mode in ("busy", "sleep", "epoll", "c_calls"):
            program = Program(python, mode, "signals")
            sent = 0
            for i in range(CYCLES):
                looking = attach(program, "-q", "-o", f"{i}.mscope", "-d", "0.4s")
                while looking.poll() is None:
                    time.sleep(0.002)  # not faster than handlers return
                    program.send(signal.SIGINT, b"i")
                    if mode != "epoll":
                        program.send(signal.SIGUSR1, b"u")
                    sent += 1
                equal(looking.communicate(), ("", ""), python, mode, i)
                # Who comes too late writes there for a moment.
                shutil.rmtree(f"{i}.mscope", ignore_errors=True)
            told = program.end(interrupts=sent, raised=0 if mode == "epoll" else sent)
            check(told["alarms"] > 0, told)


@test
def killed_while_joining():
    """At any moment: the program goes on, and what is inside leaves by itself."""
    random.seed(1)
    for python, version in KNOWN[:1] + scripted()[:1] if CYCLES < 10 else KNOWN:
        for mode, words in itertools.product(("busy", "c_calls"), kinds(version)):
            program = Program(python, mode, *words)
            before = held(program)
            for i in range(max(CYCLES, 5)):
                looking = attach(program, "-q", "-o", f"{i}.mscope")
                time.sleep(random.random() * 0.08)
                looking.kill()
                looking.communicate()
                wait_until(lambda: held(program) == before, python, mode, i)
                shutil.rmtree(f"{i}.mscope", ignore_errors=True)
            cycle(program, "last.mscope")
            program.end()
            shutil.rmtree("last.mscope")


@test
def gpu_records_come_from_then_on():
    tests = os.path.join(BUILD, "tests")
    program = Program(KNOWN[0][0], "kernels", MOESCOPE_CUPTI=os.path.join(tests, "libfake_cupti.so"),
                      MOESCOPE_NVML=os.path.join(tests, "libfake_nvml.so"))

    def recorded(name):
        r = moescope("kernels", name, "--json")
        equal(r.status, 0, r)
        return {row["name"]: row["count"] for row in json.loads(r.out)["rows"]}

    for name in ("a.mscope", "b.mscope"):
        cycle(program, name, lambda: wait_until(lambda: recorded(name).get("some_kernel", 0) >= 3, name))
    program.end()
    for name in ("a.mscope", "b.mscope"):
        equal(list(recorded(name)), ["some_kernel"])


@test
def by_time_and_the_first_record():
    """--duration ends it; it is inside within a second, unless the machine has other things to do."""
    ways = [(KNOWN[0][0], [], "its main thread for ")] + [(python, ["plain"], "nothing; ") for python, _ in scripted()]
    for python, words, stopped in ways:
        program = Program(python, "busy", *words)
        r = moescope("attach", "--inside", program.pid, "-d", "1s", "-o", "a.mscope")
        equal(r.status, 0, r)
        check(f"the program continues; joining stopped {stopped}" in r.err, r.err)
        check(r.err.endswith("next: moescope report a.mscope\n"), r.err)
        program.end()
        check("joined: the program was already running" in moescope("report", "a.mscope").out)
        shutil.rmtree("a.mscope")


@test
def does_not_come_back_to_python():
    program = Program(KNOWN[0][0], "in_c")
    r = moescope("attach", "--inside", program.pid, "-d", "6s", "-o", "a.mscope")
    equal(r.status, 0, r)
    check("has not returned to Python for 5 s" in r.err, r.err)
    check("next: moescope stacks" in r.err, r.err)
    # Now it comes back. Nobody wants it any more: it is not joined.
    program.send(signal.SIGINT, b"i")
    wait_until(lambda: held(program)[0] == 1)
    equal(glob.glob("a.mscope/*.ring") + glob.glob("a.mscope/join.*"), [])
    program.end(interrupts=1)


def newest():
    if not scripted():
        raise Skip("no Python 3.14 is here")
    return scripted()[0][0]


def waits_for_script(program):
    """moescope has asked the program to run its script."""
    return f"@moescope-join-{program.pid}\n" in pathlib.Path("/proc/net/unix").read_text(encoding="utf-8")


@test
def a_script_is_taken_back():
    """The main thread has not come back to Python: it was asked, and must not find anything when it does."""
    program = Program(newest(), "in_c_to_the_end", "plain")
    r = moescope("attach", "--inside", program.pid, "-d", "6s", "-o", "a.mscope")
    equal(r.status, 0, r)
    check("has not come back to Python for 5 s" in r.err, r.err)
    equal(glob.glob("a.mscope/*.ring") + glob.glob("a.mscope/join.*"), [])
    program.end(scripts=0)


@test
def killed_before_the_script_runs():
    """It stays asked for, is run, and finds nobody; unless another moescope waits by then, which it joins."""
    for again in (False, True):
        program = Program(newest(), "in_c_to_the_end", "plain")
        looking = attach(program, "-q", "-o", "a.mscope")
        wait_until(lambda: waits_for_script(program))
        time.sleep(random.random() * 0.05)
        looking.kill()
        looking.communicate()
        shutil.rmtree("a.mscope", ignore_errors=True)
        if again:
            looking = attach(program, "-q", "-o", "b.mscope")
            wait_until(lambda: waits_for_script(program))
        told = program.end()
        check(told["scripts"] <= 1, told)
        if again:
            equal((looking.wait(), looking.communicate()), (0, ("", "")))


@test
def another_debugger_has_asked():
    """Its script is run, and only that."""
    python = newest()
    program = Program(python, "in_c_to_the_end", "plain")
    pathlib.Path("other.py").write_text("open('other', 'w').write('was here')\n", encoding="utf-8")
    asked = subprocess.run([python, "-c", "import sys; sys.remote_exec(int(sys.argv[1]), sys.argv[2])",
                            str(program.pid), os.path.abspath("other.py")], check=False)
    equal(asked.returncode, 0)
    r = moescope("attach", "--inside", "-q", "-d", "0.2s", "-o", "a.mscope", program.pid)
    equal(r.status, 0, r)
    check("another debugger waits for process" in r.err, r.err)
    equal(len(r.err.splitlines()), 1, r.err)
    program.end(scripts=1)
    equal(pathlib.Path("other").read_text(encoding="utf-8"), "was here")


@test
def where_no_script_is_taken():
    python = newest()
    for more, words in (({"options": ["-X", "disable-remote-debug"]}, "without remote debugging"),
                        ({"PYTHON_DISABLE_REMOTE_DEBUG": "1"}, "without remote debugging"),
                        ({}, "hardly a descriptor left")):
        for kind in ("plain", "signals") if more else ("plain",):
            program = Program(python, "sleep", kind, **more)
            if not more:
                resource.prlimit(program.pid, resource.RLIMIT_NOFILE, (len(held(program)[1]) + 3, 4096))
            r = moescope("attach", "--inside", "-q", "-d", "0.2s", "-o", "a.mscope", program.pid)
            equal(r.status, 0, r)
            check(words in r.err and r.err.endswith("it is looked at from outside.\n"), r.err)
            equal(len(r.err.splitlines()), 1, r.err)
            shutil.rmtree("a.mscope")
            program.end(scripts=0)


@test
def where_it_cannot_be_done():
    """One sentence each; recording continues from outside."""
    sleeper = subprocess.Popen(["sleep", "600"])
    program = Program(KNOWN[0][0], "sleep")
    plain = Program(KNOWN[0][0], "sleep", libraries="")

    def told(process, words):
        r = moescope("attach", "--inside", "-q", "-d", "0.2s", "-o", "a.mscope", process)
        equal(r.status, 0, r)
        check(words in r.err and r.err.endswith("recording from outside.\n"), r.err)
        equal(len(r.err.splitlines()), 1, r.err)
        shutil.rmtree("a.mscope")

    told(sleeper.pid, "nothing to record inside")
    told(plain.pid, "nothing to record inside")
    program.process.send_signal(signal.SIGSTOP)
    wait_until(lambda: "\nState:\tT" in pathlib.Path(f"/proc/{program.pid}/status").read_text())
    told(program.pid, f"is stopped; let it go on (kill -CONT {program.pid})")
    program.process.send_signal(signal.SIGCONT)
    wait_until(lambda: "\nState:\tT" not in pathlib.Path(f"/proc/{program.pid}/status").read_text())
    one_sentence(moescope("attach", "--steps", "3", program.pid), 2, "--steps needs --inside")
    one_sentence(moescope("detach", program.pid), 1, f"not attached to process {program.pid}")
    one_sentence(moescope("detach", "x"), 2, "not the number of a process")
    first = attach(program, "-q", "-o", "first.mscope")
    wait_until(lambda: is_inside("first.mscope"))
    one_sentence(moescope("attach", "--inside", program.pid), 1, "another moescope is attached")
    equal(moescope("detach", program.pid).status, 0)
    equal(first.communicate(), ("", ""))
    sleeper.kill()
    sleeper.wait()
    program.end()
    plain.end()


@test
def under_another_debugger():
    """Named, and left to it."""
    program = Program(KNOWN[0][0], "sleep")
    libc = ctypes.CDLL(None, use_errno=True)
    equal(libc.ptrace(0x4206, program.pid, None, None), 0)  # PTRACE_SEIZE
    r = moescope("attach", "--inside", "-q", "-d", "0.2s", "-o", "a.mscope", program.pid)
    check(f"is being debugged by process {os.getpid()}" in r.err, r.err)
    libc.ptrace(0x4207, program.pid, None, None)  # PTRACE_INTERRUPT
    equal(os.waitpid(program.pid, 0x40000000)[0], program.pid)
    equal(libc.ptrace(17, program.pid, None, None), 0)  # PTRACE_DETACH
    program.end()


@test
def ends_meanwhile():
    """Its own end comes first: its status and output are its own, and the run is whole."""
    for i in range(max(CYCLES, 3)):
        python, version = KNOWN[-1 - i % len(KNOWN)]
        program = Program(python, "busy", *random.choice(kinds(version)))
        looking = attach(program, "-q", "-o", "a.mscope")
        time.sleep(0.03 * (i % 10))
        program.end()
        equal(looking.wait(), 0)
        err = looking.communicate()[1]
        check(not err or "has ended" in err or "is ending" in err, err)
        equal(moescope("report", "a.mscope").status, 0)
        shutil.rmtree("a.mscope")


if __name__ == "__main__":
    main()
