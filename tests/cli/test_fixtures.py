# SPDX-License-Identifier: Apache-2.0
"""Real traces of other profilers, through the real tool, against figures that share no code with it.

The files are in ../shared/fixtures, beside the repository; without them the tests skip themselves.
expected.json was computed there by a plain program in floating point: a time stamp of 1.7e15 us is
then good to 0.25 us. So lengths of unions are computed here once more, twice: as it does, which must
give its figure, and in whole nanoseconds, which must be the tool's.
"""

import csv
import functools
import gzip
import json
import math
import pathlib
import pickle

from cli import Skip, as_in_source, check, equal, main, moescope, test

FOLDER = pathlib.Path(__file__).resolve().parents[3] / "shared/fixtures"
NAME_CHARACTERS = 100  # names in expected.json are cut
DEVICE_KINDS = ("kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset")
CALL_KINDS = ("cuda_runtime", "cuda_driver", "runtime")
PROGRAM_KINDS = ("cpu_op", "operator", "user_annotation")
KINETO = {
    "kineto-2021-resnet50.pt.trace.json.gz": "kineto-2021-resnet50.pt.trace.json.gz",
    "kineto-2024-ns-resolution.pt.trace.json.gz": "kineto-2024-ns-resolution.pt.trace.json.gz",
    "sampled_rank-0.json.gz": "kineto-two-ranks/sampled_rank-0.json.gz",
    "sampled_rank-1.json.gz": "kineto-two-ranks/sampled_rank-1.json.gz",
    "deepseek-train-ep64.json.gz": "deepseek-train-ep64.json.gz",
    "h200-torch2.11-mixtral-train.pt.trace.json.gz":
        "h200-torch2.11-mixtral-train.pt.trace.json.gz",
}
NSIGHT = ("nsys-3.20-power-iteration.sqlite", "nsys-3.25-h100-2gpu.sqlite",
          "nsys-saxpy-old-schema.sqlite")


def fixture(name):
    path = FOLDER / name
    if not path.exists():
        raise Skip(f"{name} is not beside the repository")
    return str(path)


@functools.lru_cache(maxsize=None)
def expected():
    with open(fixture("expected.json"), encoding="utf-8") as file:
        return json.load(file)


def asked(command, path, *options):
    r = moescope(command, path, *options, "--json")
    if r.status and "built without" in r.err:
        raise Skip(r.err.strip())
    equal(r.status, 0, command, path, r)
    return json.loads(r.out)


def nanoseconds(text):
    """Of microseconds with decimals, never through floating point."""
    whole, _, part = str(text).partition(".")
    return int(whole) * 1000 + int((part + "000")[:3])


@functools.lru_cache(maxsize=None)
def trace(path):
    """Complete events as (category, name, ts, dur, arguments), numbers as they are written."""
    with gzip.open(path, "rt", encoding="utf-8", errors="replace") as file:
        document = json.load(file, parse_float=str)
    return [(str(e.get("cat", "")).lower(), e["name"], e["ts"], e["dur"], e.get("args", {}))
            for e in document["traceEvents"] if e.get("ph") == "X"]


def merged(spans):
    out = []
    for start, end in sorted(spans):
        if out and start <= out[-1][1]:
            out[-1][1] = max(out[-1][1], end)
        elif end > start:
            out.append([start, end])
    return out


def length(spans):
    return sum(end - start for start, end in spans)


def shared(a, b):
    """Length of what two merged lists have in common."""
    return length(a) + length(b) - length(merged([tuple(s) for s in a + b]))


def exact(event):
    start = nanoseconds(event[2])
    return start, start + nanoseconds(event[3])


def floating(event):
    return float(event[2]), float(event[2]) + float(event[3])


def device_events(path):
    return [e for e in trace(path) if e[0] in DEVICE_KINDS]


def union(events, times):
    return merged([times(e) for e in events])


def is_nccl(event):
    return "nccl" in event[1].lower()


