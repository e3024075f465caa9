# SPDX-License-Identifier: Apache-2.0
"""PyTorch (Kineto) traces as users have them: real ones against figures that other programs computed
from them (../shared/fixtures, skipped where it is not), compressed ones, broken ones."""

import collections
import decimal
import functools
import gzip
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
from time import monotonic

from cli import MOESCOPE, Skip, as_in_source, check, environment, equal, main, moescope, one_sentence, test

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FIXTURES = ROOT.parent / "shared" / "fixtures"
H200 = "h200-torch2.11-mixtral-train.pt.trace.json.gz"
GPU_CATEGORIES = ("kernel", "Kernel", "gpu_memcpy", "Memcpy", "gpu_memset", "Memset")


def traces():
    """(path, what is expected of it) of each."""
    if not (FIXTURES / "expected.json").exists():
        raise Skip("no ../shared/fixtures")
    expected = json.loads((FIXTURES / "expected.json").read_text())
    for name, figures in expected.items():
        if figures["format"] == "kineto":
            path = FIXTURES / name
            yield (path if path.exists() else FIXTURES / "kineto-two-ranks" / name), figures


def answer(command, path, *options):
    done = moescope(command, path, "--json", *options)
    equal(done.status, 0, done.err)
    return json.loads(done.out)


@functools.lru_cache(maxsize=None)
def events(path):
    """As Python reads them, with exact numbers."""
    with gzip.open(path, "rt", errors="replace") as file:
        return json.load(file, strict=False, parse_float=decimal.Decimal)["traceEvents"]


def nanoseconds(number):
    return int(decimal.Decimal(number) * 1000)


def union(intervals):
    merged = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return sum(end - start for start, end in merged)


def records(path, run):
    """Rows by kind, as import says."""
    done = moescope("import", path, "-o", run)
    equal(done.status, 0, done.err)
    return {kind: int(n) for kind, n in re.findall(r"([a-z_]+) (\d+)[,.]", done.err)}


@test
def events_by_category():
    for i, (path, figures) in enumerate(traces()):
        rows = records(path, f"{i}.mscope")
        count = collections.Counter(figures["events_X_by_cat"])
        steps = rows.get("step", 0)
        equal(steps, figures["profiler_steps"], path)
        equal(rows["kernel"], count["kernel"] + count["Kernel"], path)
        equal(rows.get("copy", 0), count["gpu_memcpy"] + count["Memcpy"], path)
        equal(rows.get("set", 0), count["gpu_memset"] + count["Memset"], path)
        equal(rows["api"], count["cuda_runtime"] + count["cuda_driver"] + count["Runtime"], path)
        equal(rows.get("frame", 0), count["python_function"], path)
        equal(rows.get("span", 0), count["gpu_user_annotation"], path)
        # Steps are annotations, in 2021 operations.
        equal(rows["op"] + rows.get("range", 0) + steps,
              count["cpu_op"] + count["Operator"] + count["user_annotation"], path)


@test
def kernels_and_copies():
    for path, figures in traces():
        found = answer("kernels", path, "--limit", "0")
        total = found["total"]
        equal(total["count"], figures["kernels"], path)
        equal(total["names"], figures["kernel_names"], path)
        equal(total["time_ns"], round(figures["kernel_time_us"] * 1000), path)
        known = [event["name"] for event in events(path) if event.get("cat") in ("kernel", "Kernel")]
        wanted = [[as_in_source(name, known)[:100], n, round(us * 1000)]
                  for name, n, us in figures["top5_kernels"]]
        equal([[row["name"][:100], row["count"], row["time_ns"]] for row in found["rows"][:5]], wanted, path)
        equal(answer("transfers", path)["total"]["bytes"], figures["copy_bytes"], path)


@test
def busy_time_is_exact():
    """The listed figures come from doubles, which hold microseconds since 1970 to a quarter of
    one; ours equal the exact ones, and those within that."""
    for path, figures in traces():
        devices = collections.defaultdict(list)
        for event in events(path):
            if event.get("ph") == "X" and event.get("cat") in GPU_CATEGORIES:
                start = nanoseconds(event["ts"])
                devices[event["args"]["device"]].append((start, start + nanoseconds(event["dur"])))
        found = {device["device"]: device["busy_ns"]
                 for device in answer("report", path)["timeline"]["devices"]}
        equal(found, {device: union(busy) for device, busy in devices.items()}, path)
        for device, us in figures["gpu_busy_us_by_device"].items():
            spread = 0.25 * len(devices[int(device)]) if "ns-" in path.name else 0.01
            check(abs(found[int(device)] / 1000 - us) <= spread, path, found, us)


@test
def ranks_of_a_directory():
    next(traces())
    found = answer("kernels", FIXTURES / "kineto-two-ranks", "--by", "device", "--limit", "0")
    equal(found["run"]["ranks"], [0, 1])
    equal(found["total"]["count"], 1154 + 1104)


