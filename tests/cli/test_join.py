# SPDX-License-Identifier: Apache-2.0
"""moescope attach --inside and moescope detach: the program that is joined must not notice.

MOESCOPE_JOIN_CYCLES: how often each program is joined and left, 3 if it is not set. The proof is 200.
"""

import glob
import json
import os
import pathlib
import random
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
CYCLES = int(os.environ.get("MOESCOPE_JOIN_CYCLES", "3"))
MODES = ["busy", "sleep", "epoll", "lock", "stdin", "waitpid", "c_calls", "endless_epoll", "numpy_like"]
KNOWN = [(path, version) for path, version in pythons() if version <= (3, 13)]


def driver():
    """A library that has the name of CUDA's, so that joining is of use."""
    fake = os.path.join(BUILD, "tests", "libfake_driver.so")
    if not os.path.exists(fake):
        raise Skip("this build has no scripted CUDA driver")
    shutil.copy(fake, "libcuda.so.1")
    return os.path.abspath(".")


class Program:
    def __init__(self, python, *words, libraries="libcuda.so.1", **variables):
        read, write = os.pipe()
        self.answers = read
        # From 3.12 on Python warns of forks beside any thread, and a program that is joined has some.
        env = environment(LD_LIBRARY_PATH=driver(), JOINED_LIBRARIES=libraries,
                          PYTHONWARNINGS="ignore::DeprecationWarning:__main__", **variables)
        self.process = subprocess.Popen(["/bin/sh", "-c", f'exec "$@" 3>&{write}', "sh", python, PROGRAM, *words],
                                        env=env, text=True, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, pass_fds=[write])
        os.close(write)
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
        self.process.send_signal(signal.SIGTERM)
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


def cycle(program, name, meanwhile=lambda: None):
    """Joined, recorded, left."""
    looking = attach(program, "-q", "-o", name)
    wait_until(lambda: is_inside(name) or looking.poll() is not None)
    meanwhile()
    r = moescope("detach", program.pid)
    out, err = looking.communicate()
    equal((looking.returncode, out, err, r.status, r.err), (0, "", "", 0, ""))


@test
def every_python_waiting_for_everything():
    for python, _ in KNOWN:
        for mode in MODES:
            program = Program(python, mode)
            before = held(program)
            for i in range(CYCLES):
                cycle(program, f"{i}.mscope")
                shutil.rmtree(f"{i}.mscope")
            if mode not in ("lock", "stdin", "epoll", "endless_epoll"):  # those make some themselves
                wait_until(lambda: held(program) == before, python, mode)
            program.end()


@test
def signals_arrive_meanwhile():
    """All that was sent, whenever it came; also from handlers that raise."""
    for python, _ in KNOWN:
        for mode in ("busy", "sleep", "epoll", "c_calls"):
            program = Program(python, mode, "signals")
            sent = 0
            for i in range(CYCLES):
                looking = attach(program, "-q", "-o", "a.mscope", "-d", "0.4s")
                while looking.poll() is None:
                    program.send(signal.SIGINT, b"i")
                    if mode != "epoll":
                        program.send(signal.SIGUSR1, b"u")
                    sent += 1
                equal(looking.communicate(), ("", ""), python, mode, i)
                shutil.rmtree("a.mscope")
            told = program.end(interrupts=sent, raised=0 if mode == "epoll" else sent)
            check(told["alarms"] > 0, told)


@test
def killed_while_joining():
    """At any moment: the program goes on, and what is inside leaves by itself."""
    random.seed(1)
    for python, _ in KNOWN[:1] if CYCLES < 10 else KNOWN:
        for mode in ("busy", "c_calls"):
            program = Program(python, mode)
            before = held(program)
            for i in range(CYCLES):
                looking = attach(program, "-q", "-o", f"{i}.mscope")
                time.sleep(random.random() * 0.08)
                looking.kill()
                looking.communicate()
                wait_until(lambda: held(program) == before, python, mode, i)
                shutil.rmtree(f"{i}.mscope", ignore_errors=True)
            cycle(program, "last.mscope")
            program.end()
            shutil.rmtree("last.mscope")


if __name__ == "__main__":
    main()