def same_top(rows, wanted, unit_ns, names=()):
    """Kernels of equal time may stand in either order. names: of the whole trace."""
    top = [(row["name"][:NAME_CHARACTERS], row["count"], row["time_ns"]) for row in rows]
    for name, count, time in wanted:
        name = as_in_source(name, names)[:NAME_CHARACTERS]
        check((name, count, round(time * unit_ns)) in top[:len(wanted) + 1], name, top[:6])


def kineto(key):
    path, want = fixture(KINETO[key]), expected()[key]
    report = asked("report", path)
    events = device_events(path)
    kernels = report["kernels"]["total"]
    equal(sum(report["loss"].values()), 0, key)
    equal(kernels["count"], want["kernels"], key)
    equal(kernels["names"], want["kernel_names"], key)
    equal(kernels["time_ns"], round(want["kernel_time_us"] * 1000), key)
    same_top(asked("kernels", path)["rows"], want["top5_kernels"], 1000, {event[1] for event in trace(path)})
    busy = {str(d["device"]): d["busy_ns"] for d in report["timeline"]["devices"]}
    equal(set(busy), set(want["gpu_busy_us_by_device"]), key)
    for device, us in want["gpu_busy_us_by_device"].items():
        equal(round(length(union(events, floating)), 3), us, key, "the plain program")
        equal(busy[device], length(union(events, exact)), key, "busy")
    equal(report["transfers"]["total"]["bytes"], want["copy_bytes"], key)
    equal(report["steps"]["total"]["steps"], want["profiler_steps"], key)
    by_kind = {kind.lower(): n for kind, n in want["events_X_by_cat"].items()}
    equal(report["transfers"]["total"]["count"],
          by_kind.get("gpu_memcpy", 0) + by_kind.get("memcpy", 0), key)
    equal(report["transfers"]["total"]["sets"],
          by_kind.get("gpu_memset", 0) + by_kind.get("memset", 0), key)
    equal(report["api"]["total"]["count"], sum(by_kind.get(kind, 0) for kind in CALL_KINDS), key)
    steps = [e for e in trace(path) if e[0] in PROGRAM_KINDS and e[1].startswith("ProfilerStep")]
    equal(report["ops"]["total"]["count"],
          sum(by_kind.get(kind, 0) for kind in PROGRAM_KINDS) - len(steps), key)
    return report


@test
def kineto_of_2021():
    kineto("kineto-2021-resnet50.pt.trace.json.gz")


@test
def kineto_with_nanoseconds():
    kineto("kineto-2024-ns-resolution.pt.trace.json.gz")


@test
def kineto_of_one_rank():
    for rank in range(2):
        report = kineto(f"sampled_rank-{rank}.json.gz")
        equal(report["run"]["ranks"], [rank])


@test
def kineto_of_deepseek():
    kineto("deepseek-train-ep64.json.gz")


@test
def kineto_of_torch_on_an_h200():
    kineto("h200-torch2.11-mixtral-train.pt.trace.json.gz")


def by_rank(rows):
    return {row["rank"]: row for row in rows}


@test
def communication_of_two_ranks():
    folder = fixture("kineto-two-ranks")
    total = asked("comm", folder)["total"]
    devices, nccl = by_rank(total["devices"]), by_rank(total["transports"])
    timeline = by_rank(asked("report", folder)["timeline"]["devices"])
    for rank in range(2):
        key = f"sampled_rank-{rank}.json.gz"
        want, path = expected()[key], fixture(KINETO[key])
        comm = union([e for e in device_events(path) if is_nccl(e)], exact)
        compute = union([e for e in device_events(path)
                         if e[0] == "kernel" and not is_nccl(e)], exact)
        overlap = round(want["comm_compute_overlap_us"][str(rank)] * 1000)
        equal(shared(comm, compute), overlap, "the plain program")
        for row in (devices[rank], nccl[rank]):
            equal((row["comm_ns"], row["overlap_ns"]), (length(comm), overlap), rank)
        equal(nccl[rank]["transport"], "nccl")
        equal(devices[rank]["compute_ns"], length(compute), rank)
        # The report's timeline and this table are about the same time.
        equal((devices[rank]["busy_ns"], devices[rank]["idle_ns"]),
              (timeline[rank]["busy_ns"], timeline[rank]["idle_ns"]), rank)


