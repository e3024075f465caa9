# SPDX-License-Identifier: Apache-2.0
"""moescope demo, piped and on a pseudo-terminal."""

import fcntl
import json
import os
import pathlib
import pty
import re
import select
import signal
import struct
import termios
import time

from cli import (MOESCOPE, PATIENCE_S, TINY, TINYMOE, check, environment, equal, main, moescope, need,
                 one_sentence, test)

ENTER, LEAVE = "\033[?1049h", "\033[?1049l"
FOR_EVER = ["--steps", "100000000"]


class Terminal:
    """A command on a pseudo-terminal of its own."""

    def __init__(self, *words, columns=80, rows=24, term="xterm"):
        need(TINYMOE)
        self.text = ""
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.environ.clear()
            os.environ.update(environment(TERM=term))
            # Whoever runs the tests may ignore it (nohup), and the program would, too.
            signal.signal(signal.SIGHUP, signal.SIG_DFL)
            # The size must be there before the first look at it.
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            os.execv(MOESCOPE, [MOESCOPE, *words])

    def resize(self, columns, rows):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read_until(self, done):
        deadline = time.monotonic() + PATIENCE_S
        while not done(self.text):
            check(time.monotonic() < deadline, "nothing of the kind appeared", self.text[-2000:])
            if not select.select([self.master], [], [], 1)[0]:
                continue
            try:
                piece = os.read(self.master, 65536)
            except OSError:
                return False
            if not piece:
                return False
            self.text += piece.decode(errors="replace")
        return True

    def end(self):
        """Reads to the end; the exit status, negative for a signal."""
        self.read_until(lambda text: False)
        os.close(self.master)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def dashboard_is_up(text):
    return ENTER in text and re.search(r"step +\d", text) is not None


def restored(text):
    """The terminal is as before: main screen, cursor."""
    for on, off in ((ENTER, LEAVE), ("\033[?25l", "\033[?25h")):
        check(on in text and text.rindex(off) > text.rindex(on), f"{off!r} is missing")


@test
def piped_demo_shows_lines_and_the_report():
    need(TINYMOE)
    r = moescope("demo", "-o", "d.mscope", "--steps", "40", "--threads", "1", "--", *TINY[:-2])
    equal(r.status, 0, r)
    equal(r.err, "", r)
    check("\033" not in r.out, "no terminal, no escape sequences")
    line = re.search(r"^step (\d+)  loss \d+\.\d+  .*tokens/s  imbalance \d+\.\d\d$", r.out, re.M)
    check(line, r.out[:2000])
    equal(int(line.group(1)), 39)
    check("Your run is in d.mscope" in r.out, r.out[-1000:])
    for command in ("moescope routing d.mscope", "moescope export d.mscope"):
        check(command in r.out, command)
    check("loss" in pathlib.Path("d.mscope/program.log").read_text(errors="replace"))
    info = json.loads(pathlib.Path("d.mscope/run.json").read_text(encoding="utf-8"))
    equal((info["status"], info["exit_status"]), ("exited", 0))


@test
def demo_measures_its_overhead():
    need(TINYMOE)
    r = moescope("demo", "-o", "d.mscope", "--steps", "64", "--", *TINY)
    equal(r.status, 0, r)
    overhead = json.loads(moescope("report", "d.mscope", "--json").out)["overhead"]
    check(isinstance(overhead["measured_pct"], float), overhead)


@test
def failure_shows_the_log_and_the_status():
    need(TINYMOE)
    r = moescope("demo", "-o", "d.mscope", "--", "--corpus", "/no/such/corpus")
    equal(r.status, 1, r)
    check("/no/such/corpus" in r.err, r)
    check("tinymoe failed with status 1" in r.err.splitlines()[-1], r)
    r = moescope("demo", "-o", "e.mscope", "--", "--heads", "7", "--width", "16")
    equal(r.status, 2, r)


@test
def existing_run_is_not_replaced():
    need(TINYMOE)
    os.mkdir("d.mscope")
    pathlib.Path("d.mscope/run.json").write_text("{}", encoding="ascii")
    one_sentence(moescope("demo", "--keep", "d.mscope"), 1, "--force")


@test
def terminal_shows_the_dashboard_and_restores_the_screen():
    t = Terminal("demo", "-o", "d.mscope", "--steps", "3000", "--", *TINY)
    check(t.read_until(dashboard_is_up), t.text)
    equal(t.end(), 0)
    restored(t.text)
    screen, after = t.text.rsplit(LEAVE, 1)
    check("Ctrl-C stops the training" in screen, screen)
    check("Your run is in d.mscope" in after, after[-1000:])


@test
def dumb_terminal_gets_lines():
    t = Terminal("demo", "-o", "d.mscope", "--steps", "20", "--", *TINY, term="dumb")
    equal(t.end(), 0)
    check("\033" not in t.text, t.text[:500])
    check(re.search(r"^step 19  loss", t.text, re.M), t.text[:500])


@test
def resize_is_followed():
    t = Terminal("demo", "-o", "d.mscope", "--", *TINY, *FOR_EVER, columns=120, rows=40)
    check(t.read_until(dashboard_is_up), t.text)
    check(t.read_until(lambda text: "Ctrl-C" in text), "footer")
    check(re.search(r"\033\[40(;\d+)?[Hd]", t.text), "in the last row of 40", t.text)
    t.text = ""
    t.resize(80, 20)
    check(t.read_until(lambda text: "Ctrl-C" in text), "painted anew")
    check(re.search(r"\033\[20(;\d+)?[Hd]", t.text), "in the last row of 20", t.text)
    os.kill(t.pid, signal.SIGTERM)
    equal(t.end(), -signal.SIGTERM)


@test
def interrupt_restores_the_screen():
    t = Terminal("demo", "-o", "d.mscope", "--", *TINY, *FOR_EVER)
    check(t.read_until(dashboard_is_up), t.text)
    os.write(t.master, b"\x03")
    equal(t.end(), -signal.SIGINT)
    restored(t.text)
    check("d.mscope" in t.text.rsplit(LEAVE, 1)[1], t.text[-500:])
    equal(moescope("report", "d.mscope").status, 0)


@test
def termination_restores_the_screen():
    for number in (signal.SIGTERM, signal.SIGHUP):
        name = f"{int(number)}.mscope"
        t = Terminal("demo", "-o", name, "--", *TINY, *FOR_EVER)
        check(t.read_until(dashboard_is_up), t.text)
        os.kill(t.pid, number)
        equal(t.end(), -number)
        restored(t.text)
        info = json.loads(pathlib.Path(name, "run.json").read_text(encoding="utf-8"))
        equal((info["status"], info["signal"]), ("killed", int(number)))


@test
def stop_gives_the_terminal_back():
    t = Terminal("demo", "-o", "d.mscope", "--", *TINY, *FOR_EVER)
    check(t.read_until(dashboard_is_up), t.text)
    children = pathlib.Path(f"/proc/{t.pid}/task/{t.pid}/children").read_text(encoding="ascii")
    os.kill(int(children.split()[0]), signal.SIGSTOP)
    check(t.read_until(lambda text: LEAVE in text), "left the screen")
    check(os.WIFSTOPPED(os.waitpid(t.pid, os.WUNTRACED)[1]))
    restored(t.text)
    os.kill(t.pid, signal.SIGCONT)
    check(t.read_until(lambda text: text.count(ENTER) == 2), "entered it again")
    os.kill(t.pid, signal.SIGTERM)
    equal(t.end(), -signal.SIGTERM)
    restored(t.text)


if __name__ == "__main__":
    main()
