# SPDX-License-Identifier: Apache-2.0
"""The machine under a program: moescope host, and what verdicts say of programs with one known trouble each.

Others may use the machine, too. The tests measure that themselves, and accept to be told so first.
"""

import contextlib
import csv
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys

from cli import MOESCOPE, OF_OTHERS, Skip, check, environment, equal, main, moescope, test

PROBLEMS = str(pathlib.Path(__file__).with_name("host_problems.py"))
SECONDS = 4
TRIES = 3
CPUS = len(os.sched_getaffinity(0))
CGROUPS = pathlib.Path("/sys/fs/cgroup")


def python():
    """The program itself: a script in front of it would be one more process."""
    return os.path.realpath(sys.executable)


def ticks():
    """Ticks of all processors: in programs and the kernel, and stolen."""
    words = pathlib.Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]
    user, nice, system, _, _, irq, soft, stolen = map(int, words)
    return user + nice + system + irq + soft, stolen


def cpu_s():
    times = os.times()
    return times.children_user + times.children_system


def record(*command, before=()):
    """Runs a program under moescope; what others used meanwhile, in processors."""
    busy, stolen = ticks()
    own, start = cpu_s(), os.times().elapsed
    process = subprocess.run([*before, MOESCOPE, "run", "-q", "-o", "a.mscope", "--", *command],
                             env=environment(), capture_output=True, text=True, check=False,
                             timeout=600)
    equal(process.returncode, 0, process.stderr)
    after, stolen_after = ticks()
    used = (after - busy + stolen_after - stolen) / os.sysconf("SC_CLK_TCK") - (cpu_s() - own)
    return used / (os.times().elapsed - start)


def judge(name, wanted, *arguments, before=(), busy=False):
    """The first verdict on a program, but for those about others where others were there. Where they take most of
    the machine the program's own trouble may not be what holds it up: then it is tried again. busy: they are the trouble."""
    for _ in range(TRIES):
        others = record(python(), PROBLEMS, name, str(SECONDS), *map(str, arguments), before=before)
        r = moescope("report", "a.mscope", "--json")
        equal(r.status, 0, r)
        verdicts = [v["id"] for v in json.loads(r.out)["verdicts"]]
        told = [v for v in verdicts if v == wanted or others < 0.2 or v not in OF_OTHERS]
        if told and told[0] == wanted:
            return
        check(others > CPUS / 2 and not busy, f"wanted {wanted}, got {verdicts}",
              f"others used {others:.2f} processors", moescope("host", "a.mscope").out)
        shutil.rmtree("a.mscope")
    raise Skip(f"others used {others:.2f} of {CPUS} processors; the last verdicts were {verdicts}")


@contextlib.contextmanager
def group(controller, files):
    """A new control group with these values in it; words that put a program there. Skips where none can be made."""
    v2 = (CGROUPS / "cgroup.controllers").exists()
    parent = CGROUPS if v2 else CGROUPS / controller
    folder = parent / f"moescope-test-{os.getpid()}"
    try:
        if not v2 and not (parent / "cgroup.procs").exists():
            raise OSError("no such controller")
        folder.mkdir()
        try:
            for name, value in files[v2].items():
                (folder / name).write_text(value, encoding="ascii")
            probe = subprocess.run(["sh", "-c", f"echo $$ > {folder}/cgroup.procs"],
                                   capture_output=True, check=False)
            if probe.returncode:
                raise OSError("cannot be entered")
            yield ["sh", "-c", f"echo $$ > {folder}/cgroup.procs && exec \"$@\"", "sh"]
        finally:
            folder.rmdir()
    except OSError as failure:
        raise Skip(f"no control group for {controller} can be made here: {failure}") from failure


def need_processors():
    if CPUS < 2:
        raise Skip("needs two processors")


@test
def throttled():
    files = ({"cpu.cfs_quota_us": "30000", "cpu.cfs_period_us": "100000"},
             {"cpu.max": "30000 100000"})
    with group("cpu", files) as enter:
        judge("crowd", "host-throttled", 2, before=enter)


@test
def pinned():
    need_processors()
    judge("pinned", "host-pinned")


