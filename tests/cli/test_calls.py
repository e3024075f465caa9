# SPDX-License-Identifier: Apache-2.0
"""Calls into libraries: run --calls, moescope calls. Counts are exact and times those of the program's own clock; sizes
come from libraries that look like cuBLAS and so on; and nothing changes for the program."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys

from cli import MOESCOPE, PATIENCE_S, check, environment, equal, main, moescope, need, one_sentence, test

BUILD = pathlib.Path(MOESCOPE).parent
PROGRAM = str(BUILD / "tests" / "calls-program")
USER = str(BUILD / "tests" / "libdevice_user.so")
TRIES = 5


def record(*command, calls="osrt", options=(), name="a.mscope", env=None):
    need(PROGRAM)
    return moescope("run", "-q", "--force", "-o", name, "--calls", calls, *options, "--", *command,
                    env=env, timeout=PATIENCE_S)


def rows(*options, name="a.mscope"):
    r = moescope("calls", name, *options, "--json")
    equal(r.status, 0, r)
    return json.loads(r.out)


def query(text, name="a.mscope"):
    r = moescope("sql", name, text, "--json")
    equal(r.status, 0, r)
    document = json.loads(r.out)
    return [dict(zip(document["columns"], row)) for row in document["rows"]]


def by_name(document):
    return {row["name"]: row for row in document["rows"]}


@test
def counts_are_exact_and_times_are_the_programs():
    for attempt in range(TRIES):
        r = record(PROGRAM, "known")
        equal((r.status, r.err), (0, ""), r)
        got, apart = by_name(rows()), []
        for line in r.out.splitlines():
            name, count, ns, moved = line.split()[0], *map(int, line.split()[1:])
            equal(got[name]["count"], count, name)
            if moved:
                equal(got[name]["bytes"], moved, name)
            # The program's clock is read around the wrapper; it may have been interrupted between.
            check(got[name]["time_ns"] <= ns, name, got[name], ns)
            if ns > 1e7 and got[name]["time_ns"] < 0.97 * ns:
                apart.append((name, got[name]["time_ns"], ns))
        if not apart:
            return
    check(False, f"times differ in {attempt + 1} attempts", apart)


@test
def what_is_short_is_only_counted():
    equal(record(PROGRAM, "known").status, 0)
    write = by_name(rows())["write"]
    check(write["recorded"] < write["count"], write)
    equal(write["recorded"], len(query("select 1 from os_calls where name = 'write'")))
    equal(write["count"] - write["recorded"],
          query("select sum(calls) as n from call_counts where name = 'write'")[0]["n"])
    equal(record(PROGRAM, "known", options=["--calls-longer-than", "0"]).status, 0)
    write = by_name(rows())["write"]
    equal((write["count"], write["recorded"]), (5004, 5004))
    equal(query("select distinct file from os_calls where name = 'write'"), [{"file": 4}])
    equal(record(PROGRAM, "known", options=["--calls-longer-than", "1s"]).status, 0)
    equal(rows()["total"]["recorded"], 0)
    equal(by_name(rows())["write"]["bytes"], 400)


@test
def kinds_of_files_are_told_apart():
    equal(record(PROGRAM, "known", options=["--calls-longer-than", "0"]).status, 0)
    sizes = {(row["name"], row["sizes"]) for row in rows("--by-size")["rows"]}
    check({("read", "pipe"), ("pwrite", "file"), ("pread", "file"), ("open", "file")} <= sizes, sizes)


@test
def nothing_changes_for_the_program():
    need(PROGRAM)
    for word in ("errno", "cancel", "interrupt", "jump", "handle", "fork", "locks", "threads", "close", "clock"):
        bare = subprocess.run([PROGRAM, word], capture_output=True, text=True, check=False, env=environment(),
                              timeout=PATIENCE_S)
        for options in ([], ["--calls-longer-than", "0"]):
            r = record(PROGRAM, word, calls="all", options=options)
            equal((r.status, r.out, r.err), (bare.returncode, bare.stdout, bare.stderr), word, options)
        lost = json.loads(moescope("calls", "a.mscope", "--json").out)["loss"]
        # On a busy machine the drain may come too late for a buffer; that is counted, and nothing else may be lost.
        equal({k: v for k, v in lost.items() if v and k not in ("salvaged", "unclosed", "dropped_ring_full")}, {},
              word)


@test
def a_forked_child_is_not_recorded():
    """Its calls are neither its parent's nor lost."""
    equal(record(PROGRAM, "fork", options=["--calls-longer-than", "0"]).status, 0)
    check("usleep" not in by_name(rows()), "a child slept")


