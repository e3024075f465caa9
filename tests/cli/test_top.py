# SPDX-License-Identifier: Apache-2.0
"""moescope top and run --top, on terminals of tmux: frames, keys, sizes, and how they begin and end."""

import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import time

from cli import (MOESCOPE, PATIENCE_S, TINY, TINYMOE, Skip, check, environment, equal, main, moescope, need,
                 one_sentence, record, test)

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests/golden"
SAVE_FAKES = pathlib.Path(MOESCOPE).parent / "tests/save-fakes"
MAKE_RUN = pathlib.Path(MOESCOPE).parent / "bench/bench-make-run"
SIZES = ((80, 24), (120, 40), (200, 60))
FOR_EVER = ["--steps", "100000000"]


def env(**changes):
    """Without figures that were measured on this machine."""
    return environment(XDG_CACHE_HOME=os.getcwd() + "/cache", **changes)


def fakes():
    need(SAVE_FAKES)
    os.mkdir("fakes")
    subprocess.run([SAVE_FAKES, "fakes"], check=True)


def once(run, columns, rows, **changes):
    r = moescope("top", run, "--once", "--width", columns, "--height", rows, env=env(**changes))
    equal((r.status, r.err), (0, ""), r)
    return r.out


class Tmux:
    """A shell command on a terminal of tmux, whose screen stays as the command leaves it."""

    servers = 0

    def __init__(self, command, columns=80, rows=24, **changes):
        if not shutil.which("tmux"):
            raise Skip("tmux is not installed")
        Tmux.servers += 1
        self.socket = f"{os.getcwd()}/tmux{Tmux.servers}"
        variables = env(TMUX=None, TMUX_PANE=None, **changes)
        pathlib.Path("tmux.conf").write_text("set -g status off\nset -g escape-time 0\n", encoding="ascii")
        term = changes.get("TERM")
        if term:
            command = f"TERM={term}; export TERM; {command}"
        subprocess.run(["tmux", "-u", "-S", self.socket, "-f", "tmux.conf", "new-session", "-d", "-x", str(columns),
                        "-y", str(rows), "-c", os.getcwd(), "/bin/sh", "-c", command + "; exec sleep 3600"],
                       env=variables, check=True, timeout=PATIENCE_S)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(["tmux", "-S", self.socket, "kill-server"], check=False, capture_output=True)

    def tmux(self, *words):
        return subprocess.run(["tmux", "-S", self.socket, *words], check=True, capture_output=True, text=True,
                              timeout=PATIENCE_S).stdout

    def screen(self, *options):
        return self.tmux("capture-pane", "-p", *options)

    def keys(self, *keys):
        self.tmux("send-keys", *keys)

    def see(self, *words):
        """Waits until all of the words are on the screen."""
        return self.wait(lambda text: all(word in text for word in words), words)

    def wait(self, done, what):
        deadline = time.monotonic() + PATIENCE_S
        while True:
            text = self.screen()
            if done(text):
                return text
            check(time.monotonic() < deadline, f"{what} did not appear", text)
            time.sleep(0.05)

    def show(self, name):
        return self.tmux("display-message", "-p", f"#{{{name}}}").strip()


def top(*words, after="echo EXIT $?", **options):
    return Tmux(f"{shlex.join([MOESCOPE, 'top', *map(str, words)])}; {after}", **options)


def run_in_background(*words, name="a.mscope"):
    need(TINYMOE)
    return subprocess.Popen([MOESCOPE, "run", "-q", "-o", name, *words, "--", TINYMOE, *TINY, *FOR_EVER],
                            env=env(), stdout=subprocess.DEVNULL)


def program_of(process):
    """The program below `moescope run`; the other child is its witness."""
    path = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        for pid in path.read_text(encoding="ascii").split():
            if "tinymoe" in pathlib.Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8").split("\0")[0]:
                return int(pid)
        time.sleep(0.05)
    raise AssertionError("the program did not start")


@test
def frames_are_those_of_the_golden_files():
    fakes()
    for columns, rows in SIZES:
        for name in ("training", "gpu"):
            text = once(f"fakes/{name}.mscope", columns, rows)
            path = GOLDEN / f"top-{name}-{columns}.txt"
            if os.environ.get("MOESCOPE_UPDATE_GOLDEN"):
                path.write_text(text, encoding="utf-8")
            equal(text, path.read_text(encoding="utf-8"), path.name)
            equal(len(text.splitlines()), rows)
            check(max(map(len, text.splitlines())) <= columns, path.name)