def launched_before_last_step(path):
    """As Holistic Trace Analysis chooses: the last step may not be complete."""
    last = max(nanoseconds(e[2]) for e in trace(path)
               if e[0] in PROGRAM_KINDS and e[1].startswith("ProfilerStep"))
    calls = {e[4].get("correlation") for e in trace(path)
             if e[0] in CALL_KINDS and nanoseconds(e[2]) < last}
    return [e for e in device_events(path) if e[4].get("correlation") in calls]


def breakdown(events, times):
    """Idle, compute and the rest of the busy time."""
    busy = union(events, times)
    compute = length(union([e for e in events if e[0] == "kernel" and not is_nccl(e)], times))
    return (busy[-1][1] - busy[0][0] - length(busy), compute, length(busy) - compute)


def whole_microseconds(event):
    """As Holistic Trace Analysis rounds: a begin up, an end down."""
    start, end = floating(event)
    return math.ceil(start), math.floor(end)


def as_told(row):
    return row["idle_ns"], row["compute_ns"], row["non_compute_ns"]


@test
def breakdown_of_two_ranks_is_that_of_hta():
    devices = by_rank(asked("comm", fixture("kineto-two-ranks"), "--steps", ":551")["total"]
                      ["devices"])
    for rank, us, pct in ((0, (321378, 106252, 172428), 11.81), (1, (328671, 135548, 136455), 20.05)):
        equal(as_told(devices[rank]), tuple(1000 * x for x in us), rank)
        equal(round(devices[rank]["comm_overlap_pct"], 2), pct, rank)


@test
def breakdown_with_nanoseconds_is_that_of_hta_but_for_its_rounding():
    """It rounds each of 4876 events to whole microseconds; the tool rounds nothing."""
    path = fixture("kineto-2024-ns-resolution.pt.trace.json.gz")
    events = launched_before_last_step(path)
    equal(breakdown(events, whole_microseconds), (10113, 372150, 2371))
    rows = asked("comm", path, "--steps", ":104")["total"]["devices"]
    equal([as_told(row) for row in rows], [breakdown(events, exact)])


@test
def expert_parallel_kernels_of_deepseek():
    total = asked("comm", fixture("deepseek-train-ep64.json.gz"))["total"]
    equal(len(total["transports"]), 1)
    row = total["transports"][0]
    equal((row["transport"], row["comm_ns"], row["overlap_ns"]), ("expert", 113440000, 109250000))
    equal(round(row["comm_overlap_pct"], 2), 96.31)
    names = {row["name"] for row in asked("comm", fixture("deepseek-train-ep64.json.gz"))["rows"]}
    check({"dpsk::ep::internode::dispatch", "dpsk::ep::internode::combine"} <= names, names)


@test
def device_time_of_operations_is_that_of_torch():
    """key_averages of the same program: its sixty rows, operations and kernels."""
    path = fixture("h200-torch2.11-mixtral-train.pt.trace.json.gz")
    with open(fixture("h200-torch2.11-mixtral-train.key_averages.json"), encoding="utf-8") as file:
        averages = json.load(file)["rows"]
    ops = {row["name"]: row for row in asked("ops", path)["rows"] if row["kind"] == "op"}
    kernels = {row["name"]: row for row in asked("kernels", path)["rows"]}
    seen = 0
    for row in averages:
        told = (row["self_cuda_us"], row["cuda_us"])
        if row["key"] in ops:
            ours = ops[row["key"]]
            # Overloads have rows of their own in torch; those that ran on the device are listed.
            check(ours["count"] >= row["calls"], row)
            equal((ours["self_gpu_ns"], ours["gpu_ns"]), tuple(round(1000 * x) for x in told), row)
            seen += 1
        elif as_in_source(row["key"]) in kernels:
            ours = kernels[as_in_source(row["key"])]
            equal((ours["count"], ours["time_ns"]), (row["calls"], round(told[0] * 1000)), row)
            seen += 1
    check(seen >= 55, seen, len(averages))


