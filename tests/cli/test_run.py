# SPDX-License-Identifier: Apache-2.0
"""moescope run: the program's status, signals, files and environment, and the run directory."""

import errno
import json
import os
import pathlib
import pty
import re
import resource
import select
import signal
import subprocess
import sys
import time

from cli import (MOESCOPE, PATIENCE_S, TINY, TINYMOE, Skip, check, environment, equal, main,
                 moescope, need, one_sentence, record, test)


LINKED = os.path.join(os.path.dirname(MOESCOPE), "tests", "linked-program")


def until(condition):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        check(time.monotonic() < deadline, "it never happens")


def run_json(name="a.mscope"):
    return json.loads(pathlib.Path(name, "run.json").read_text(encoding="utf-8"))


class Started(subprocess.Popen):
    """A test that fails does not wait for a program that never ends."""

    def __exit__(self, failure, *rest):
        if failure:
            self.kill()
        super().__exit__(failure, *rest)


def start(*words, **kwargs):
    return Started([MOESCOPE, "run", "-q", "-o", "a.mscope", *words],
                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(),
                   **kwargs)


# A program that says when it is ready, then waits for a signal and names it.
AWAIT = """
import signal, sys
wanted = {signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGINT, signal.SIGUSR1,
          signal.SIGUSR2}
signal.pthread_sigmask(signal.SIG_BLOCK, wanted)
print("ready", flush=True)
print(signal.Signals(signal.sigwait(wanted)).name, flush=True)
sys.exit(9)
"""


@test
def exit_status_is_the_programs():
    for status in (0, 1, 2, 7, 125, 255):
        r = moescope("run", "-o", f"{status}.mscope", "--", "sh", "-c", f"exit {status}")
        equal(r.status, status, r)
        info = run_json(f"{status}.mscope")
        equal(info["status"], "exited")
        equal(info["exit_status"], status)
        check(info["duration_ns"] > 0, info)


@test
def death_by_signal_is_the_programs():
    for number in (signal.SIGSEGV, signal.SIGKILL, signal.SIGTERM, signal.SIGABRT, signal.SIGPIPE):
        name = f"{int(number)}.mscope"
        r = moescope("run", "-o", name, "--", "sh", "-c", f"kill -{int(number)} $$")
        equal(r.status, -number, r)
        info = run_json(name)
        equal(info["status"], "killed")
        equal(info["signal"], int(number))


@test
def no_core_of_our_own():
    resource_limit = resource.getrlimit(resource.RLIMIT_CORE)
    pattern = pathlib.Path("/proc/sys/kernel/core_pattern").read_text(encoding="ascii")
    if resource_limit[1] == 0 or "core" not in pattern or pattern[0] in "|/":
        raise Skip("cores do not appear in the current directory here")

    def allow_cores():
        resource.setrlimit(resource.RLIMIT_CORE, (resource_limit[1], resource_limit[1]))

    # The program forbids its own core; ours must not appear in its place.
    r = subprocess.run([MOESCOPE, "run", "-o", "a.mscope", "--", "sh", "-c",
                        "ulimit -c 0; kill -SEGV $$"], env=environment(), check=False,
                       preexec_fn=allow_cores, stderr=subprocess.DEVNULL)
    equal(r.returncode, -signal.SIGSEGV)
    equal([f for f in os.listdir(".") if "core" in f], [])


@test
def signals_sent_to_us_reach_the_program():
    for name in ("SIGTERM", "SIGHUP", "SIGQUIT", "SIGINT", "SIGUSR1", "SIGUSR2"):
        with start("-f", "--", sys.executable, "-c", AWAIT) as p:
            equal(p.stdout.readline(), "ready\n")
            p.send_signal(getattr(signal, name))
            out, err = p.communicate(timeout=PATIENCE_S)
        equal(out, name + "\n", err)
        equal(p.returncode, 9, err)