def most_memory(*words):
    """What a command prints, and the most memory that it had, in bytes."""
    with open("out", "w+b") as out:
        pid = os.posix_spawn(MOESCOPE, [MOESCOPE, *map(str, words)], env(),
                             file_actions=[(os.POSIX_SPAWN_DUP2, out.fileno(), 1)])
        _, status, used = os.wait4(pid, 0)
        out.seek(0)
        text = out.read().decode()
    equal(os.waitstatus_to_exitcode(status), 0, text)
    return text, used.ru_maxrss * 1024


@test
def memory_does_not_follow_the_length_of_the_run():
    """As many records as a job of hours has; the tables of all of them would take 200 MB."""
    need(MAKE_RUN)
    kernels = 3_000_000
    subprocess.run([MAKE_RUN, ROOT / "bench/data", "long.mscope", str(kernels)], check=True,
                   stdout=subprocess.DEVNULL)
    text, used = most_memory("top", "long.mscope", "--once", "--width", 200, "--height", 60)
    check(used < 100_000_000, used)
    told = json.loads(moescope("sql", "long.mscope", "--json",
                               "select count(*), sum(duration_ns), (select max(step) from steps) "
                               "from kernels").out)["rows"][0]
    head = re.search(r"Kernels +(\S+ \S+) of device time in (\S+) M kernels; the last (\S+ \S+), by time_ns", text)
    check(head, text)
    # What is of the whole run stays so; what is of its last part says so.
    equal(head[2], f"{told[0] / 1e6:.2f}")
    check(head[1].startswith(f"{told[1] / 1e9:.3g}"), head[1], told)
    check(f"step {told[2]} " in text, text)
    check(f"of the last {head[3]}" in text.split("Verdicts")[1], text)


@test
def screen_shows_the_frame_at_any_size():
    fakes()
    first, *others = SIZES
    with top("fakes/gpu.mscope", columns=first[0], rows=first[1]) as t:
        for columns, rows in (first, *others, (97, 31), first):
            t.tmux("resize-window", "-x", str(columns), "-y", str(rows))
            wanted = once("fakes/gpu.mscope", columns, rows)
            t.wait(lambda text, wanted=wanted: text == wanted, f"the frame of {columns} x {rows}")
        t.tmux("resize-window", "-x", "20", "-y", "5")
        t.see("moescope  gpu")
        t.keys("q")
        t.see("EXIT 0")


@test
def ascii_and_colours():
    fakes()
    check(once("fakes/training.mscope", 80, 24, LC_ALL="C").isascii())
    check("\033" not in once("fakes/training.mscope", 80, 24))
    colours = re.compile(r"\033\[[0-9;]*3[0-7]m")
    with top("fakes/training.mscope") as t:
        t.see("q quit")
        check(colours.search(t.screen("-e")), "colours")
    with top("fakes/training.mscope", NO_COLOR="1") as t:
        t.see("q quit")
        check(not colours.search(t.screen("-e")), "no colours")
    with top("fakes/training.mscope", LC_ALL="C") as t:
        check(t.see("q quit", "Loss").isascii())


@test
def keys_do_what_the_help_says():
    fakes()
    with top("fakes/gpu.mscope", columns=100, rows=40) as t:
        t.see("by time_ns", "s sort time_ns")
        t.keys("s")
        t.see("by count", "s sort count")
        t.keys("5")
        t.see("panel kernels", "launch-bound")
        t.keys("Tab")
        t.see("panel verdicts", "est. gain")
        t.keys("BTab")
        t.see("panel kernels")
        t.keys("Escape")
        t.see("tab panel", "Verdicts")
        t.keys("Space")
        t.see("PAUSED")
        t.keys("Space")
        t.see("space pause")
        t.keys("?")
        t.see("previous layer")
        t.keys("?")
        t.see("Verdicts")
        t.keys("q")
        t.see("EXIT 0")
    with top("fakes/training.mscope", columns=100, rows=20) as t:
        t.see("l layer all")
        t.keys("l", "l")
        t.see("l layer 1")
        t.keys("3")
        t.see("panel experts", "Load per expert")
        t.keys("NPage")
        t.wait(lambda text: "Load per expert" not in text and "expert 7" in text, "the next page")
        t.keys("Home")
        t.see("Load per expert")
        t.keys("l", "0")
        t.see("l layer all", "Verdicts")