def write_ranks(folder, clocks):
    """A trace of each rank, with steps and collectives; clocks: what each is ahead, in microseconds."""
    pathlib.Path(folder).mkdir()
    for rank, ahead in enumerate(clocks):
        found = []
        for i in range(3):
            found.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{i}", "pid": 9,
                          "tid": 1, "ts": 1000 * i + ahead, "dur": 900})
            found.append({"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce", "pid": 0,
                          "tid": 7, "ts": 1000 * i + 100 + ahead, "dur": 50,
                          "args": {"device": 0, "stream": 7, "Collective name": "allreduce",
                                   "Group size": len(clocks), "Process Group Name": "0", "Seq": i}})
        written(f"{folder}/{rank}.json",
                json.dumps({"baseTimeNanoseconds": 1700000000000000000,
                            "distributedInfo": {"rank": rank}, "traceEvents": found}).encode())


@test
def times_of_ranks_do_not_depend_on_what_is_asked_for():
    """Clocks are aligned by collectives, which a table of steps does not need."""
    write_ranks("job", [0, 400])
    steps = [[row["start_ns"] for row in answer("steps", "job")["rows"] if row["rank"] == rank]
             for rank in (0, 1)]
    equal(steps, [[0, 1000000, 2000000]] * 2)


@test
def files_of_a_directory_that_are_damaged():
    """A file that gives nothing is not a rank, and what is damaged says where."""
    write_ranks("job", [0, 400, 800])
    whole = pathlib.Path("job/1.json").read_bytes()
    written("job/1.json", whole[:-20])
    written("job/1-again.json", whole)
    written("job/nothing.json", b'{"traceEvents": 12}')
    found = answer("report", "job")
    equal(sorted(found["run"]["ranks"]), [0, 1, 1, 2])
    equal(found["loss"]["damaged_events"], 1)
    notes = found["run"]["notes"]
    check(re.search(r"^job/1\.json at \d+: the file ends inside of an event; not read\.$", notes, re.M),
          notes)
    check("job/nothing.json: there is no list of events" in notes, notes)
    check("rank 1 in job/1-again.json and job/1.json; each file counts as a process" in notes, notes)


def calls_inside(trace):
    """Time of CUDA calls by the innermost operation around them."""
    threads = collections.defaultdict(list)
    for event in trace:
        if event.get("ph") == "X" and event.get("cat") in ("cpu_op", "user_annotation",
                                                           "cuda_runtime", "cuda_driver"):
            start = nanoseconds(event["ts"])
            threads[event["tid"]].append((start, -nanoseconds(event["dur"]), event["cat"],
                                          event["name"]))
    inside = collections.Counter()
    for found in threads.values():
        around = []
        for start, minus_duration, category, name in sorted(found):
            while around and around[-1][0] <= start:
                around.pop()
            if category.startswith("cuda"):
                if around:
                    inside[around[-1][1]] += -minus_duration
            else:
                around.append((start - minus_duration, name))
    return inside


@test
def operations_as_torch_sees_them():
    """key_averages takes CUDA calls for operations; of several overloads it has a row each."""
    path = FIXTURES / H200
    averages = FIXTURES / H200.replace(".pt.trace.json.gz", ".key_averages.json")
    if not averages.exists():
        raise Skip("no ../shared/fixtures")
    operations = {row["name"]: row for row in answer("ops", path, "--limit", "0")["rows"]}
    kernels = {row["name"]: row for row in answer("kernels", path, "--limit", "0")["rows"]}
    inside = calls_inside(events(path))
    compared = 0
    for row in json.loads(averages.read_text())["rows"]:
        own = operations.get(row["key"])
        if row["key"] in kernels:
            equal(kernels[row["key"]]["count"], row["calls"], row)
            equal(kernels[row["key"]]["time_ns"], round(row["self_cuda_us"] * 1000), row)
        elif own and own["kind"] == "op":
            equal(own["self_gpu_ns"], round(row["self_cuda_us"] * 1000), row)
            if own["count"] == row["calls"]:
                equal(own["self_cpu_ns"] - inside[row["key"]],
                      round(row["self_cpu_us"] * 1000), row)
                compared += 1
    check(compared >= 20, compared)


@test
def memory_as_torch_sees_it():
    averages = FIXTURES / H200.replace(".pt.trace.json.gz", ".key_averages.json")
    if not averages.exists():
        raise Skip("no ../shared/fixtures")
    peak = json.loads(averages.read_text())
    told = [event["args"] for event in events(FIXTURES / H200) if event["name"] == "[memory]"]
    found = [row for row in answer("memory", FIXTURES / H200)["rows"] if row["device"] == 0][0]
    last = [args for args in told if args["Device Type"] == 1][-1]
    equal(found["account_allocated_bytes"], last["Total Allocated"])
    equal(found["account_reserved_bytes"], peak["reserved"])


def operator(name, dims, start=0, duration=1, concrete=None, **more):
    args = {} if dims is None else {"Input Dims": dims}
    if concrete:
        args["Concrete Inputs"] = concrete
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 2, "ts": start, "dur": duration,
            "args": {**args, **more}}


def flops(trace, name="a.json"):
    written(name, json.dumps(trace).encode())
    return [value for value, in answer("sql", name, "select flops from operations order by start_ns")
            ["rows"]]


