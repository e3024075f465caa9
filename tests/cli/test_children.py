# SPDX-License-Identifier: Apache-2.0
"""moescope run and processes: children and grandchildren, CUDA late or never, every way to end.

The program is tests/fake/cuda_program.c, which is not linked with moescope: the library comes into
it as into any CUDA program, through the (scripted) driver and the real NVTX header.
"""

import json
import os
import pathlib
import signal
import sys

from cli import MOESCOPE, check, environment, equal, main, moescope, need, test

TESTS = os.path.join(os.path.dirname(MOESCOPE), "tests")
PROGRAM = os.path.join(TESTS, "cuda-program")
DRIVER = os.path.join(TESTS, "libfake_driver.so")


def run(*words, options=(), **changes):
    need(PROGRAM)
    env = environment(MOESCOPE_CUPTI=os.path.join(TESTS, "libfake_cupti.so"),
                      MOESCOPE_NVML=os.path.join(TESTS, "libfake_nvml.so"), P=PROGRAM,
                      CUDA_INJECTION64_PATH=None, NVTX_INJECTION64_PATH=None, **changes)
    return moescope("run", "-f", "-q", "-o", "a.mscope", "--budget", "off", *options, "--", *words,
                    env=env)


def shards():
    """Those of processes, not of the machine."""
    return sorted(pathlib.Path("a.mscope").glob("[0-9]*.mst"))


def pids():
    return {int(path.stem.split("-")[1]) for path in shards()}


def rows(kind, path=None):
    """The number of records of a kind, of a shard or of all."""
    total = 0
    for shard in [path] if path else shards():
        dump = json.loads(moescope("dump", "--json", shard).out)
        total += sum(chunk["records"] for chunk in dump["rows"] if chunk["kind"] == kind)
    return total


@test
def two_programs_at_once_have_a_shard_each():
    r = run("bash", "-c", '"$P" cuda=10 & "$P" cuda=20; wait')
    equal((r.status, r.err), (0, ""), r)
    equal(sorted(rows("kernel", path) for path in shards()), [10, 20])
    check(not list(pathlib.Path("a.mscope").glob("*.ring")), "buffers are left")
    kernels = json.loads(moescope("kernels", "a.mscope", "--json").out)
    equal(kernels["total"]["count"], 30)


@test
def a_grandchild_behind_shells_that_loads_cuda_late():
    r = run("sh", "-c", 'echo shell; env -u NOTHING sh -c \'"$P" maps pid fork=0 maps cuda=5 maps\'')
    equal(r.status, 0, r)
    lines = r.out.splitlines()
    equal((lines[0], lines[1], lines[3], lines[4]), ("shell", "not mapped", "not mapped", "mapped"))
    equal(pids(), {int(lines[2])})
    equal(rows("kernel"), 5)


@test
def an_exec_after_cuda_has_a_shard_for_each_program():
    # The same process: the program before the exec keeps what it had recorded.
    r = run("sh", "-c", f'"$P" cuda=3 && exec {sys.executable} -c "$0"',
            "import ctypes, os; d = ctypes.CDLL(os.environ['D']); d.cuInit(0); "
            "d.fake_driver_launch(4); os.execv(os.environ['P'], ['p', 'cuda=6'])", D=DRIVER)
    equal(r.status, 0, r)
    equal(sorted(rows("kernel", path) for path in shards()), [3, 4, 6])
    equal(len(pids()), 2)


@test
def a_program_without_cuda_is_not_touched():
    r = run("sh", "-c", '"$P" maps; "$P" fork maps')
    equal((r.status, r.out), (0, "not mapped\nnot mapped\n"), r)
    equal(shards(), [])
    check("nothing was recorded" in r.err and "CUDA" in r.err, r)
    # It is not even a run without records that fails to open.
    equal(moescope("report", "a.mscope").status, 0)


@test
def forked_children_without_cuda_leave_nothing():
    r = run("sh", "-c", '"$P" pid cuda=4 fork=3 fork=0 cuda=5 fork=7')
    equal(r.status, 0, r)
    equal(pids(), {int(r.out)})
    equal(rows("kernel"), 9)


@test
def a_child_that_uses_cuda_when_its_parent_does_not():
    r = run(PROGRAM, "pid", "fork", "pid", "cuda=8", "exit=6")
    equal(r.status, 6, r)
    parent, child = map(int, r.out.split())
    check(parent != child)
    equal(pids(), {child})
    equal(rows("kernel"), 8)


@test
def a_child_that_uses_cuda_when_its_parent_has_the_library():
    r = run(PROGRAM, "pid", "fork", "pid", "cuda=8", "exit=6", options=["--calls", "osrt"])
    equal(r.status, 6, r)
    equal(pids(), set(map(int, r.out.split())))
    equal(rows("kernel"), 8)


@test
def every_end_keeps_what_was_delivered():
    for word, status in (("exit=3", 3), ("_exit=4", 4), ("kill", -signal.SIGKILL),
                         ("segv", -signal.SIGSEGV)):
        r = run(PROGRAM, "cuda=50", "nvtx", word)
        equal(r.status, status, word, r)
        equal((rows("kernel"), rows("range"), rows("span"), rows("payload")), (50, 2, 1, 1), word)
        equal(list(pathlib.Path("a.mscope").glob("*.ring")), [], word)


@test
def os_exit_of_python_keeps_what_was_delivered():
    r = run(sys.executable, "-c",
            "import ctypes, os; d = ctypes.CDLL(os.environ['D']); d.cuInit(0); "
            "d.fake_driver_launch(12); os._exit(5)", D=DRIVER)
    equal(r.status, 5, r)
    equal(rows("kernel"), 12)


@test
def a_child_killed_under_a_shell_keeps_what_was_delivered():
    r = run("bash", "-c", '"$P" cuda=9 kill; "$P" cuda=2 _exit=0')
    equal(r.status, 0, r)
    equal(sorted(rows("kernel", path) for path in shards()), [2, 9])


@test
def only_some_ranks():
    r = run("sh", "-c", 'RANK=0 "$P" cuda=1; RANK=1 "$P" cuda=2 nvtx; RANK=2 "$P" cuda=4',
            options=("--ranks", "0,2"))
    equal((r.status, r.err), (0, ""), r)
    equal(sorted((path.stem.split("-")[0], rows("kernel", path)) for path in shards()),
          [("0", 1), ("2", 4)])


@test
def nvtx_without_cuda_is_recorded():
    r = run(PROGRAM, "nvtx")
    equal(r.status, 0, r)
    equal((rows("range"), rows("span"), rows("payload"), rows("kernel")), (2, 1, 1, 0))
    r = moescope("export", "a.mscope", "--to", "chrome", "-o", "-")
    events = json.loads(r.out)["traceEvents"]
    spans = {e["ph"]: e for e in events if e["ph"] in "be"}
    equal(sorted(spans), ["b", "e"])
    equal((spans["b"]["name"], spans["b"]["id"], spans["b"]["args"]["domain"]),
          ("request", spans["e"]["id"], "library"))
    payloads = [e for e in events if e.get("args", {}).get("record") == "payload"]
    equal([(e["name"], e["args"]["payload"], e["args"]["domain"]) for e in payloads],
          [("request", -7, "library")])
    outer, inner = (next(e for e in events if e["name"] == name)
                    for name in ("outer", "library/inner"))
    # Two domains that do not nest: the outer one ends first.
    check(outer["ts"] <= inner["ts"] <= outer["ts"] + outer["dur"] <= inner["ts"] + inner["dur"],
          outer, inner)


if __name__ == "__main__":
    main()
