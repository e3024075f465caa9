# SPDX-License-Identifier: Apache-2.0
"""The recount of tests/conformance: right on files whose figures are known by hand, and it notices a
program that says something else."""

import gzip
import json
import os
import pathlib
import pickle
import sqlite3
import subprocess
import sys

from cli import MOESCOPE, check, equal, main, test

CONFORMANCE = pathlib.Path(__file__).resolve().parents[1] / "conformance"
sys.path.insert(0, str(CONFORMANCE))
from recount import recount  # noqa: E402

MB = 1 << 20


def device_event(name, category, begin, duration, **args):
    return {"ph": "X", "cat": category, "name": name, "pid": 0, "tid": 7, "ts": begin,
            "dur": duration, "args": {"device": 0, "stream": 7, **args}}


def host_event(name, category, begin, duration, **args):
    return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1, "ts": begin,
            "dur": duration, "args": args}


def memory_event(at, size, total, reserved):
    return {"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1,
            "ts": at, "args": {"Device Type": 6, "Device Id": 0, "Addr": 4096, "Bytes": size,
                               "Total Allocated": total, "Total Reserved": reserved}}


def kineto():
    """NCCL from 10 to 30 us beside a kernel from 20 to 40 us, then a copy."""
    return {"traceEvents": [
        host_event("ProfilerStep#3", "user_annotation", 0, 60),
        host_event("aten::mm", "cpu_op", 1, 5), host_event("aten::mm", "cpu_op", 8, 5),
        host_event("forward", "user_annotation", 0.5, 30),
        host_event("cudaLaunchKernel", "cuda_runtime", 2, 1.5, correlation=5),
        host_event("cudaLaunchKernel", "cuda_runtime", 14, 1, correlation=6),
        device_event("ncclKernel", "kernel", 10, 20, correlation=6),
        device_event("_ZN2ns6kernelIiEEvPT_", "kernel", 20, 20.001, correlation=5),
        device_event("Memcpy HtoD (Pinned -> Device)", "gpu_memcpy", 50, 2, bytes=64),
        memory_event(3, 512, 2 * MB, 4 * MB), memory_event(9, -512, 2 * MB - 512, 4 * MB)]}


KINETO = {
    "kernels": 2, "kernel ns": 40001, "busy ns": [32001], "windows ns": [42000],
    "kernel rows": [["ncclKernel", 1, 20000], ["void ns::kernel<int>(int*)", 1, 20001]],
    "copies": 1, "copy ns": 2000, "copy bytes": 64, "copy kinds": [["HtoD", 1, 2000]], "sets": 0,
    "calls": 2, "call ns": 2500, "call rows": [["cudaLaunchKernel", 2, 2500]],
    "device time of ranges": [["aten::mm", 20001], ["forward", 20000]],
    "device time elsewhere": [0, 2000],
    "operation rows": [["aten::mm", 2]], "range rows": [["forward", 1]], "device ranges": [0, 0],
    "steps": 1, "step ns": [60000], "nccl ns": [20000], "nccl beside compute ns": [10000],
    "peak allocated": [2 * MB], "peak reserved": [4 * MB],
}


def write_kineto(path):
    with gzip.open(path, "wt", encoding="utf-8") as file:
        json.dump(kineto(), file)


def write_nsight(path):
    database = sqlite3.connect(path)
    database.execute("create table StringIds (id integer, value text)")
    database.execute("insert into StringIds values (1, 'k'), (2, 'cudaLaunchKernel_v7000')")
    database.execute("create table CUPTI_ACTIVITY_KIND_KERNEL (start integer, end integer, "
                     "deviceId integer, contextId integer, streamId integer, correlationId integer, "
                     "globalPid integer, demangledName integer, shortName integer)")
    for begin, end in ((100, 300), (200, 450)):
        database.execute("insert into CUPTI_ACTIVITY_KIND_KERNEL values (?, ?, 0, 1, 7, 5, 0, 1, 1)",
                         (begin, end))
    database.execute("create table CUPTI_ACTIVITY_KIND_RUNTIME (start integer, end integer, "
                     "globalTid integer, correlationId integer, nameId integer)")
    database.execute("insert into CUPTI_ACTIVITY_KIND_RUNTIME values (50, 90, 1, 5, 2)")
    database.commit()
    database.close()