@test
def flops_from_shapes():
    """The figures are those of torch.utils.flop_counter for the same calls."""
    q, k = [2, 8, 32, 16], [2, 8, 48, 16]
    tokens = [[2, 32, 8, 16], [2, 48, 8, 16], [2, 48, 8, 16]]
    stride_2 = ["", "", "", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1"]
    back = ["", "", "", "[16]", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1"]
    cases = [
        ("aten::mm", [[5, 6], [6, 7]], None, 420),
        ("aten::addmm", [[7], [5, 6], [6, 7], [], []], None, 420),
        ("aten::bmm", [[4, 5, 6], [4, 6, 7]], None, 1680),
        ("aten::baddbmm", [[4, 5, 7], [4, 5, 6], [4, 6, 7], [], []], None, 1680),
        ("aten::mv", [[5, 6], [6]], None, 60),
        ("aten::linear", [[5, 7, 24], [40, 24], [40]], None, 67200),
        ("aten::_grouped_mm", [[32, 16], [4, 16, 24], [4], [], []], None, 24576),
        ("aten::_grouped_mm", [[512, 2048], [2048, 1024], [8], [], []], None, 2147483648),
        ("aten::_grouped_mm", [[4, 5, 6], [6, 28], [4], [], []], None, 2 * 5 * 6 * 28),
        ("aten::_scaled_dot_product_flash_attention", [q, k, k, [], []], None, 1572864),
        ("aten::_scaled_dot_product_cudnn_attention_backward", [q, q, k, k, q, [2, 8, 32, 1]], None,
         3932160),
        ("aten::_flash_attention_forward", tokens + [[], []], None, 1572864),
        ("aten::_efficient_attention_backward", [[2, 32, 8, 16]] + tokens + [[]], None, 3932160),
        ("aten::convolution", [[2, 3, 64, 48], [16, 3, 3, 3], [16]], stride_2, 1327104),
        ("aten::convolution", [[2, 16, 32, 24], [32, 4, 5, 5], [32]],
         ["", "", "", "[1, 1]", "[0, 0]", "[2, 2]", "False", "[0, 0]", "4"], 4915200),
        ("aten::convolution", [[2, 32, 24, 16], [32, 8, 3, 3], [8]],
         ["", "", "", "[2, 2]", "[0, 0]", "[1, 1]", "True", "[0, 0]", "1"], 3538944),
        ("aten::cudnn_convolution", [[2, 3, 64, 48], [16, 3, 3, 3]],
         ["", "", "[1, 1]", "[2, 2]", "[1, 1]", "1"], 1327104),
        ("aten::convolution_backward", [[2, 16, 32, 24], [2, 3, 64, 48], [16, 3, 3, 3]],
         back + ["[True, True, True]"], 2 * 1327104),
        ("aten::convolution_backward", [[2, 16, 32, 24], [2, 3, 64, 48], [16, 3, 3, 3]],
         back + ["[False, True, True]"], 1327104),
        # Nothing that has no formula, no shape or one that does not fit counts as 0.
        ("aten::relu", [[5, 6]], None, None),
        ("aten::mm", None, None, None),
        ("aten::mm", [[5, 6], [7, 8]], None, None),
        ("aten::mm", [[[5, 6]], [6, 7]], None, None),
        ("aten::mm", [[1 << 40, 1 << 40], [1 << 40, 7]], None, None),
        ("aten::convolution", [[2, 3, 64, 48], [16, 3, 3, 3], [16]], None, None),
        ("aten::_flash_attention_forward", [[64, 8, 16]] * 3 + [[3], [3]], None, None),
        ("aten::_efficient_attention_forward", [[1, 64, 8, 16]] * 3 + [[], [3], [3]], None, None),
    ]
    trace = [operator(name, dims, 10 * i, 5, concrete) for i, (name, dims, concrete, _)
             in enumerate(cases)]
    for case, got in zip(cases, flops(trace)):
        equal(got, case[3], case)


@test
def flops_count_once():
    """Of operators inside each other the innermost that has a formula counts."""
    shapes = [[5, 24], [40, 24], [40]]
    trace = [operator("aten::linear", shapes, 0, 9), operator("aten::t", [[40, 24]], 1, 1),
             operator("aten::addmm", [[40], [5, 24], [24, 40], [], []], 3, 5),
             operator("aten::linear", shapes, 20, 5),
             operator("aten::linear", shapes, 30, 9, flops=77),
             operator("aten::addmm", [[40], [5, 24], [24, 40], [], []], 33, 5)]
    # What the file says itself stays, and what it says of an outer one is its own affair.
    equal(flops(trace), [None, None, 9600, 9600, 77, 9600])


@test
def flops_as_torch_counts_them():
    averages = FIXTURES / H200.replace(".pt.trace.json.gz", ".key_averages.json")
    if not averages.exists():
        raise Skip("no ../shared/fixtures")
    torch = {row["key"]: row["flops"] for row in json.loads(averages.read_text())["rows"]}
    rows = {row["name"]: row for row in answer("ops", FIXTURES / H200, "--limit", "0")["rows"]}
    equal(rows["aten::mm"]["flops"], torch["aten::mm"])
    # The others by hand: torch's profiler has no formula for them.
    wanted = collections.Counter()
    for event in events(FIXTURES / H200):
        dims = event.get("args", {}).get("Input Dims")
        if event["name"] == "aten::_grouped_mm":
            a, b = dims[:2]
            wanted[event["name"]] += 2 * a[-2] * a[-1] * b[-1]
        elif event["name"] == "aten::bmm":
            wanted[event["name"]] += 2 * dims[0][0] * dims[0][1] * dims[0][2] * dims[1][2]
        elif event["name"].startswith("aten::_cudnn_attention"):
            backward = event["name"].endswith("backward")
            (n, heads, length, width), (_, _, others, _) = dims[backward:backward + 2]
            wanted[event["name"]] += (5 if backward else 2) * 2 * n * heads * length * others * width
    equal(len(wanted), 4)
    for name, number in wanted.items():
        equal(rows[name]["flops"], number, name)
    for name in ("aten::linear", "aten::matmul", "aten::scaled_dot_product_attention",
                 "aten::_scaled_dot_product_cudnn_attention"):
        equal(rows[name]["flops"], None, name)
    efficiency = answer("efficiency", FIXTURES / H200)["total"]
    every = sum(wanted.values()) + torch["aten::mm"]
    equal(efficiency["model_flops"], every)
    steps = [nanoseconds(event["dur"]) for event in events(FIXTURES / H200)
             if event.get("cat") == "user_annotation" and event["name"].startswith("ProfilerStep#")]
    # 989 TFLOP/s of bf16: NVIDIA's data sheet of the H200.
    mfu = 100 * every / (sum(steps) * 1e-9 * 989e12)
    check(abs(efficiency["mfu_pct"] / mfu - 1) < 1e-3, efficiency["mfu_pct"], mfu)


def memory_event(ts, address, nbytes, total=None, reserved=None, device=0, kind=1):
    args = {"Device Id": device, "Device Type": kind, "Addr": address, "Bytes": nbytes}
    args.update({k: v for k, v in (("Total Allocated", total), ("Total Reserved", reserved))
                 if v is not None})
    return {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 7, "tid": 7, "ts": ts,
            "s": "t", "args": args}


def recount_totals(trace):
    """Of each device: what was live before, the largest totals, the last ones."""
    found = {}
    for at, event in sorted(enumerate(trace), key=lambda p: (nanoseconds(p[1].get("ts", 0)), p[0])):
        args = event.get("args", {})
        if event.get("name") != "[memory]" or not args["Device Type"] or "Total Allocated" not in args:
            continue
        total, reserved = args["Total Allocated"], args["Total Reserved"]
        row = found.setdefault(args["Device Id"], {"before_bytes": total - args["Bytes"],
                                                   "peak_allocated_bytes": 0,
                                                   "peak_reserved_bytes": 0})
        row["peak_allocated_bytes"] = max(row["peak_allocated_bytes"], total)
        row["peak_reserved_bytes"] = max(row["peak_reserved_bytes"], reserved)
        row["allocated_bytes"], row["reserved_bytes"] = total, reserved
    return found


@test
def totals_of_the_allocator():
    """Peaks are those of the file's own totals: what lived before the trace counts."""
    path = FIXTURES / H200
    if not path.exists():
        raise Skip("no ../shared/fixtures")
    wanted = recount_totals(events(path))
    equal(wanted[0]["peak_allocated_bytes"], 690_856_448)
    found = {row["device"]: row for row in answer("memory", path)["rows"] if row["device"] >= 0}
    equal({d: {key: found[d][key] for key in wanted[d]} for d in found}, wanted)
    equal((found[0]["before_at_peak_bytes"], found[0]["before_freed_bytes"]), (438_470_144, 0))
    equal(sum(found[0]["composition_at_peak"].values()) + found[0]["before_at_peak_bytes"],
          found[0]["peak_allocated_bytes"])
    equal(max(p["allocated_bytes"] for p in found[0]["series"]), 690_856_448)
    text = moescope("memory", path).out
    check("before the trace: 438 MB live" in text, text)


@test
def memory_of_before_the_trace():
    """The second event of the file is the first by its time; a block of before is freed."""
    trace = [memory_event(20, 0x2000, 300, 1300, 4096), memory_event(10, 0x1000, 100, 1000, 2048),
             memory_event(30, 0x9000, -600, 700, 4096), memory_event(40, 0x1000, -100, 600, 2048),
             memory_event(15, 0x5000, 64, 64, 0, device=-1, kind=0),
             memory_event(50, 0x100, 7, 50, 60, device=3)]
    written("a.json", json.dumps(trace).encode())
    equal(moescope("import", "a.json", "-o", "a.mscope").status, 0)
    for path in ("a.json", "a.mscope"):
        host, first, third = answer("memory", path)["rows"]
        equal({0: {key: first[key] for key in recount_totals(trace)[0]},
               3: {key: third[key] for key in recount_totals(trace)[3]}}, recount_totals(trace))
        equal((first["before_bytes"], first["before_at_peak_bytes"], first["before_freed_bytes"],
               first["unmatched_frees"]), (900, 900, 600, 0))
        equal([(p["allocated_bytes"], p["reserved_bytes"]) for p in first["series"]],
              [(1000, 2048), (1300, 4096), (700, 4096), (600, 2048)])
        equal((host["before_bytes"], host["peak_allocated_bytes"]), (None, 64))
        equal(answer("report", path)["memory"]["rows"][1]["peak_allocated_bytes"], 1300)
    # Without totals nothing is known of before; what the free says is not taken from the live bytes.
    for event in trace:
        event["args"].pop("Total Allocated")
    written("b.json", json.dumps(trace).encode())
    row = answer("memory", "b.json")["rows"][1]
    equal((row["before_bytes"], row["peak_allocated_bytes"], row["unmatched_frees"]), (None, 400, 1))
    # A total that cannot be.
    written("c.json", json.dumps([memory_event(1, 16, 100, 60, 100)]).encode())
    row = answer("memory", "c.json")
    equal((row["rows"][0]["before_bytes"], row["rows"][0]["peak_allocated_bytes"]), (None, 100))
    check("less than the allocation that it follows" in row["run"]["notes"], row["run"]["notes"])


@test
def devices_have_one_number():
    """roctracer counts processors among its agents; its allocator and properties do not."""
    def work(category, agent):
        return {"ph": "X", "cat": category, "name": "Memcpy DtoH (Device -> Host)", "pid": agent,
                "tid": 0, "ts": 5, "dur": 2, "args": {"device": agent, "stream": 0, "bytes": 8}}

    def numbers(path):
        rows = [answer("sql", path, f"select distinct device from {table} order by 1")["rows"]
                for table in ("kernels", "copies", "sets", "memory_events")]
        return [[device for device, in found] for found in rows]

    def write(devices, agents, allocating, key="roctracer_version"):
        written("a.json", json.dumps({"deviceProperties": [{"id": i} for i in devices], key: 4.1,
                "traceEvents": [work(c, a) for a in agents for c in ("kernel", "gpu_memcpy",
                                                                     "gpu_memset")] +
                [memory_event(3, 64, 8, 8, 8, device=d, kind=6) for d in allocating]}).encode())
        shutil.rmtree("a.mscope", ignore_errors=True)
        equal(moescope("import", "a.json", "-o", "a.mscope").status, 0)
        found = numbers("a.json")
        equal(found, numbers("a.mscope"), "what is asked for must not matter")
        return found, answer("report", "a.json")["run"]["notes"]

    if not re.search("CREATE TABLE", moescope("sql", "--schema").out):
        raise Skip("this build has no SQL")
    equal(write([0], [2], [0]), ([[0]] * 4, ""))
    equal(write([0], [9], [])[0][0], [0])
    equal(write(range(8), [3, 6], [1, 4]), ([[1, 4]] * 4, ""))
    # As many agents as there are devices.
    equal(write(range(2), [2, 3], [])[0][0], [0, 1])
    # No way to tell: as the file says, and said so.
    found, notes = write(range(8), [2], [])
    equal(found[0], [2])
    check("name devices by numbers of agents" in notes, notes)
    # Everybody else's numbers are those of the devices.
    equal(write(range(8), [2], [0], "rocprofiler-sdk_version")[0][0], [2])


@test
def collectives_of_the_host():
    """gloo and the like run on threads: rows of their own, and no time of a device."""
    def annotation(name, start, duration, dims=None, kind="float", category="user_annotation"):
        args = {"Input Dims": dims, "Input type": [kind]} if dims else {}
        return {"ph": "X", "cat": category, "name": name, "pid": 7, "tid": 70, "ts": start,
                "dur": duration, "args": args}

    trace = [annotation("ProfilerStep#1", 0, 100), annotation("ProfilerStep#2", 100, 100),
             annotation("gloo:all_reduce", 10, 30, [[1000]]),
             annotation("gloo:all_reduce", 20, 50, [[10, 100]]),
             annotation("gloo:all_reduce", 120, 5, [[24]]),
             annotation("gloo:barrier", 130, 7),
             annotation("mpi:bcast", 140, 8, [[3]], "long int", "cpu_op"),
             annotation("nccl:all_reduce", 150, 9, [[1000]]),
             {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 15, "dur": 60,
              "args": {"device": 0, "stream": 7}},
             {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "pid": 0,
              "tid": 8, "ts": 10, "dur": 10, "args": {"device": 0, "stream": 8}}]
    written("a.json", json.dumps(trace).encode())
    equal(moescope("export", "a.json", "--to", "chrome", "-o", "b.json").status, 0)
    for path in ("a.json", "b.json"):
        found = answer("comm", path)
        rows = {(row["name"], row["transport"]): row for row in found["rows"]}
        equal({key: (row["count"], row["time_ns"], row["collective_bytes"], row["share_pct"])
               for key, row in rows.items()},
              {("allreduce", "nccl"): (1, 10000, None, 100),
               ("gloo:all_reduce", "host"): (3, 85000, 2024 * 4, 85.0),
               ("gloo:barrier", "host"): (1, 7000, None, 7.0),
               ("mpi:bcast", "host"): (1, 8000, 24, 8.0)})
        total = found["total"]
        equal((total["host_count"], total["host_time_ns"]), (5, 100000))
        # Of the device there is the kernel alone.
        equal((total["count"], total["time_ns"], total["comm_ns"], total["overlap_ns"]),
              (1, 10000, 10000, 5000))
        equal([t["transport"] for t in total["transports"]], ["nccl"])
        equal(total["without_kernel"], 0)
        device = total["devices"][0]
        equal((device["window_ns"], device["exposed_ns"], device["step_window_ns"]),
              (65000, 5000, 200000))
        check(abs(device["exposed_window_pct"] - 100 * 5 / 65) < 1e-9, device)
        equal((device["step_exposed_ns"], device["exposed_pct"]), (5000, 2.5))
    equal(answer("comm", "a.json", "--steps", "2")["total"]["host_count"], 3)
    text = moescope("comm", "a.json").out
    check("on the host: 5 collectives, 100 us in all" in text, text)
    check("in the steps: exposed 5.00 us of 200 us, 2.5%" in text, text)
    # A trace of a program without any device.
    written("c.json", json.dumps([annotation("gloo:all_reduce", 10, 30, [[1000]])]).encode())
    equal(answer("comm", "c.json")["total"]["host_count"], 1)
    report = answer("report", "c.json")
    equal((report["comm"]["total"]["host_count"], report["kernels"]), (1, None))
    check("on the host: 1 collective, 30.0 us in all" in moescope("report", "c.json").out, "report")


@test
def collectives_that_only_record_param_comms_tells():
    """Of a backend without ranges on a machine without devices; where a range or kernels tell them, they
    are not counted twice, and a wait is not a collective."""
    def told(name, start, duration, **more):
        args = {"Collective name": name, "Process Group Name": "3", "dtype": "Float",
                "Group size": 4, "In msg nelems": 1000, "Out msg nelems": 1000, **more}
        return {"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": 7, "tid": 70,
                "ts": start, "dur": duration, "args": {k: v for k, v in args.items() if v}}

    trace = [told("allreduce", 10, 30), told("wait", 40, 5), told("allreduce", 50, 20),
             told("_allgather_base", 80, 10, dtype="Long", **{"Out msg nelems": 4000}),
             told("init", 90, 1), told(None, 95, 2)]
    written("a.json", json.dumps(trace).encode())
    found = answer("comm", "a.json")
    equal({(row["name"], row["transport"], row["group"], row["group_size"]):
           (row["count"], row["time_ns"], row["collective_bytes"]) for row in found["rows"]},
          {("allreduce", "host", "3", 4): (2, 50000, 8000),
           ("_allgather_base", "host", "3", 4): (1, 10000, 32000)})
    equal((found["total"]["host_count"], found["total"]["host_time_ns"]), (3, 60000))
    kernel = {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 15, "dur": 60,
              "args": {"device": 0, "stream": 7}}
    range_ = {"ph": "X", "cat": "user_annotation", "name": "gloo:all_reduce", "pid": 7, "tid": 71,
              "ts": 12, "dur": 20}
    for more, count in ((kernel, 0), (range_, 1), (dict(range_, name="nccl:all_reduce"), 0)):
        written("b.json", json.dumps([*trace, more]).encode())
        equal(answer("comm", "b.json")["total"]["host_count"], count)


@test
def categories_that_are_not_read_are_no_losses():
    kernel = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 9, "dur": 2,
              "args": {"device": 0, "stream": 7}}
    written("a.json", json.dumps([kernel, dict(kernel, cat="mtia_runtime")]).encode())
    report = answer("report", "a.json")
    equal(report["loss"]["unknown_events"], 1)
    check(not any("loss" in v["title"] for v in report["verdicts"]), report["verdicts"])
    check("mtia_runtime (1)" in report["run"]["notes"], report["run"]["notes"])
    # What cannot be read is one, and of the file.
    written("b.json", json.dumps([kernel, dict(kernel, ts="soon")]).encode())
    titles = [v["title"] for v in answer("report", "b.json")["verdicts"]]
    check("1 event of the imported file could not be read: sums below are too small" in titles, titles)


def trace_text(n=3000):
    """A trace with kernels of 1, 2, 3... microseconds."""
    return json.dumps({"schemaVersion": 1, "traceEvents": [
        {"ph": "X", "cat": "kernel", "name": f"kernel_{i % 7}", "pid": 0, "tid": 7,
         "ts": 10 * i, "dur": i + 1, "args": {"device": 0, "stream": 7}} for i in range(n)]})


def written(name, data):
    pathlib.Path(name).write_bytes(data)
    return name


def kernels_of(name):
    found = answer("kernels", name, "--limit", "0")
    return found["total"]["count"], found["total"]["time_ns"], found["loss"]["damaged_events"]


@test
def compressed_or_not_and_in_members():
    text = trace_text().encode()
    whole = (3000, 1000 * 3000 * 3001 // 2, 0)
    equal(kernels_of(written("a.json", text)), whole)
    equal(kernels_of(written("b", gzip.compress(text))), whole)
    middle = len(text) // 2
    equal(kernels_of(written("c.gz", gzip.compress(text[:middle]) + gzip.compress(text[middle:]))),
          whole)
    # What the file is, stands in its third member.
    equal(kernels_of(written("d.gz", gzip.compress(b"") + gzip.compress(text[:1]) +
                             gzip.compress(text[1:]))), whole)


@test
def compressed_files_that_are_damaged():
    text = trace_text(30000).encode()
    data = gzip.compress(text)
    count, time, damaged = kernels_of(written("cut.gz", data[:len(data) // 2]))
    check(0 < count < 30000 and time == 1000 * count * (count + 1) // 2, count, time)
    equal(damaged, 2, "the end of the data, and the event that it cuts")
    broken = bytearray(data)
    broken[len(data) // 2] ^= 0xff
    count, _, damaged = kernels_of(written("broken.gz", bytes(broken)))
    check(0 < count and damaged > 0, count, damaged)
    # A second member whose first byte is not that of one; padding.
    equal(kernels_of(written("behind.gz", data + b"?" + data[1:]))[::2], (30000, 1))
    equal(kernels_of(written("padded.gz", data + bytes(512)))[::2], (30000, 0))
    report = answer("report", "cut.gz")
    check("the compressed data is damaged or ends here" in report["run"]["notes"],
          report["run"]["notes"])


@test
def what_the_file_does_not_say_is_not_zero():
    written("a.json", b'[{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, '
                      b'"tid": 2, "ts": 1, "dur": 2, "args": {"correlation": 3}}, '
                      b'{"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pinned -> Device)", '
                      b'"pid": 0, "tid": 7, "ts": 9, "dur": 2, "args": {"correlation": 3, '
                      b'"bytes": 4}}]')
    calls, copies = answer("api", "a.json"), answer("transfers", "a.json")
    for absent, key in ((calls["rows"][0], "errors"), (calls["total"], "errors"),
                        (copies["rows"][0], "asynchronous"), (calls["run"], "started_realtime_ns"),
                        (calls["run"], "duration_ns")):
        equal((absent[key], absent[key + "_reason"]), (None, "the imported file does not say"), key)
    # Nobody has recorded it at one of our levels.
    equal(calls["run"]["level"], "")
    check("level" not in moescope("report", "a.json").out)


@test
def bytes_that_are_not_told():
    def moved(category, name, **args):
        return {"ph": "X", "cat": category, "name": name, "pid": 0, "tid": 0, "ts": 5, "dur": 2,
                "args": {"device": 0, "stream": 0, **args}}

    trace = [moved("gpu_memset", "Memset (Device)"), moved("gpu_memset", "Memset (Unknown)", bytes=100),
             moved("gpu_memcpy", "Memcpy DtoD (Device -> Device)"),
             moved("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", bytes=0),
             moved("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)"),
             moved("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", bytes=4000)]
    written("a.json", json.dumps(trace).encode())
    equal(moescope("export", "a.json", "--to", "chrome", "-o", "b.json").status, 0)
    for path in ("a.json", "b.json"):
        found = answer("transfers", path)
        rows = {(row["kind"], row["memory"]): row for row in found["rows"]}
        equal({key: (row["bytes"], row["bytes_not_told"]) for key, row in rows.items()},
              {("memset", "device"): (None, 1), ("memset", "unknown"): (100, 0),
               ("DtoD", "device"): (None, 1), ("HtoD", "pinned"): (4000, 1)})
        # 4000 bytes in the four microseconds of the two that tell theirs
        equal(rows["HtoD", "pinned"]["bandwidth_bytes_per_s"], 1e9)
        equal(rows["DtoD", "device"]["bandwidth_bytes_per_s"], None)
        equal((found["total"]["bytes"], found["total"]["bytes_not_told"]), (4000, 2))
        equal((found["total"]["set_bytes"], found["total"]["set_bytes_not_told"]), (100, 1))
        equal(found["total"]["small"], 2)
    check("without bytes: copies 2, sets 1;" in moescope("transfers", "a.json").out)
    equal(answer("sql", "a.json", "select count(bytes), sum(bytes) from copies")["rows"], [[2, 4000]])


SMALL = """{"schemaVersion": 1, "baseTimeNanoseconds": 1700000000000000000, "traceEvents": [
{"ph": "M", "name": "process_labels", "pid": 7, "tid": 0, "ts": 1000, "args": {"labels": "CPU"}},
{"ph": "X", "cat": "Trace", "ts": 1000, "dur": 900, "pid": "Spans", "tid": "PyTorch Profiler",
 "name": "PyTorch Profiler (0)", "args": {"Op count": 0}},
{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#3", "pid": 7, "tid": 7, "ts": 1100,
 "dur": 300, "args": {}},
{"ph": "X", "cat": "user_annotation", "name": "forward", "pid": 7, "tid": 7, "ts": 1120, "dur": 200,
 "args": {}},
{"ph": "X", "cat": "python_function", "name": "train.py(5): step", "pid": 7, "tid": 7, "ts": 1050,
 "dur": 500, "args": {"Python id": 1}},
{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 7, "tid": 7, "ts": 1150, "dur": 40, "args": {}},
{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 7, "tid": 7, "ts": 1160,
 "dur": 10, "args": {"correlation": 1}},
{"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 1180, "dur": 90,
 "args": {"device": 0, "stream": 7, "correlation": 1, "grid": [1, 1, 1], "block": [32, 1, 1]}},
{"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 7, "tid": 7, "ts": 1155, "s": "t",
 "args": {"Device Id": 0, "Device Type": 1, "Addr": 4096, "Bytes": 512, "Total Allocated": 512}}]}
"""


@test
def a_file_answers_as_its_import_does():
    """A command reads of a file what it needs; no figure may depend on what that is."""
    written("small.json", SMALL.encode())
    equal(moescope("import", "small.json", "-o", "small.mscope").status, 0)
    tables = re.findall(r"CREATE TABLE (\w+)\((.*?)\);", moescope("sql", "--schema").out, re.S)
    if not tables:
        raise Skip("this build has no SQL")
    for name, columns in tables:
        columns = [column.split()[0] for column in columns.split(",")]
        for column in set(columns) - {"run"}:
            query = f'select "{column}" from {name} order by 1'
            file, run = (answer("sql", path, query)["rows"] for path in
                         ("small.json", "small.mscope"))
            equal(file, run, name, column)
    equal(answer("sql", "small.json", "select depth, stack from operations")["rows"],
          [[1, "train.py(5): step"]])
    # From the beginning of the recording on, whatever the first record is.
    equal(answer("sql", "small.json", "select start_ns from step_times")["rows"], [[100000]])
    equal(answer("steps", "small.json")["rows"], answer("steps", "small.mscope")["rows"])
    equal(answer("memory", "small.json")["rows"], answer("memory", "small.mscope")["rows"])


@test
def work_without_a_correlation_has_no_call():
    """Nothing says which call launched a kernel: not the last one that has no number either."""
    call = {"ph": "X", "cat": "cuda_runtime", "name": "cudaGetDevice", "pid": 1, "tid": 2, "ts": 1,
            "dur": 2}
    kernel = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 9, "dur": 2}
    written("a.json", json.dumps([call, kernel]).encode())
    calls, kernels = answer("api", "a.json"), answer("kernels", "a.json", "--by", "step")
    equal((calls["total"]["launches"], calls["total"]["launch_latency_ns"]), (0, None))
    equal(kernels["total"]["without_call"], 1)


@test
def tables_fit_the_terminal():
    dims = json.dumps([[2048, 186588]] * 40)
    written("wide.json", SMALL.replace('"ts": 1150, "dur": 40, "args": {}',
                                       '"ts": 1150, "dur": 40, "args": {"Input Dims": %s}' % dims)
            .encode())
    written("wide.csv", b'"ID","Kernel Name","Section Name","Metric Name","Metric Unit","Metric Value"\n'
            + b'"0","a_kernel_with_a_name_that_is_long(int)","Section","'
            + b"sm__inst_executed_pipe_tensor_op.avg.pct_of_peak_sustained_elapsed"
            + b'","register/thread","1234567"\n')
    for command in (("ops", "--by-shape"), ("ops", "--by-stack"), ("routing",), ("memory",),
                    ("counters",), ("report",)):
        for file in ("wide.json", "wide.csv"):
            done = moescope(*command, file, "--width", 80)
            equal(done.status, 0, done.err)
            for line in done.out.splitlines():
                check(len(line) <= 80, command, file, line)
    check("wide.csv" in moescope("counters", "wide.csv").out)
    for command in ("kernels", "api", "transfers", "comm", "steps", "ops"):
        text = moescope(command, "wide.csv").out
        check("no " in text and not re.search("doctor|moescope_|level", text), text)
    # The report of a file that has nothing else says where that is, and no advice on recording.
    report = moescope("report", "wide.csv").out
    check("moescope counters" in report, report)
    for text in (report, moescope("report", "wide.json").out):
        check("moescope_op_end" not in text and "doctor" not in text.split("Efficiency")[1], text)


@test
def files_that_break_off():
    text = trace_text().encode()
    count, time, damaged = kernels_of(written("cut.json", text[:len(text) // 3]))
    check(0 < count < 3000 and time == 1000 * count * (count + 1) // 2 and damaged == 1,
          count, time, damaged)


@test
def a_killed_reader_leaves_nothing():
    event = (b'{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":%d,"dur":1,'
             b'"args":{"correlation":1}},')
    path = written("long.json", b"[" + b"".join(event % i for i in range(500_000)) + b"{}]")
    os.mkdir("tmp")
    process = subprocess.Popen([MOESCOPE, "kernels", path], stdout=subprocess.DEVNULL,
                               env=environment(TMPDIR=os.path.abspath("tmp")))
    while not os.listdir("tmp") and process.poll() is None:
        pass
    process.kill()
    equal(process.wait(), -signal.SIGKILL, "it was done before it could be killed")
    deadline = monotonic() + 60
    while os.listdir("tmp"):
        check(monotonic() < deadline, os.listdir("tmp"))


@test
def files_that_are_no_traces():
    one_sentence(moescope("kernels", written("a.json", '{"traceEvents"'.encode("utf-16"))), 1,
                 "UTF-16")
    one_sentence(moescope("kernels", written("b.json", b'{"traceEvents": 12}')), 1, "traceEvents")
    for name, content, words in (
            ("empty.json", b"", "empty"), ("a.nsys-rep", b"\x01\x02", "nsys export --type sqlite"),
            ("a.ncu-rep", b"NVR\0\1", "ncu --import"), ("a.pt", b"PK\3\4archive", "torch.save"),
            ("a.zst", b"\x28\xb5\x2f\xfd12345", "zstd"), ("a.xz", b"\xfd7zXZ\0", "xz"),
            ("a.png", b"\x89PNG\r\n\x1a\n", "neither a run nor"),
            ("notes.txt", b"a trace, I hope", "neither a run nor")):
        for command in ("report", "import"):
            one_sentence(moescope(command, written(name, content)), 1, name, words)
    written("some.json", SMALL.encode())
    equal(moescope("import", "some.json").status, 0)
    one_sentence(moescope("import", "some.mscope"), 1, "already a run")


@test
def every_note_is_a_line_of_its_own():
    pathlib.Path("ranks").mkdir()
    written("ranks/0.json", SMALL.replace('"Addr": 4096, ', "").encode())
    written("ranks/notes.txt", b"x")
    done = moescope("import", "ranks", "-o", "ranks.mscope")
    equal(done.status, 0, done.err)
    for line in done.err.splitlines():
        check(line.startswith("moescope: "), done.err)
    check("no address" in done.err and "left out" in done.err.splitlines()[-1], done.err)


main()