@test
def a_rank_can_be_chosen():
    fakes()
    with top("fakes/comm.mscope", columns=120, rows=40) as t:
        t.see("r rank all")
        t.keys("r")
        t.see("r rank 0")
        t.keys("r")
        t.see("r rank 1")
        t.keys("R", "R")
        t.see("r rank all")


@test
def waits_for_a_run_and_says_how_it_ended():
    with top() as t:
        t.see("waiting for a run")
        record("a.mscope")
        t.see("moescope  a", "exited with 0", "step 5")
        record("b.mscope")
        t.see("moescope  b")
    with top("late.mscope") as t:
        t.see("waiting for the run late.mscope")
        record("late.mscope")
        t.see("moescope  late", "exited with 0")


@test
def follows_a_run_and_survives_the_death_of_its_program():
    with run_in_background() as process:
        program = program_of(process)
        with top("a.mscope", "--interval", "100ms") as t:
            step = int(re.search(r"step +(\d+)", t.wait(lambda text: re.search(r"step +\d", text), "a step")).group(1))
            t.wait(lambda text: int(re.search(r"step +(\d+)", text).group(1)) > step, "the next step")
            check("running" in t.screen())
            os.kill(program, signal.SIGKILL)
            t.see("killed by signal 9 (Killed)")
            t.keys("q")
            t.see("EXIT 0")
        equal(process.wait(PATIENCE_S), -signal.SIGKILL)


@test
def a_run_that_vanishes_is_told():
    record("a.mscope")
    with top("a.mscope", "--interval", "100ms") as t:
        t.see("moescope  a")
        shutil.rmtree("a.mscope")
        text = t.see("EXIT 1")
        check("the run a.mscope is gone: its files were removed." in text, text)
        equal(t.show("alternate_on"), "0")


@test
def a_process_names_its_run():
    with run_in_background() as process:
        program = program_of(process)
        for pid in (program, process.pid):
            check("moescope  a" in moescope("top", pid, "--once").out)
        os.kill(program, signal.SIGTERM)
        process.wait(PATIENCE_S)
    check("killed by signal 15" in moescope("top", program, "--once").out)
    one_sentence(moescope("top", os.getpid(), "--once"), 1, f"no run of process {os.getpid()}")


@test
def without_a_screen_it_says_so():
    record("a.mscope")
    one_sentence(moescope("top", "a.mscope"), 2, "not a terminal", "--once", "--json")
    one_sentence(moescope("top", "no.mscope", "--once"), 1, "no.mscope")
    one_sentence(moescope("top", "a.mscope", "--once", "--json"), 2, "exclude each other")
    for words in (("top", "a.mscope"), ("run", "--top", "-o", "b.mscope", "--", "true"), ("demo", "-o", "b.mscope")):
        for given, answer in (("10ms", "'--interval' is at least 100ms"), ("soon", "soon")):
            one_sentence(moescope(words[0], "--interval", given, *words[1:]), 2, answer)
    one_sentence(moescope("run", "--interval", "1s", "-o", "b.mscope", "--", "true"), 2, "'--top'", "both")
    check(not os.path.exists("b.mscope"))
    document = json.loads(moescope("top", "a.mscope", "--json").out)
    equal(document["schema"], "moescope/top/1")
    equal(len(document["steps"]["rows"]), 6)
    for term, words in (("dumb", "cannot be drawn on"), ("no-such-type", "no-such-type")):
        with top("a.mscope", TERM=term) as t:
            check(words in t.wait(lambda text: "EXIT" in text, "the end").replace("\n", " "))
            check(not t.screen().startswith("EXIT 0"))


@test
def signals_restore_the_terminal():
    record("a.mscope")
    ours = shlex.quote(MOESCOPE)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGSEGV):
        with Tmux(f"stty -g > before; {ours} top a.mscope") as t:
            t.see("moescope  a", "q quit")
            equal(t.show("alternate_on"), "1")
            shell = t.show("pane_pid")
            child = pathlib.Path(f"/proc/{shell}/task/{shell}/children").read_text(encoding="ascii")
            os.kill(int(child), number)
            t.wait(lambda text: "q quit" not in text, "the old screen")
            equal(t.show("alternate_on"), "0")
            tty = t.show("pane_tty")
            after = subprocess.run(["stty", "-g", "-F", tty], check=True, capture_output=True, text=True).stdout
            equal(after, pathlib.Path("before").read_text(encoding="ascii"), number)