@test
def sizes_of_products_and_collectives():
    """The libraries are opened by a library that is opened for itself alone, as Python's modules are."""
    need(USER)
    bare = subprocess.run([PROGRAM, "device", USER], capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    r = record(PROGRAM, "device", USER, calls="cublas,cudnn,nccl")
    equal((r.status, r.out, r.err), (0, bare.stdout, ""))
    got = {(row["name"], row["sizes"]): row["count"] for row in rows("--by-size")["rows"]}
    equal(got, {("cublasSgemm_v2", "128 x 256 x 64 fp32"): 3, ("cublasSgemm_v2", "128 x 256 x 32 fp32"): 1,
                ("cublasGemmEx", "10 x 20 x 30 bf16"): 1, ("cublasLtMatmul", "10 x 20 x 30 bf16"): 1,
                ("cublasGemmStridedBatchedEx_64", "5000000000 x 3 x 2 fp16, 12 times"): 1,
                ("cudnnBackendExecute", None): 1, ("ncclCommInitRank", None): 1, ("ncclGroupStart", None): 1,
                ("ncclAllReduce", "4096 bf16"): 1, ("ncclSend", "77 fp32"): 1, ("ncclGroupEnd", None): 1})
    equal(query("select name, peer, communicator, status from library_calls where library = 'nccl' order by start_ns"),
          [{"name": "ncclCommInitRank", "peer": None, "communicator": 4096, "status": 0},
           {"name": "ncclGroupStart", "peer": None, "communicator": None, "status": 0},
           {"name": "ncclAllReduce", "peer": None, "communicator": 4096, "status": 0},
           {"name": "ncclSend", "peer": 3, "communicator": 4096, "status": 0},
           {"name": "ncclGroupEnd", "peer": None, "communicator": None, "status": 5}])
    equal(by_name(rows())["ncclGroupEnd"]["errors"], 1)
    # One library calls the other: inside, on its thread.
    equal(query("select count(*) as n from library_calls i, library_calls o where i.name = 'cublasLtMatmul' and "
                "o.name = 'cublasGemmEx' and i.thread = o.thread and i.start_ns >= o.start_ns and "
                "i.start_ns + i.duration_ns <= o.start_ns + o.duration_ns"), [{"n": 1}])
    least = query("select min(duration_ns) as ns from library_calls")[0]["ns"]
    check(2_000_000 <= least, least)


@test
def only_what_is_asked_for_is_there():
    need(USER)
    loaded = ["sh", "-c", "grep -o 'libmoescope[a-z-]*' /proc/self/maps | sort -u; echo \"[$LD_PRELOAD]\""]
    r = moescope("run", "-q", "-o", "none.mscope", "--", *loaded)
    equal(r.out, "[]\n", r)
    r = record(*loaded, calls="nccl")
    equal(r.out.split("[")[0].split(), ["libmoescope", "libmoescope-calls-nccl"], r)
    equal(record(PROGRAM, "device", USER, calls="nccl").status, 0)
    equal({row["library"] for row in rows()["rows"]}, {"nccl"})


@test
def libraries_of_the_user_stay_and_those_of_an_outer_run_go():
    other = str(BUILD / "libmoescope.so")
    r = record("sh", "-c", "echo $LD_PRELOAD", env=environment(LD_PRELOAD=f"{other} /x/libmoescope-calls-nccl.so"))
    ours, *users = r.out.strip().split(":")
    check(ours.endswith("/libmoescope-calls-osrt.so"), r)
    equal(users, [other], r)
    check("nccl" not in r.out, r)
    inner = [MOESCOPE, "run", "-q", "-o", "inner.mscope", "--", "sh", "-c", "echo \"[$LD_PRELOAD]\""]
    equal(record(*inner).out, "[]\n")


@test
def bad_lists_and_times():
    one_sentence(moescope("run", "--calls", "osrt,nvcl", "--", "true"), 2, "nvcl", "nccl")
    one_sentence(moescope("run", "--calls", "everything", "--", "true"), 2, "osrt, cublas, cudnn and nccl")
    one_sentence(moescope("run", "--calls", "osrt", "--calls-longer-than", "2s", "--", "true"), 2, "1s", "2s")
    one_sentence(moescope("run", "--calls-longer-than", "2us", "--", "true"), 2, "--calls")


PYTHON = """
import asyncio, concurrent.futures, multiprocessing, os, queue, subprocess, sys, threading, time

def square(x):
    time.sleep(0.001)
    return x * x

async def many():
    async def one(i):
        await asyncio.sleep(0.002)
        return i
    process = await asyncio.create_subprocess_exec("sh", "-c", "cat", stdin=-1, stdout=-1)
    out, _ = await process.communicate(b"through a pipe")
    return sum(await asyncio.gather(*(one(i) for i in range(50)))), out, process.returncode

if __name__ == "__main__":
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            print(method, pool.map(square, range(20)))
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        print(list(pool.map(square, range(40))))
    print(asyncio.run(many()))
    print(subprocess.run(["sh", "-c", "echo out; echo err >&2; exit 3"], capture_output=True))
    q = queue.Queue()
    threads = [threading.Thread(target=lambda: q.put(sum(range(10000)))) for _ in range(20)]
    [t.start() for t in threads], [t.join() for t in threads]
    print(sum(q.get() for _ in threads))
    sys.exit(5)
"""


@test
def python_programs():
    pathlib.Path("program.py").write_text(PYTHON, encoding="utf-8")
    python = os.path.realpath(sys.executable)
    bare = subprocess.run([python, "program.py"], capture_output=True, text=True, check=False, env=environment(),
                          timeout=PATIENCE_S)
    equal(bare.returncode, 5, bare)
    r = record(python, "program.py", calls="all")
    equal((r.status, r.out, r.err), (5, bare.stdout, bare.stderr))
    check(by_name(rows())["clock_nanosleep" if sys.version_info >= (3, 11) else "select"]["count"] >= 40, rows())


@test
def every_view_has_them():
    need(USER)
    equal(record(PROGRAM, "device", USER, calls="all", options=["--calls-longer-than", "0"]).status, 0)
    report = moescope("report", "a.mscope")
    check("Calls into libraries" in report.out and "cublasSgemm_v2" in report.out, report)
    for form, suffix in (("chrome", "json"), ("perfetto", "pftrace"), ("speedscope", "speedscope.json")):
        out = pathlib.Path(f"a.{suffix}")
        with contextlib.suppress(FileNotFoundError):
            out.unlink()
        r = moescope("export", "a.mscope", "--to", form, "-o", out)
        equal(r.status, 0, r)
        for word in (b"cublasGemmEx", b"ncclSend"):
            check(word in out.read_bytes(), form, word)
    r = moescope("calls", "a.mscope")
    equal(r.status, 0, r)
    check(all(len(line) <= 80 for line in r.out.splitlines()), r.out)


if __name__ == "__main__":
    main()