@test
def stacks_of_operations():
    """Each operation once, whatever the rows; calls of the program around the forward pass."""
    path = fixture("h200-torch2.11-mixtral-train.pt.trace.json.gz")
    plain, stacks = asked("ops", path), asked("ops", path, "--by-stack")
    for key in ("count", "self_cpu_ns", "self_gpu_ns"):
        equal(stacks["total"][key], plain["total"][key])
    check(len(stacks["rows"]) > len(plain["rows"]))
    products = [row for row in stacks["rows"] if row["name"] == "aten::linear"]
    check(len(products) > 1 and all(";" in row["stack"] for row in products), products)
    check(any("modeling_mixtral.py" in row["stack"] for row in products), products)


def nsight(name):
    path, want = fixture(name), expected()[name]
    report = asked("report", path)
    kernels, transfers = report["kernels"]["total"], report["transfers"]["total"]
    equal(sum(report["loss"].values()), 0, name)
    equal((kernels["count"], kernels["time_ns"]), (want["kernels"], want["kernel_time_ns"]), name)
    busy = {str(d["device"]): d["compute_ns"] + d["comm_ns"] - d["overlap_ns"]
            for d in report["comm"]["total"]["devices"]}
    equal(busy, want["kernel_busy_ns_by_device"], name)
    same_top(asked("kernels", path)["rows"], want["top5_kernels"], 1)
    equal((transfers["count"], transfers["bytes"], transfers["time_ns"]),
          (want["copys"], want["copy_bytes"], want["copy_time_ns"]), name)
    equal((transfers["sets"], transfers["set_bytes"], transfers["set_time_ns"]),
          (want.get("sets", 0), want.get("set_bytes") or 0, want.get("set_time_ns") or 0), name)
    equal((report["api"]["total"]["count"], report["api"]["total"]["time_ns"]),
          (want["api_calls"], want["api_time_ns"]), name)
    equal(report["ops"]["total"]["count"], want["nvtx_push_pop_ranges"], name)


@test
def nsight_systems():
    for name in NSIGHT:
        nsight(name)


class OnlyData(pickle.Unpickler):
    def find_class(self, module, name):
        raise pickle.UnpicklingError(f"{module}.{name} in a memory snapshot")


def snapshot(name):
    """Segments, bytes in them, bytes of active blocks, by a reader that runs nothing."""
    with open(fixture(name), "rb") as file:
        segments = OnlyData(file).load()["segments"]
    return (len(segments), sum(s["total_size"] for s in segments),
            sum(b["size"] for s in segments for b in s["blocks"]
                if b["state"] == "active_allocated"))


@test
def memory_snapshots():
    equal(snapshot("h200-torch2.11-memory-snapshot.pkl"), (59, 717225984, 438474240))
    for name in ("h200-torch2.11-memory-snapshot.pkl", "torch-memory-snapshot.pkl"):
        rows = asked("memory", fixture(name))["rows"]
        equal(len(rows), 1)
        equal((rows[0]["segments"], rows[0]["account_reserved_bytes"],
               rows[0]["account_allocated_bytes"]), snapshot(name), name)


def records(path, kind):
    """Of an imported file, by kind."""
    r = moescope("import", path, "-o", "i.mscope")
    equal(r.status, 0, r)
    shard, = pathlib.Path("i.mscope").glob("*.mst")
    rows = json.loads(moescope("dump", str(shard), "--json").out)["rows"]
    return sum(row["records"] for row in rows if row["kind"] == kind)