@test
def a_stop_gives_the_terminal_back():
    record("a.mscope")
    with Tmux("PS1='$ ' exec bash --norc --noprofile -i") as t:
        t.see("$")
        t.keys(f"{shlex.quote(MOESCOPE)} top a.mscope", "Enter")
        t.see("moescope  a", "q quit")
        t.keys("C-z")
        t.see("Stopped")
        equal(t.show("alternate_on"), "0")
        t.keys("fg", "Enter")
        t.see("moescope  a", "q quit")
        t.keys("q")
        t.wait(lambda text: "q quit" not in text, "the old screen")
        t.keys("echo EXIT $?", "Enter")
        t.see("EXIT 0")


def run_top(program, after="echo EXIT $?", options="", **more):
    return Tmux(f"trap : INT; {shlex.quote(MOESCOPE)} run --top {options} -o a.mscope -- {program}; {after}",
                columns=100, **more)


@test
def run_top_keeps_status_and_output():
    script = "echo out; echo err >&2; while [ ! -e go ]; do sleep 0.05; done; cat; exit 3"
    with run_top(shlex.join(["sh", "-c", script])) as t:
        t.see("moescope  a", "Ctrl-C is for the program", "running")
        equal(pathlib.Path("a.mscope/program.log").read_text(encoding="ascii"), "out\nerr\n")
        pathlib.Path("go").touch()
        text = t.see("EXIT 3")
        check("the program's output is in a.mscope/program.log." in text, text)
        check("out\nerr\n" in text, "what it said last")
        equal(t.show("alternate_on"), "0")


@test
def run_top_follows_the_program():
    need(TINYMOE)
    with run_top(shlex.join([TINYMOE, *TINY, *FOR_EVER]), options="--interval 200ms") as t:
        t.wait(lambda text: re.search(r"step +\d", text), "a step")
        t.keys("C-c")
        text = t.see("EXIT 130")
        check("program.log" in text, text)
    equal(json.loads(pathlib.Path("a.mscope/run.json").read_text(encoding="utf-8"))["signal"], int(signal.SIGINT))


@test
def run_top_can_be_closed_while_the_program_goes_on():
    script = "while [ ! -e go ]; do sleep 0.05; done; exit 4"
    with run_top(shlex.join(["sh", "-c", script])) as t:
        t.see("moescope  a", "q quit")
        t.keys("q")
        t.see("the view is closed; the program continues")
        pathlib.Path("go").touch()
        t.see("EXIT 4")


@test
def run_top_is_a_job_like_others():
    script = "while [ ! -e go ]; do sleep 0.05; done; exit 5"
    command = f"{MOESCOPE} run --top -o a.mscope -- {shlex.join(['sh', '-c', script])}"
    pathlib.Path("job").write_text(command + "\n", encoding="utf-8")
    with Tmux("PS1='$ ' exec bash --norc --noprofile -i", columns=100) as t:
        t.see("$")
        t.keys(". ./job", "Enter")
        t.see("moescope  a", "q quit")
        t.keys("C-z")
        t.see("Stopped")
        equal(t.show("alternate_on"), "0")
        t.keys("fg", "Enter")
        t.see("moescope  a", "q quit")
        pathlib.Path("go").touch()
        t.see("program.log")
        t.keys("echo EXIT $?", "Enter")
        t.see("EXIT 5")


@test
def run_top_without_a_terminal_runs_the_program():
    r = moescope("run", "--top", "-q", "-o", "a.mscope", "--", "sh", "-c", "echo out; exit 6")
    equal((r.status, r.out), (6, "out\n"), r)
    check("'--top' is left out: standard output is not a terminal" in r.err, r)
    script = shlex.join(["sh", "-c", "echo out; exit 7"])
    command = f"{MOESCOPE} run --top -o b.mscope -- {script} & wait $!; echo EXIT $?"
    pathlib.Path("job").write_text(command + "\n", encoding="utf-8")
    with Tmux("PS1='$ ' exec bash --norc --noprofile -i", columns=100) as t:
        t.see("$")
        t.keys(". ./job", "Enter")
        text = t.see("EXIT 7")
        check("this job is in the background" in text, text)


if __name__ == "__main__":
    main()
