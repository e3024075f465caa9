# SPDX-License-Identifier: Apache-2.0
"""A program ends, prints and writes under moescope as it does without: status or signal, standard
output, standard error, files.

Each row of ROWS is a program (actions of program.c), the function that does something to it, if any,
and what is done to the process before it becomes the program, if anything. A row is run alone and
under `moescope run`, with a program that knows nothing of moescope and with one that has its library
inside.
"""

import ctypes
import os
import pathlib
import pty
import resource
import select
import signal
import subprocess
import time

from cli import MOESCOPE, PATIENCE_S, check, environment, equal, main, need, test

TESTS = os.path.join(os.path.dirname(MOESCOPE), "tests")
PROGRAMS = [os.path.join(TESTS, name) for name in ("plain-program", "linked-program")]
# What moescope may add to standard error, under --quiet.
STATED = (b"moescope: nothing was recorded", b"moescope: nothing is recorded")


def heed_signals():
    """As a shell starts a program; nohup and scripts' '&' have had these ignored."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


class Running:
    """A program with its standard files and the pipe on which it reports."""

    def __init__(self, command, directory, before=lambda: None):
        def prepare():
            os.setpgid(0, 0)  # a job, as a shell would make it
            heed_signals()
            before()

        self.read_fd, write_fd = os.pipe()
        self.text = b""
        os.mkdir(directory)
        self.directory = directory
        self.process = subprocess.Popen(
            command, cwd=directory, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, preexec_fn=prepare, pass_fds=(write_fd,),
            env=environment(CONTROL_FD=write_fd))
        os.close(write_fd)
        self.pid = self.process.pid  # the program itself, or moescope

    def line(self):
        """What the program reports next."""
        while b"\n" not in self.text:
            check(select.select([self.read_fd], [], [], PATIENCE_S)[0], "the program says nothing")
            part = os.read(self.read_fd, 4096)
            check(part, "the program is gone")
            self.text += part
        line, self.text = self.text.split(b"\n", 1)
        return line.decode()

    def program(self):
        """Waits until it is where it waits for us; its PID."""
        return int(self.line().removeprefix("pid "))

    def end(self):
        try:
            # Its input stays open: an end of file would be another thing that happens to it.
            self.process.wait(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.abandon()
            raise
        out, err = self.process.communicate()
        os.close(self.read_fd)
        files = {path.name: path.read_bytes() for path in pathlib.Path(self.directory).iterdir()}
        err = b"".join(line for line in err.splitlines(True)
                       if not line.startswith(STATED))
        return {"status": self.process.returncode, "stdout": out, "stderr": err, "files": files}

    def abandon(self):
        os.killpg(self.pid, signal.SIGKILL)
        self.process.communicate()


def state_of(pid):
    text = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    return text.rpartition(")")[2].split()[0]


def until_state(pid, states):
    deadline = time.monotonic() + PATIENCE_S
    while state_of(pid) not in states:
        check(time.monotonic() < deadline, f"{pid} is in state {state_of(pid)}, not in {states}")
        time.sleep(0.001)


def under(program, words, **kwargs):
    return Running([MOESCOPE, "run", "-q", "-o", "../run.mscope", "--", program, *words], "under",
                   **kwargs)


# What is done to the program. `running.pid` is whom a shell knows: the program, or moescope.

def signals_to_process(running):
    running.program()
    for number in FORWARDED:
        os.kill(running.pid, number)
        equal(running.line(), f"signal {number:03}")
    os.kill(running.pid, signal.SIGRTMAX)


def signals_to_group(running):
    running.program()
    for number in FORWARDED:
        os.killpg(running.pid, number)
        equal(running.line(), f"signal {number:03}")
    os.kill(running.pid, signal.SIGRTMAX)


def many_to_process(running):
    running.program()
    for i in range(400):
        number = (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT, signal.SIGALRM)[i % 4]
        os.kill(running.pid, number)
        equal(running.line(), f"signal {number:03}")
    os.kill(running.pid, signal.SIGRTMAX)


def many_to_group(running):
    running.program()
    for i in range(400):
        number = (signal.SIGUSR1, signal.SIGTERM)[i // 200]
        os.killpg(running.pid, number)
        equal(running.line(), f"signal {number:03}")
    os.kill(running.pid, signal.SIGRTMAX)


def values_in_order(running):
    """Real-time signals queue: none is merged, whoever sent it."""
    program = running.program()
    for i in range(20):
        os.kill(running.pid, signal.SIGRTMIN + 3)
        os.killpg(running.pid, signal.SIGRTMIN + 3)
        os.kill(program, signal.SIGRTMIN + 3)
    for i in range(60):
        equal(running.line(), f"signal {signal.SIGRTMIN + 3:03}")
    os.kill(running.pid, signal.SIGRTMAX)


def stop_and_continue_alone(stop):
    def drive(running):
        program = running.program()
        os.kill(program, stop)
        until_state(program, "T")
        os.kill(program, signal.SIGCONT)
        until_state(program, "SR")
        running.process.stdin.write(b"go on\n")
        running.process.stdin.flush()
    return drive


def stop_and_continue_group(running):
    program = running.program()
    for stop in (signal.SIGSTOP, signal.SIGSTOP):
        os.killpg(running.pid, stop)
        until_state(program, "T")
        until_state(running.pid, "T")
        os.killpg(running.pid, signal.SIGCONT)
        until_state(program, "SR")
        until_state(running.pid, "SR")
    running.process.stdin.write(b"go on\n")
    running.process.stdin.flush()


def continue_what_is_known(running):
    """The program is stopped; whoever continues the process he started continues it."""
    program = running.program()
    os.kill(program, signal.SIGSTOP)
    until_state(program, "T")
    os.kill(running.pid, signal.SIGCONT)
    until_state(program, "SR")
    running.process.stdin.write(b"go on\n")
    running.process.stdin.flush()


def killed_by(number, whom):
    def drive(running):
        program = running.program()
        {"group": lambda: os.killpg(running.pid, number), "program": lambda: os.kill(program, number),
         "process": lambda: os.kill(running.pid, number)}[whom]()
    return drive


def close_standard_files():
    for fd in range(3):
        os.close(fd)


def no_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))


# Every signal that a process can take and that does not belong to its parent.
FORWARDED = [number for number in sorted(signal.valid_signals())
             if number not in (signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGRTMAX)]
LONG = [f"{i:04}" + "x" * 1020 for i in range(1024)]  # a MiB

ROWS = (
    ("status_0", "out=a err=b file=f record exit=0", None),
    ("status_7", "out=a err=b file=f record exit=7", None),
    ("status_255", "record exit=255", None),
    ("returns_from_main", "record out=a", None),
    *((f"death_by_signal_{int(n)}", f"out=a file=f record kill={int(n)}", None)
      for n in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGILL, signal.SIGABRT,
                signal.SIGBUS, signal.SIGFPE, signal.SIGKILL, signal.SIGSEGV, signal.SIGPIPE,
                signal.SIGALRM, signal.SIGTERM, signal.SIGVTALRM, signal.SIGPROF, signal.SIGIO,
                signal.SIGSYS, signal.SIGXCPU, signal.SIGRTMIN, signal.SIGRTMAX)),
    ("dispositions_and_mask", "signals", None),
    ("descriptors", "descriptors", None),
    ("closed_standard_files", "out=a err=b file=f record exit=5", None, close_standard_files),
    ("file_size_limit", "out=a err=b record exit=5", None, no_files),
    ("arguments_of_1_mib", ["record", "sum", "end", *LONG], None),
    ("signals_to_process", "record count record exit=3", signals_to_process),
    ("signals_to_group", "record count record exit=3", signals_to_group),
    ("many_signals_to_process", "record count", many_to_process),
    ("many_signals_to_group", "record count", many_to_group),
    ("queued_signals", "record count", values_in_order),
    ("stopped_and_continued_alone", "record line exit=4", stop_and_continue_alone(signal.SIGSTOP)),
    ("stopped_by_tstp_and_continued_alone", "record line exit=4",
     stop_and_continue_alone(signal.SIGTSTP)),
    ("stopped_and_continued_as_a_group", "record line exit=4", stop_and_continue_group),
    ("stopped_alone_and_continued_by_its_parent", "record line exit=4", continue_what_is_known),
    ("group_of_its_own_and_a_signal", "group record line", killed_by(signal.SIGTERM, "process")),
    *((f"killed_by_{int(n)}_to_{whom}", "out=a file=f record line", killed_by(n, whom))
      for n in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM, signal.SIGPROF, signal.SIGVTALRM,
                signal.SIGIO, signal.SIGSEGV, signal.SIGRTMIN + 1)
      for whom in ("process", "group", "program")),
    ("killed_by_sigkill_to_program", "record line", killed_by(signal.SIGKILL, "program")),
    ("killed_by_sigkill_to_group", "record line", killed_by(signal.SIGKILL, "group")),
)


def compare(words, drive, before, programs):
    words = words.split() if isinstance(words, str) else words
    for number, program in enumerate(programs):
        need(program)
        os.mkdir(str(number))
        os.chdir(str(number))
        ends = []
        for start in (lambda: Running([program, *words], "bare", before),
                      lambda: under(program, words, before=before)):
            running = start()
            try:
                if drive:
                    drive(running)
            except BaseException:
                running.abandon()
                raise
            ends.append(running.end())
        equal(ends[1], ends[0], os.path.basename(program))
        os.chdir("..")


def add_row(name, words, drive, before=lambda: None):
    def row():
        compare(words, drive, before, PROGRAMS)

    row.__name__ = name
    test(row)


for one in ROWS:
    add_row(*one)


@test
def a_long_command_is_cut_and_the_run_opens():
    need(PROGRAMS[1])
    running = under(PROGRAMS[1], ["record", "end", *LONG])
    equal(running.end()["status"], 0)
    r = subprocess.run([MOESCOPE, "report", "run.mscope"], capture_output=True, text=True,
                       env=environment(), check=False)
    equal((r.returncode, r.stderr), (0, ""))
    check("arguments more" in r.stdout, r.stdout[:2000])


@test
def values_of_queued_signals_arrive():
    libc = ctypes.CDLL(None, use_errno=True)
    code = ("import os, signal; s = {signal.SIGRTMIN + 2}; signal.pthread_sigmask(signal.SIG_BLOCK, s); "
            "os.write(int(os.environ['CONTROL_FD']), b'pid %d\\n' % os.getpid()); "
            "i = signal.sigwaitinfo(s); print(i.si_code, i.si_pid)")
    running = under("python3", ["-c", code])
    running.program()
    equal(libc.sigqueue(running.pid, signal.SIGRTMIN + 2, ctypes.c_void_p(77)), 0)
    equal(running.end()["stdout"].decode(), f"-1 {os.getpid()}\n")


@test
def an_alarm_set_before_is_the_programs():
    running = under(PROGRAMS[0], ["line"], before=lambda: signal.setitimer(signal.ITIMER_REAL, 0.2))
    equal(running.end()["status"], -signal.SIGALRM)


@test
def moescope_waits_for_a_program_that_others_stopped():
    running = under(PROGRAMS[1], ["record", "line"])
    program = running.program()
    os.kill(program, signal.SIGSTOP)
    until_state(program, "T")
    # Passed on behind the news of the stop, which has the smaller number.
    os.kill(running.pid, signal.SIGUSR1)
    deadline = time.monotonic() + PATIENCE_S
    while not int(pending(program), 16) & 1 << signal.SIGUSR1 - 1:
        check(time.monotonic() < deadline, "SIGUSR1 is not passed on")
    check(state_of(running.pid) in "SR", state_of(running.pid))
    os.kill(program, signal.SIGCONT)
    equal(running.end()["status"], -signal.SIGUSR1)


def pending(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return text.split("ShdPnd:")[1].split()[0]


def on_terminal(command):
    pid, master = pty.fork()
    if pid == 0:
        heed_signals()
        os.execve(command[0], command, environment())
    return pid, master


# The kernel tells the leader of the session, which is moescope here. A program that reads the terminal
# may see its end before the signal is passed on; so this one does not read.
@test
def hangup_of_the_terminal_reaches_the_program():
    need(PROGRAMS[0])
    ends = []
    for command in ([PROGRAMS[0]], [MOESCOPE, "run", "-q", "-o", "a.mscope", "--", PROGRAMS[0]]):
        pid, master = on_terminal([*command, "out=ready", "wait"])
        text = b""
        while b"ready" not in text:
            text += os.read(master, 100)
        os.close(master)
        ends.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    equal(ends, [-signal.SIGHUP] * 2)


def read_until(master, wanted):
    text = b""
    while wanted not in text:
        check(select.select([master], [], [], PATIENCE_S)[0], f"no {wanted} in {text}")
        text += os.read(master, 4096)
    return text


@test
def a_shell_sees_its_job_stop_and_go_on():
    need(PROGRAMS[1])
    os.mkfifo("input")
    input_fd = os.open("input", os.O_RDWR)
    for name, command in (("bare", ""), ("under", f"{MOESCOPE} run -q -o a.mscope -- ")):
        read_fd, write_fd = os.pipe()
        pid, master = pty.fork()
        if pid == 0:
            heed_signals()
            os.set_inheritable(write_fd, True)
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"],
                       environment(PS1="$ ", CONTROL_FD=write_fd))
        os.close(write_fd)
        read_until(master, b"$ ")
        os.write(master, f"{command}{PROGRAMS[1]} record line exit=4 < input\n".encode())
        program = int(os.read(read_fd, 100).split()[1])
        # By somebody else, while the shell waits for it in the foreground.
        os.kill(program, signal.SIGSTOP)
        read_until(master, b"Stopped")
        os.write(master, b"fg\n")
        until_state(program, "SR")
        os.write(master, b"\x1a")
        read_until(master, b"Stopped")
        # The program alone is continued: the shell learns it from the process that it knows.
        os.kill(program, signal.SIGCONT)
        until_state(program, "SRT")
        deadline = time.monotonic() + PATIENCE_S
        while True:
            os.write(master, b"jobs; echo en''d\n")
            if b"Running" in read_until(master, b"end\r\n"):
                break
            check(time.monotonic() < deadline, f"{name}: the job does not go on")
        os.write(master, b"fg\n")
        read_until(master, b"line exit=4")
        os.write(input_fd, b"typed\n")
        read_until(master, b"typed\r\n")
        os.write(master, b"echo status=$?; exit\n")
        read_until(master, b"status=4")
        os.waitpid(pid, 0)
        os.close(master)
        os.close(read_fd)
    os.close(input_fd)


if __name__ == "__main__":
    main()