@test
def nsight_compute():
    path = fixture("ncu-raw.csv")
    with open(path, newline="", encoding="utf-8") as file:
        head, _, *rows = csv.reader(file)
    first = head.index("CC") + 1
    equal(records(path, "metric"), sum(1 for row in rows for cell in row[first:] if cell))
    equal(len(rows), 2)


def about(value, expected, what):
    check(math.isclose(value, expected, rel_tol=1e-12), what, value, expected)


@test
def what_bounds_kernels_by_nsight_compute():
    path = fixture("ncu-raw.csv")
    with open(path, newline="", encoding="utf-8") as file:
        head, _, *rows = csv.reader(file)

    def mean(name):
        values = [float(row[head.index(name)].replace(",", "")) for row in rows]
        return sum(values) / len(values)

    kernel, = asked("counters", path, "--by", "kernel")["rows"]
    equal((kernel["kernel"], kernel["launches"]), ("tiny(float *)", 2))
    elapsed = ".avg.pct_of_peak_sustained_elapsed"
    for key, name in {
            "mean_ns": "gpu__time_duration.sum", "sm_pct": "sm__throughput" + elapsed,
            "tensor_pct": "sm__pipe_tensor_cycles_active" + elapsed,
            "dram_pct": "gpu__dram_throughput" + elapsed, "l2_pct": "lts__throughput" + elapsed,
            "l1_hit_pct": "l1tex__t_sector_hit_rate.pct", "l2_hit_pct": "lts__t_sector_hit_rate.pct",
            "achieved_occupancy_pct": "sm__warps_active.avg.pct_of_peak_sustained_active",
            "theoretical_occupancy_pct": "sm__maximum_warps_per_active_cycle_pct",
            "waves": "launch__waves_per_multiprocessor"}.items():
        about(kernel[key], mean(name), key)
    about(kernel["warp_efficiency_pct"],
          mean("smsp__thread_inst_executed_per_inst_executed.ratio") / 32 * 100, "warp efficiency")
    moved = mean("dram__bytes_read.sum") + mean("dram__bytes_write.sum")
    about(kernel["dram_bytes"], moved, "bytes")
    # Nsight Compute's own rate of the same launches.
    check(abs(kernel["dram_bytes_per_s"] / mean("dram__bytes.sum.per_second") - 1) < 1e-6, kernel)
    equal((kernel["tensor_ops"], kernel["ops_per_byte"]), (0, 0))
    stalls = {name.split("stalled_")[1].split("_per_")[0]: mean(name) for name in head
              if name.startswith("smsp__average_warps_issue_stalled_") and name.endswith("_per_issue_active.ratio")}
    check(stalls.pop("selected") == 1, "a warp at work")
    largest = max(stalls, key=stalls.get)
    equal((kernel["stall"], kernel["bound_by"]), (largest, "small grid"))
    about(kernel["stall_pct"], 100 * stalls[largest] / sum(stalls.values()), "stalls")
    # The occupancy that is computed of launch and device is the profiler's.
    equal(kernel["occupancy_limiter"], "blocks")


@test
def nvidia_smi():
    path = fixture("nvidia-smi.csv")
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file, skipinitialspace=True))
    celsius = [float(row["temperature.gpu"]) for row in rows]
    used = [int(row["memory.used [MiB]"].split()[0]) << 20 for row in rows]
    report = asked("report", path)
    equal(report["device_state"][0]["temperature_c"],
          {"samples": len(rows), "mean": sum(celsius) / len(rows), "min": min(celsius),
           "max": max(celsius)})
    device = report["memory"]["total"]["device_used"][0]
    equal((device["samples"], device["peak_device_used_bytes"], device["device_used_bytes"]),
          (len(rows), max(used), used[-1]))


if __name__ == "__main__":
    main()