@test
def death_by_a_forwarded_signal():
    with start("--", sys.executable, "-c",
               "import time; print('ready', flush=True); time.sleep(60)") as p:
        equal(p.stdout.readline(), "ready\n")
        p.terminate()
        p.communicate(timeout=PATIENCE_S)
    equal(p.returncode, -signal.SIGTERM)
    equal(run_json()["signal"], int(signal.SIGTERM))


# Counts the interrupts that reach it. The request to moescope to pass a SIGUSR1 on comes behind
# whatever moescope was passing on before: when it is back, there is nothing more to come.
COUNT_INTERRUPTS = """
import os, signal
wanted = {signal.SIGINT, signal.SIGUSR1}
signal.pthread_sigmask(signal.SIG_BLOCK, wanted)
print("ready", flush=True)
first = signal.sigwait(wanted)
os.kill(os.getppid(), signal.SIGUSR1)
while signal.SIGUSR1 not in signal.sigpending():
    pass
print(signal.Signals(first).name, signal.SIGINT in signal.sigpending(), flush=True)
"""


def read_until(fd, wanted):
    text = b""
    while wanted not in text:
        check(select.select([fd], [], [], PATIENCE_S)[0], f"no {wanted} in {text}")
        try:
            text += os.read(fd, 4096)
        except OSError:
            raise AssertionError(f"no {wanted} in {text}") from None
    return text