NSIGHT = {"kernels": 2, "kernel ns": 450, "busy with kernels ns": [350], "calls": 1, "call ns": 40,
          "copies": 0, "ranges": 0, "kernel rows": [["k", 2, 450]],
          "call rows": [["cudaLaunchKernel", 1, 40]]}


def write_snapshot(path):
    """20 MB from before the history go; 1 MB stays, with one block of 500 bytes in 512."""
    block = {"address": 4096, "size": 512, "requested_size": 500, "state": "active_allocated",
             "frames": []}
    segment = {"device": 0, "address": 4096, "total_size": MB, "allocated_size": 512, "stream": 0,
               "segment_type": "small", "blocks": [block], "frames": []}
    events = [{"action": action, "addr": address, "size": size, "stream": 0, "time_us": 10 + i,
               "frames": []}
              for i, (action, address, size) in enumerate((
                  ("segment_free", 1 << 33, 20 * MB), ("alloc", 4608, 300),
                  ("free_requested", 4608, 300), ("alloc", 4096, 500)))]
    with open(path, "wb") as file:
        pickle.dump({"segments": [segment], "device_traces": [events]}, file, 4)


SNAPSHOT = {"segments": [1], "reserved": [MB], "allocated in blocks": [512], "allocated": [500],
            "peak allocated": [500], "peak reserved": [21 * MB]}


def known(found, wanted):
    equal({figure: found.get(figure) for figure in wanted}, wanted)


def conform(*options, program=MOESCOPE):
    return subprocess.run([sys.executable, str(CONFORMANCE / "conform.py"), "t", "--jobs", "1",
                           *options], env=dict(os.environ, MOESCOPE=program), text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)


def write_all():
    os.mkdir("t")
    write_kineto("t/a.json.gz")
    write_nsight("t/b.sqlite")
    write_snapshot("t/c.pickle")


@test
def figures_by_hand():
    write_all()
    known(recount("t/a.json.gz"), KINETO)
    known(recount("t/b.sqlite"), NSIGHT)
    known(recount("t/c.pickle"), SNAPSHOT)


@test
def the_tool_says_the_same():
    """All but the memory of the trace, whose base lies before it: its own tests have that."""
    write_all()
    os.remove("t/a.json.gz")
    document = kineto()
    document["traceEvents"] = [e for e in document["traceEvents"] if e["name"] != "[memory]"]
    pathlib.Path("t/a.json").write_text(json.dumps(document), encoding="utf-8")
    r = conform("--table", "table.md")
    equal(r.returncode, 0, r)
    equal(r.stdout.count(" equal"), 4, r)
    check("3 files" in r.stdout and "0 with a difference" in r.stdout, r)
    table = pathlib.Path("table.md").read_text(encoding="utf-8")
    check("| `a.json` |" in table and "| `b.sqlite` |" in table, table)


@test
def another_program_is_found_out():
    """One that counts one kernel more, and one that refuses."""
    os.mkdir("t")
    write_nsight("t/b.sqlite")
    for name, script in (
            ("more", f'"{MOESCOPE}" "$@" | sed \'s/"count": 2,/"count": 3,/\''),
            ("refuse", 'echo "moescope: $2: no" >&2; exit 1')):
        pathlib.Path(name).write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        os.chmod(name, 0o755)
    r = conform(program=os.path.abspath("more"))
    equal(r.returncode, 1, r)
    check("kernels: counted 2, told 3" in r.stdout, r)
    r = conform(program=os.path.abspath("refuse"))
    equal(r.returncode, 1, r)
    check("moescope refused it: moescope: t/b.sqlite: no" in r.stdout, r)


@test
def a_list_must_be_whole():
    write_all()
    for entry in ({"file": "gone"}, {"file": "b.sqlite", "sha256": "00"}):
        pathlib.Path("list.json").write_text(json.dumps([{"file": "a.json.gz"}, entry]),
                                             encoding="utf-8")
        r = conform("--list", "list.json")
        equal((r.returncode, r.stdout), (1, ""), r)
        check("t lacks 1 files" in r.stderr and f"{entry['file']} first" in r.stderr, r)


if __name__ == "__main__":
    main()