@contextlib.contextmanager
def spinning(n, *command):
    others = [subprocess.Popen(command) for _ in range(n)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
        for other in others:
            other.wait()


@test
def neighbours():
    with spinning(3 * CPUS, python(), PROBLEMS, "alone", "600"):
        judge("alone", "host-neighbours", busy=True)


@test
def many_small_neighbours():
    """So many that none of them has a twentieth of a processor; all behind whatever else runs here."""
    own, start = cpu_s(), os.times().elapsed
    with spinning(25 * CPUS, "nice", "sh", "-c", "while :; do :; done"):
        judge("alone", "host-neighbours", before=["nice"], busy=True)
    # Almost all of it theirs. On a busy machine that is less than all processors.
    used = (cpu_s() - own) / (os.times().elapsed - start)
    others = float(json.loads(moescope("host", "a.mscope", "--json").out)["total"]["others_cpus"])
    check(others > used / 2, others, used)


@test
def oversubscribed():
    judge("crowd", "host-oversubscribed", 6 * CPUS)


@test
def disk_reads():
    pathlib.Path("data").write_bytes(os.urandom(64 << 20))
    fd = os.open("data", os.O_RDWR)
    os.fsync(fd)
    os.close(fd)
    try:
        os.close(os.open("data", os.O_RDONLY | os.O_DIRECT))
    except OSError as failure:
        raise Skip(f"no direct reads in {os.getcwd()}: {failure}") from failure
    judge("reading", "host-disk-bound", "data")


@test
def disk_writes():
    if os.statvfs(".").f_bsize and "tmpfs" in subprocess.run(
            ["stat", "-f", "-c", "%T", "."], capture_output=True, text=True, check=False).stdout:
        raise Skip("the temporary directory is memory")
    judge("writing", "host-disk-bound", "data")


@test
def leak():
    judge("leaking", "host-leak")


@test
def memory_limit():
    limit = 256 << 20
    files = ({"memory.limit_in_bytes": str(limit)}, {"memory.max": str(limit)})
    with group("memory", files) as enter:
        judge("full", "host-memory-limit", limit - (30 << 20), before=enter)


@test
def python_lock():
    need_processors()
    judge("python_lock", "host-one-at-a-time")


@test
def network():
    judge("sending", "host-network-bound")


@test
def sleeping_lock():
    judge("sleeping_lock", "host-waiting")


@test
def figures():
    """Against what the program says of itself."""
    program = ("import hashlib, os, resource, time\n"
               "until = time.monotonic() + 3\n"
               "held = [os.urandom(1 << 20) for _ in range(100)]\n"
               "while time.monotonic() < until: hashlib.sha256(held[0]).digest()\n"
               "u = resource.getrusage(resource.RUSAGE_SELF)\n"
               "open('told', 'w').write(f'{u.ru_utime + u.ru_stime} {u.ru_maxrss * 1024}')\n")
    record(python(), "-c", program)
    cpu, peak = map(float, pathlib.Path("told").read_text(encoding="ascii").split())
    r = moescope("host", "a.mscope", "--json")
    rows, total = (json.loads(r.out)[key] for key in ("rows", "total"))
    row = max(rows, key=lambda row: row["user_ns"])
    # Looks are a second apart at most where the machine is not very busy.
    seen = (row["user_ns"] + row["system_ns"]) / 1e9
    check(0 <= cpu - seen + 0.05 < max(1.5, cpu / 2), cpu, row)
    check(0.9 * peak < row["peak_resident_bytes"] < 1.05 * peak, peak, row)
    equal(total["cpus"], os.cpu_count() if os.cpu_count() else total["cpus"])
    check(total["memory_bytes"] > total["least_available_bytes"] > 0, total)
    times = json.loads(moescope("host", "a.mscope", "--columns", "times", "--json").out)["rows"]
    check(sum(t["program_cpus"] * t["duration_ns"] for t in times) / 1e9 > 0.8 * seen, times, row)
    for table in ("processes", "parts", "times"):
        r = moescope("host", "a.mscope", "--columns", table)
        equal(r.status, 0, r)
        check(all(len(line) <= 80 for line in r.out.splitlines()), r.out)
        r = moescope("host", "a.mscope", "--columns", table, "--csv")
        check(len(list(csv.DictReader(io.StringIO(r.out)))) > 0, r)


@test
def cost():
    """What looking takes is in the run, and is what the kernel says of the thread."""
    record(python(), PROBLEMS, "alone", "20")
    total = json.loads(moescope("host", "a.mscope", "--json").out)["total"]
    check(0 < total["own_pct"] < 0.25, total)


@test
def none():
    """Nothing is read where nothing shall be, and a run without it says so."""
    r = moescope("run", "-o", "a.mscope", "--no-host", "--", "true")
    check("nothing was recorded:" in r.err, r)
    equal(list(pathlib.Path("a.mscope").glob("*.mst")), [])
    r = moescope("host", "a.mscope")
    equal(r.status, 0, r)
    check("nothing was read of the machine" in r.out, r)


@test
def attached():
    program = subprocess.Popen([python(), PROBLEMS, "alone", "600"])
    try:
        r = moescope("attach", program.pid, "-o", "a.mscope", "--duration", "2s")
        if r.status:
            raise Skip(r.err.strip())
        rows = json.loads(moescope("host", "a.mscope", "--json").out)["rows"]
        row, = [row for row in rows if row["pid"] == program.pid]
        # Since it was attached to, not since it began.
        check(0.02 < row["cpus"] < 1.1, row)
    finally:
        program.kill()
        program.wait()


if __name__ == "__main__":
    main()