@test
def the_terminals_interrupt_arrives_once():
    pid, master = pty.fork()
    if pid == 0:
        os.execve(MOESCOPE, [MOESCOPE, "run", "-q", "-o", "a.mscope", "--", sys.executable, "-c",
                             COUNT_INTERRUPTS], environment())
    read_until(master, b"ready")
    os.write(master, b"\x03")
    read_until(master, b"SIGINT False")
    equal(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
    os.close(master)


@test
def job_control_of_a_shell():
    pid, master = pty.fork()
    if pid == 0:
        os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"], environment(PS1="$ "))
    read_until(master, b"$ ")
    # What is awaited is never what is typed, since the terminal shows that too.
    program = "'echo rea''dy; read x; echo \"got $x\"; exit 6'"
    os.write(master, f"{MOESCOPE} run -q -o a.mscope -- sh -c {program}\n".encode())
    read_until(master, b"ready\r\n")
    os.write(master, b"\x1a")
    read_until(master, b"Stopped")
    os.write(master, b"fg\n")
    read_until(master, b"run -q")
    os.write(master, b"two\n")
    read_until(master, b"got two")
    os.write(master, b"echo status=$?; exit\n")
    read_until(master, b"status=6")
    os.waitpid(pid, 0)
    os.close(master)


def wait_for_a_change(p):
    """The wait status of a process in a group of its own that stops or ends; soon, or it dies."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        pid, status = os.waitpid(p.pid, os.WUNTRACED | os.WNOHANG)
        if pid:
            return status
        time.sleep(0.001)
    os.killpg(p.pid, signal.SIGKILL)
    p.wait()
    raise AssertionError("it neither stops nor ends")


def own_group():
    os.setpgid(0, 0)


@test
def stop_and_continue_go_together():
    code = ("import os, signal; print(os.getpid(), flush=True); "
            "os.kill(os.getpid(), signal.SIGTSTP); print('on', flush=True)")
    with start("--", sys.executable, "-c", code, preexec_fn=own_group) as p:
        program = int(p.stdout.readline())
        # The program stops itself as those do that put the terminal in order first.
        status = wait_for_a_change(p)
        check(os.WIFSTOPPED(status), status)
        equal(os.WSTOPSIG(status), signal.SIGTSTP)
        state = pathlib.Path(f"/proc/{program}/stat").read_text(encoding="ascii").split()[2]
        equal(state, "T")
        os.kill(p.pid, signal.SIGCONT)
        equal(p.stdout.readline(), "on\n")
        p.communicate(timeout=PATIENCE_S)
    equal(p.returncode, 0)


@test
def stopping_at_any_moment_stops_the_whole_job():
    for i in range(40):
        with start("-f", "--", "true", preexec_fn=own_group) as p:
            # Not to wait for anything, but to hit every stage of the start.
            time.sleep(i * 0.0001)
            os.killpg(p.pid, signal.SIGTSTP)
            status = wait_for_a_change(p)
            while os.WIFSTOPPED(status):
                os.killpg(p.pid, signal.SIGCONT)
                status = wait_for_a_change(p)
            p.returncode = os.waitstatus_to_exitcode(status)
        equal(p.returncode, 0, i)


@test
def inherited_dispositions_and_mask_reach_the_program():
    code = ("import signal; print(signal.getsignal(signal.SIGHUP) == signal.SIG_IGN, "
            "sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, ()))))")

    def before():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, {signal.SIGUSR1})

    with start("--", sys.executable, "-c", code, preexec_fn=before) as p:
        out, err = p.communicate(timeout=PATIENCE_S)
    equal(out, f"True [{int(signal.SIGUSR1)}]\n", err)
    equal(p.returncode, 0, err)


@test
def sigpipe_is_as_inherited():
    # sh leaves it alone, and dies of it only if nobody has set it to be ignored.
    r = moescope("run", "-q", "-o", "a.mscope", "--", "sh", "-c", "kill -PIPE $$; echo alive")
    equal(r.status, -signal.SIGPIPE, r)


@test
def standard_files_pass_through():
    r = moescope("run", "-q", "-o", "a.mscope", "--", "sh", "-c", "cat; echo err >&2",
                 stdin="one\ntwo\n")
    equal(r.status, 0, r)
    equal(r.out, "one\ntwo\n")
    check(r.err.startswith("err\n"), r)
    r = subprocess.run([MOESCOPE, "run", "-q", "-f", "-o", "a.mscope", "--", "sh", "-c",
                        "ls /proc/$$/fd > fds"], stdin=subprocess.DEVNULL, env=environment(),
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    listed = pathlib.Path("fds").read_text(encoding="ascii").split()
    check(not [fd for fd in listed if int(fd) > 2 and int(fd) != 10], listed)


@test
def closed_files_stay_closed():
    r = subprocess.run(["sh", "-c", '"$0" run -q -o a.mscope -- sh -c '
                                    '"test ! -e /proc/self/fd/0" <&-', MOESCOPE],
                       env=environment(), stderr=subprocess.PIPE, check=False)
    equal(r.returncode, 0, r)


@test
def dashes_end_the_options():
    equal(moescope("run", "-q", "-o", "a.mscope", "echo", "-n", "--json").out, "--json")
    equal(moescope("run", "-q", "-o", "b.mscope", "--", "echo", "--", "x").out, "-- x\n")


@test
def environment_of_the_program():
    script = "env | grep ^MOESCOPE_ | sort"
    outer = environment(MOESCOPE_RING_KB="77", MOESCOPE_SCHEDULE="nonsense", MOESCOPE_RUN="/x",
                        MOESCOPE_KERNEL="x", MOESCOPE_RANKS="5", MOESCOPE_BUDGET="off",
                        MOESCOPE_STAY_ATTACHED="1", MOESCOPE_AUTO="x", MOESCOPE_EXACT="a", MOESCOPE_RANGE="a",
                        MOESCOPE_LAUNCH_SKIP="1", MOESCOPE_LAUNCH_COUNT="1", MOESCOPE_LAUNCH_LAYER="1", MOESCOPE_LAUNCH_EXPERT="1")
    r = moescope("run", "-q", "-o", "a.mscope", "--", "sh", "-c", script, env=outer)
    equal(r.out.splitlines(), ["MOESCOPE_AUTO=1", "MOESCOPE_BUDGET=1", "MOESCOPE_DEVICE_MB=128",
                               "MOESCOPE_LEVEL=trace",
                               f"MOESCOPE_RUN={os.path.realpath('a.mscope')}"])
    r = moescope("run", "-q", "-o", "b.mscope", "--level", "full", "--overhead-check", "12",
                 "--ring-kb", "256", "--sample", "3", "--budget", "off", "--kernel", "a|b$",
                 "--ranks", "0,2-3", "--memory-allowance", "1.5GB", "--stay-attached", "--no-auto",
                 "--schedule", "wait=5,warmup=2,active=3,repeat=1", "--", "sh", "-c", script, env=outer)
    equal(r.out.splitlines(), [
        "MOESCOPE_BUDGET=off", "MOESCOPE_DEVICE_MB=1536", "MOESCOPE_KERNEL=a|b$",
        "MOESCOPE_LEVEL=full", "MOESCOPE_OVERHEAD_CHECK=12", "MOESCOPE_RANKS=0,2-3",
        "MOESCOPE_RING_KB=256",
        f"MOESCOPE_RUN={os.path.realpath('b.mscope')}",
        "MOESCOPE_SCHEDULE=skip_first=0,wait=5,warmup=2,active=3,repeat=1,sample=3",
        "MOESCOPE_STAY_ATTACHED=1"])
    info = run_json("b.mscope")
    equal((info["level"], info["kernel"], info["ranks"]), ("full", "a|b$", "0,2-3"))


@test
def budgets():
    for text, pct in (("1%", 1), ("0.5%", 0.5), ("2", 2), ("2.25%", 2.25), ("50", 50), ("off", None)):
        r = moescope("run", "-q", "-f", "-o", "a.mscope", f"--budget={text}", "--", "sh", "-c",
                     "echo $MOESCOPE_BUDGET")
        equal(r.out, "off\n" if pct is None else f"{pct}\n")
        equal(run_json()["budget_pct"], pct)
    record("b.mscope")
    equal(run_json("b.mscope")["budget_pct"], 1)
    for text in ("0", "0%", "51", "-1", "x", "1%%", "", "1 %", "0x1", "inf", "nan", ".", "1.2.3"):
        r = moescope("run", f"--budget={text}", "--", "touch", "ran")
        one_sentence(r, 2, "--budget")
    check(not os.path.exists("ran"), "the program must not have run")


@test
def wrong_values():
    for option, values in (
            ("--ring-kb", ("0", "16", "63", "65537", "1048576")),
            ("--kernel", ("[a", "a(b", "*a{")),
            ("--ranks", ("x", "1,", ",1", "3-2", "1-", "-1", "1;2", "0 ,1", "99999999999")),
            ("--memory-allowance", ("0", "128TB", "-1", "x", "0.5MB", "5000GB", "MB"))):
        for value in values:
            one_sentence(moescope("run", f"{option}={value}", "--", "true"), 2, option)
    equal(os.listdir("."), [])


@test
def the_largest_buffer_is_as_large_as_it_says():
    need(LINKED)
    with start("--ring-kb", "65536", "--", LINKED, "record", "line", stdin=subprocess.PIPE) as p:
        until(lambda: [f for f in pathlib.Path("a.mscope").glob("*.ring")
                       if f.stat().st_size >= 65536 << 10])
        p.communicate(timeout=PATIENCE_S)
    equal(p.returncode, 0)


@test
def only_the_ranks_asked_for():
    need(TINYMOE)
    script = ('for rank in 0 1 2 3 4; do RANK=$rank "$@" > out.$rank || exit 1; done; '
              'OMPI_COMM_WORLD_RANK=7 "$@" > out.7 && SLURM_PROCID=8 "$@" > out.8 && '
              'PMI_RANK=9 "$@" > out.9 && "$@" > out.none')
    program = [TINYMOE, *TINY, "--steps", "2"]
    r = moescope("run", "-q", "-o", "a.mscope", "--ranks", "1,3-4,7", "--", "sh", "-c", script, "sh",
                 *program)
    equal((r.status, r.err), (0, ""), r)
    shards = [n for n in os.listdir("a.mscope") if n.endswith(".mst") and n[0].isdigit()]
    equal(sorted(int(n.split("-")[0]) for n in shards), [1, 3, 4, 7])
    # The others did their work all the same.
    texts = {re.sub(r"[0-9.]+ tokens/s", "", pathlib.Path(f"out.{r}").read_text(encoding="utf-8"))
             for r in (0, 2, 3, 8, 9, "none")}
    check(all("loss" in t for t in texts), texts)
    # A process without a rank is rank 0.
    r = moescope("run", "-q", "-o", "b.mscope", "--ranks", "0", "--", *program)
    equal(len([n for n in os.listdir("b.mscope") if n.endswith(".mst") and n[0].isdigit()]), 1)
    r = moescope("run", "-o", "c.mscope", "--ranks", "5", "--", *program)
    equal(r.status, 0, r)
    check("nothing was recorded" in r.err and "--ranks" in r.err, r)


@test
def schedules_are_those_of_torch_profiler():
    # What torch.profiler.schedule gives for steps 0 to 11, with RECORD and RECORD_AND_SAVE as 1.
    for schedule, recorded in (("wait=1,warmup=1,active=2,repeat=2", "001100110000"),
                               ("wait=1,warmup=1,active=2", "001100110011"),
                               ("skip_first=3,wait=1,warmup=1,active=2,repeat=1", "000001100000"),
                               ("skip_first=2,active=1,wait=2,repeat=0", "000010010010"),
                               ("active=3,repeat=2", "111111000000")):
        record("a.mscope", 12, "-f", "--schedule", schedule)
        rows = json.loads(moescope("steps", "a.mscope", "--json").out)["rows"]
        equal("".join("1" if row["recorded"] else "0" for row in rows), recorded, schedule)
    record("a.mscope", 12, "-f", "--schedule", "wait=2,active=4,repeat=2", "--sample", "2")
    rows = json.loads(moescope("steps", "a.mscope", "--json").out)["rows"]
    equal("".join("1" if row["recorded"] else "0" for row in rows), "001010001010")


@test
def wrong_schedules():
    for schedule, word in (("wat=3", "'wait'"), ("wait", "NAME=STEPS"), ("wait=x", "'x'"),
                           ("wait=-1,active=1", "'-1'"), ("wait=1,wait=2,active=1", "twice"),
                           ("wait=5", "active"), ("wait=1,,active=2", "NAME=STEPS")):
        one_sentence(moescope("run", "--schedule", schedule, "--", "true"), 2, word)
    equal(os.listdir("."), [])


@test
def exec_failures_leave_nothing():
    pathlib.Path("data").write_text("no program", encoding="ascii")
    pathlib.Path("bad").write_text("#!/no/such/interpreter\n", encoding="ascii")
    os.chmod("bad", 0o755)
    one_sentence(moescope("run", "--", "no-such-program-here"), 127, "no-such-program-here",
                 "PATH")
    one_sentence(moescope("run", "--", "./nothing"), 127, "./nothing")
    one_sentence(moescope("run", "--", "./data"), 126, "not an executable")
    one_sentence(moescope("run", "--", "/"), 126)
    # Only the kernel finds this one out, when the directory is already made.
    one_sentence(moescope("run", "--", "./bad"), 127, "./bad")
    equal(sorted(os.listdir(".")), ["bad", "data"])
    os.mkdir("mine.mscope")
    moescope("run", "-o", "mine.mscope", "--", "./bad")
    equal(os.listdir("mine.mscope"), [], "a directory that was there stays")


@test
def existing_directories():
    os.mkdir("empty.mscope")
    equal(moescope("run", "-q", "-o", "empty.mscope", "--", "true").status, 0)
    one_sentence(moescope("run", "-o", "empty.mscope", "--", "touch", "ran"), 1, "--force")
    check(not os.path.exists("ran"), "the program must not have run")
    pathlib.Path("empty.mscope/0-1.mst").write_text("old", encoding="ascii")
    equal(moescope("run", "-f", "--no-host", "-o", "empty.mscope", "--", "sh", "-c", "exit 3").status, 3)
    equal(os.listdir("empty.mscope"), ["run.json"])
    os.mkdir("other")
    pathlib.Path("other/thesis.txt").write_text("dear", encoding="ascii")
    one_sentence(moescope("run", "-f", "-o", "other", "--", "true"), 1, "not a run")
    equal(os.listdir("other"), ["thesis.txt"])
    one_sentence(moescope("run", "-o", "other/thesis.txt", "--", "true"), 1, "is a file")


@test
def a_failed_force_keeps_the_old_run():
    moescope("run", "-q", "-o", "a.mscope", "--", "sh", "-c", "exit 5")
    equal(moescope("run", "-f", "-o", "a.mscope", "--", "no-such-program-here").status, 127)
    equal(run_json()["exit_status"], 5)


def status_of(name="a.mscope"):
    return json.loads(moescope("report", name, "--json").out)["run"]["status"]


@test
def a_run_that_is_written_is_not_replaced():
    need(LINKED)
    with start("--no-host", "--", "cat", stdin=subprocess.PIPE) as p:
        until(lambda: os.path.exists("a.mscope/run.json"))
        r = moescope("run", "-f", "-o", "a.mscope", "--", "touch", "ran")
        one_sentence(r, 1, "is being written")
        equal(status_of(), "running")
        p.communicate(timeout=PATIENCE_S)
    equal(p.returncode, 0)
    equal(sorted(os.listdir(".")), ["a.mscope"])
    equal(os.listdir("a.mscope"), ["run.json"])
    equal(moescope("run", "-q", "-f", "-o", "a.mscope", "--", "touch", "ran").status, 0)


@test
def a_killed_moescope_leaves_an_abandoned_run():
    need(LINKED)
    for whole_group in (False, True):
        with start("-f", "--", LINKED, "record", "line", stdin=subprocess.PIPE,
                   preexec_fn=own_group) as p:
            until(lambda: list(pathlib.Path("a.mscope").glob("*.ring")))
            equal(status_of(), "running")
            if whole_group:
                os.killpg(p.pid, signal.SIGKILL)
            else:
                os.kill(p.pid, signal.SIGKILL)
            p.wait()
            if not whole_group:
                # Its process goes on, and says so by the lock on its buffers.
                equal(status_of(), "running")
                one_sentence(moescope("run", "-f", "-o", "a.mscope", "--", "true"), 1,
                             "is being written")
            p.communicate(timeout=PATIENCE_S)  # its input ends, and so does the program
        # Gone with its locks when its output was closed.
        until(lambda: status_of() != "running")
        equal(status_of(), "abandoned")
        check("still running" not in moescope("report", "a.mscope").out)
    equal(run_json()["status"], "running")
    equal(moescope("run", "-q", "-f", "--no-host", "-o", "a.mscope", "--", "sh", "-c", "exit 3").status, 3)
    equal(os.listdir("a.mscope"), ["run.json"])


@test
def two_that_want_the_same_directory():
    os.mkdir("a.mscope")
    os.mkdir("tmp")
    many = [subprocess.Popen([MOESCOPE, "run", "-q", "-o", "a.mscope", "--", "true"],
                             stderr=subprocess.DEVNULL,
                             env=environment(TMPDIR=os.path.abspath("tmp"))) for _ in range(8)]
    statuses = [p.wait() for p in many]
    # One has it; the others are refused, or go to TMPDIR when they were a moment too late.
    check(statuses.count(0) == 1 + len(os.listdir("tmp")), statuses, os.listdir("tmp"))
    equal(run_json()["status"], "exited")


@test
def unwritable_directory_falls_back():
    os.mkdir("tmp")
    r = moescope("run", "-o", "/proc/b.mscope", "--", "sh", "-c", "echo out; exit 4",
                 env=environment(TMPDIR=os.path.abspath("tmp")))
    equal(r.status, 4, r)
    equal(r.out, "out\n")
    check("tmp/b.mscope because" in r.err.splitlines()[0], r)
    info = run_json("tmp/b.mscope")
    equal(info["exit_status"], 4)
    check("/proc/b.mscope" in info["notes"], info)


@test
def no_directory_at_all_runs_unrecorded():
    r = moescope("run", "-o", "/proc/b.mscope", "--", "sh", "-c",
                 "echo out $MOESCOPE_RUN; exit 4", env=environment(TMPDIR="/proc"))
    equal(r.status, 4, r)
    equal(r.out, "out\n")
    equal(len(r.err.splitlines()), 1, r)
    check("nothing is recorded" in r.err, r)


@test
def full_disk_falls_back():
    if os.geteuid() != 0:
        raise Skip("mounting a small file system needs root")
    os.mkdir("small")
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "none", "small"],
                      stderr=subprocess.DEVNULL, check=False).returncode != 0:
        raise Skip("cannot mount here")
    try:
        fill = os.open("small/fill", os.O_WRONLY | os.O_CREAT)
        try:
            while True:
                os.write(fill, b"x" * 4096)
        except OSError as full:
            equal(full.errno, errno.ENOSPC)
        finally:
            os.close(fill)
        os.mkdir("tmp")
        r = moescope("run", "-o", "small/b.mscope", "--", "sh", "-c", "echo out; exit 4",
                     env=environment(TMPDIR=os.path.abspath("tmp")))
        equal(r.status, 4, r)
        equal(r.out, "out\n")
        equal(os.listdir("small"), ["fill"])
        equal(run_json("tmp/b.mscope")["exit_status"], 4)
    finally:
        subprocess.run(["umount", "small"], check=False)


@test
def disk_full_while_recording_leaves_the_program_alone():
    need(TINYMOE)
    if os.geteuid() != 0:
        raise Skip("mounting a small file system needs root")
    os.mkdir("small")
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", "small"],
                      stderr=subprocess.DEVNULL, check=False).returncode != 0:
        raise Skip("cannot mount here")
    try:
        plain = subprocess.run([TINYMOE, *TINY, "--steps", "40", "--log-every", "10"],
                               stdout=subprocess.PIPE, text=True, env=environment(), check=True)
        r = moescope("run", "-o", "small/b.mscope", "--", TINYMOE, *TINY, "--steps", "40",
                     "--log-every", "10")
        equal(r.status, 0, r)
        equal(*(re.sub(r"tokens/s [0-9]+|[0-9.]+ s\b", "", text) for text in (r.out, plain.stdout)))
    finally:
        subprocess.run(["umount", "small"], check=False)


@test
def default_name_and_last_line():
    need(TINYMOE)
    r = moescope("run", "--", TINYMOE, *TINY, "--steps", "3")
    equal(r.status, 0, r)
    names = [n for n in os.listdir(".") if n.endswith(".mscope")]
    equal(len(names), 1)
    check(names[0].startswith("moescope-"), names)
    equal(r.err, f"moescope: run in {names[0]}; next: moescope report {names[0]}\n")


@test
def quiet_says_nothing():
    need(TINYMOE)
    r = moescope("run", "-q", "--", TINYMOE, *TINY, "--steps", "3")
    equal((r.status, r.err), (0, ""), r)


@test
def a_program_that_records_nothing_is_told_so():
    r = moescope("run", "-o", "a.mscope", "--", "true")
    equal(r.status, 0, r)
    equal(len(r.err.splitlines()), 1, r)
    check("nothing was recorded" in r.err and "'true'" in r.err, r)


@test
def temporary_files_are_not_left():
    need(TINYMOE)
    os.mkdir("tmp")
    r = moescope("run", "-q", "-o", "a.mscope", "--", TINYMOE, *TINY, "--steps", "6",
                 env=environment(TMPDIR=os.path.abspath("tmp")))
    equal(r.status, 0, r)
    equal(os.listdir("tmp"), [])
    check(not [n for n in os.listdir("a.mscope") if n.endswith((".tmp", ".ring"))],
          os.listdir("a.mscope"))


if __name__ == "__main__":
    main()
