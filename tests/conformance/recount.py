# SPDX-License-Identifier: Apache-2.0
"""Counts and sums of a trace, by a slow, plain reader that shares no code with moescope.

recount(path) returns a dictionary of figures; a figure that is not in the file is left out. Times
are whole nanoseconds, converted from the file's decimals without floating point.
"""

import collections
import decimal
import gzip
import json
import pickle
import re
import sqlite3
import subprocess

KERNELS = ("kernel",)
COPIES = ("gpu_memcpy", "memcpy")
SETS = ("gpu_memset", "memset")
CALLS = ("cuda_runtime", "cuda_driver", "runtime")
OPERATIONS = ("cpu_op", "operator")
HOST = 0  # "Device Type" of memory events; others are devices: 1 CUDA, 6 HIP, 12 XPU


def union(spans):
    """Length of what the spans cover together."""
    total, end = 0, None
    for begin, stop in sorted(spans):
        if end is None or begin > end:
            total, end = total + stop - begin, stop
        elif stop > end:
            total, end = total + stop - end, stop
    return total


def shared(a, b):
    return union(a) + union(b) - union(a + b)


def nanoseconds(microseconds):
    exact = decimal.Decimal(str(microseconds)) * 1000
    return int(exact.to_integral_value(rounding=decimal.ROUND_HALF_UP))


def kind_of(path):
    with open(path, "rb") as file:
        head = file.read(16)
    if head.startswith(b"SQLite format 3"):
        return "nsight"
    if head.startswith(b"\x80"):
        return "snapshot"
    return "kineto"


# ---- traces of PyTorch's profiler


def kineto_events(path):
    """The list of events. For a truncated file: the events before its end."""
    opened = gzip.open if open(path, "rb").read(2) == b"\x1f\x8b" else open
    with opened(path, "rt", encoding="utf-8", errors="replace") as file:
        document = json.load(file, parse_float=str, strict=False)
    return document["traceEvents"] if isinstance(document, dict) else document


def number(value):
    try:
        return int(value)
    except (TypeError, ValueError):
        return None


def timed(event):
    begin = nanoseconds(event["ts"])
    return begin, begin + nanoseconds(event.get("dur", 0))


def device_of(event):
    device = number(event.get("args", {}).get("device"))
    return device if device is not None else number(event.get("pid"))


def by_device(events, chosen):
    spans = collections.defaultdict(list)
    for event in events:
        if chosen(event):
            spans[device_of(event)].append(timed(event))
    return spans


def category(event):
    return str(event.get("cat", "")).lower()


def sums(events, categories):
    chosen = [e for e in events if category(e) in categories]
    return chosen, sum(end - begin for begin, end in map(timed, chosen))


def by_name(events, key=lambda event: event["name"]):
    """Rows of [name, number, time], by name."""
    found = {}
    for event in events:
        row = found.setdefault(key(event), [0, 0])
        begin, end = timed(event)
        row[0] += 1
        row[1] += end - begin
    return [[name, *row] for name, row in sorted(found.items())]


def as_in_source(rows_by_name):
    """Kernel names that the file has as symbols, demangled by binutils."""
    symbols = [row[0] for row in rows_by_name if row[0].startswith("_Z")]
    if not symbols:
        return rows_by_name
    done = subprocess.run(["c++filt", "-r"], input="\n".join(symbols), stdout=subprocess.PIPE, text=True,
                          check=True)
    read = dict(zip(symbols, done.stdout.splitlines()))
    return sorted([read.get(row[0], row[0]), *row[1:]] for row in rows_by_name)


def copy_kind(event):
    """HtoD of "Memcpy HtoD (Pageable -> Device)"."""
    words = event["name"].split()
    return words[1] if len(words) > 1 and words[0] == "Memcpy" else ""


def step_times(events):
    """A step lasts as long as the longest of the ranges that name it."""
    times = {}
    for event in events:
        if event["name"].startswith("ProfilerStep#"):
            begin, end = timed(event)
            times[event["name"]] = max(times.get(event["name"], 0), end - begin)
    return sorted(times.values())


def bytes_of(events):
    """Their sum, or None if one of them is unknown."""
    told = [number(e.get("args", {}).get("bytes")) for e in events]
    return None if None in told else sum(told)


def thread_of(event):
    return str(event.get("pid")), str(event.get("tid"))


def innermost(ranges, moments):
    """For each (moment, weight) the enclosing range that began last; None without one."""
    inside, ahead = [], sorted(ranges, key=lambda r: (r[0], -r[1]))  # stable: the file's order
    ahead.reverse()
    for moment, weight in sorted(moments):
        while ahead and ahead[-1][0] <= moment:
            inside = [r for r in inside if r[1] > ahead[-1][0]] + [ahead.pop()]
        inside = [r for r in inside if r[1] > moment]
        yield inside[-1][2] if inside else None, weight


def device_time(events, ranges):
    """Device time by the innermost operation or range around the launching call, outside all, and
    of work whose call is not in the file."""
    calls, around, launched = {}, collections.defaultdict(list), collections.defaultdict(list)
    for event in events:
        if category(event) in CALLS and "correlation" in event.get("args", {}):
            calls.setdefault(number(event["args"]["correlation"]), event)
    for event in ranges:
        around[thread_of(event)].append((*timed(event), event["name"]))
    without_call, outside, found = 0, 0, collections.Counter()
    for event in events:
        if category(event) not in KERNELS + COPIES + SETS:
            continue
        begin, end = timed(event)
        call = calls.get(number(event.get("args", {}).get("correlation")) or None)
        if call is None:
            without_call += end - begin
        else:
            launched[thread_of(call)].append((timed(call)[0], end - begin))
    for thread, moments in launched.items():
        for name, time in innermost(around[thread], moments):
            if name is None:
                outside += time
            else:
                found[name] += time
    rows_found = [[name, time] for name, time in sorted(found.items()) if time]
    return {"device time of ranges": rows_found, "device time elsewhere": [outside, without_call]}


def kineto_memory(events):
    """Highest totals that the allocator reported: by device, and on the host."""
    peaks, host = {}, 0
    for event in events:
        args = event.get("args") or {}
        if event.get("name") != "[memory]" or "Total Allocated" not in args:
            continue
        allocated = number(args["Total Allocated"])
        if number(args.get("Device Type")) == HOST:
            host = max(host, allocated)
            continue
        peak = peaks.setdefault(number(args["Device Id"]), [0, 0])
        peak[0] = max(peak[0], allocated)
        peak[1] = max(peak[1], number(args.get("Total Reserved", 0)))
    return peaks, host


def on_devices(events, kernels):
    """Busy and idle time of each device, and NCCL against the rest."""
    busy = by_device(events, lambda e: category(e) in KERNELS + COPIES + SETS)
    nccl = by_device(kernels, lambda e: "nccl" in e["name"].lower())
    rest = by_device(kernels, lambda e: "nccl" not in e["name"].lower())
    windows = [max(end for _, end in spans) - min(begin for begin, _ in spans)
               for spans in busy.values()]
    return {
        "busy ns": sorted(map(union, busy.values())),
        "windows ns": sorted(windows),
        "nccl ns": sorted(union(spans) for spans in nccl.values()),
        "nccl beside compute ns": sorted(shared(nccl[d], rest.get(d, [])) for d in nccl),
    }


def host_collectives(host, kernels):
    """Number and time of the collectives that threads run themselves. If no backend names its own
    and no kernel could be one, those that torch.distributed reports."""
    chosen = [e for e in host if e["name"].startswith(("gloo:", "mpi:", "ucc:"))]
    if not kernels and not chosen and not any("nccl" in e["name"].lower() for e in host):
        told = [(e.get("args") or {}).get("Collective name") or "wait" for e in host]
        chosen = [e for e, name in zip(host, told) if e["name"] == "record_param_comms"
                  and name != "wait" and not name.startswith("init")]
    return [len(chosen), sum(end - begin for begin, end in map(timed, chosen))]


def kineto(path):
    everything = [e for e in kineto_events(path) if isinstance(e, dict)]
    events = [e for e in everything if e.get("ph") == "X" and "ts" in e]
    kernels, kernel_ns = sums(events, KERNELS)
    copies, copy_ns = sums(events, COPIES)
    sets, set_ns = sums(events, SETS)
    calls, call_ns = sums(events, CALLS)
    operations, _ = sums(events, OPERATIONS)
    annotations, _ = sums(events, ("user_annotation",))
    spans, span_ns = sums(events, ("gpu_user_annotation",))
    steps = step_times(operations + annotations)
    is_step = lambda e: e["name"].startswith("ProfilerStep#")
    found = {
        "categories": dict(collections.Counter(category(e) for e in events)),
        "kernels": len(kernels),
        "kernel ns": kernel_ns,
        "kernel rows": as_in_source(by_name(kernels)),
        "copies": len(copies),
        "copy ns": copy_ns,
        "copy kinds": by_name(copies, copy_kind),
        "sets": len(sets),
        "set ns": set_ns,
        "calls": len(calls),
        "call ns": call_ns,
        "call rows": by_name(calls),
        "operation rows": [row[:2] for row in by_name(e for e in operations if not is_step(e))],
        "range rows": [row[:2] for row in by_name(e for e in annotations if not is_step(e))],
        "device ranges": [len(spans), span_ns],
        "host collectives": host_collectives(operations + annotations, kernels),
        **on_devices(events, kernels),
        **device_time(events, [e for e in operations + annotations if not is_step(e)]),
    }
    if steps:
        found["steps"] = len(steps)
        found["step ns"] = steps
    for name, chosen in (("copy bytes", copies), ("set bytes", sets)):
        total = bytes_of(chosen)
        if total is not None:
            found[name] = total
    peaks, host = kineto_memory(everything)
    if peaks:
        found["peak allocated"] = sorted(p[0] for p in peaks.values())
        found["peak reserved"] = sorted(p[1] for p in peaks.values())
    if host:
        found["peak on the host"] = [host]
    return found


# ---- exports of Nsight Systems


def rows(database, table, *columns):
    """Rows of a table with columns it may not have; none for a missing table."""
    there = {row[1] for row in database.execute(f"pragma table_info({table})")}
    if not there:
        return []
    wanted = ", ".join(c if c in there else f"null as {c}" for c in columns)
    return database.execute(f"select {wanted} from {table}").fetchall()


def without_version(name):
    """cudaMemcpy from cudaMemcpy_v3020, cudaGetDeviceProperties from the same with _v2_v12000."""
    return re.sub(r"(_v\d+)+$", "", name)


def summed(named):
    """Rows of [name, number, time] from (name, (start, end, ...))."""
    found = {}
    for name, (begin, end, *_) in named:
        count, time = found.get(name, (0, 0))
        found[name] = (count + 1, time + end - begin)
    return [[name, *row] for name, row in sorted(found.items())]


def nsight(path):
    database = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    database.text_factory = lambda raw: raw.decode("utf-8", "replace")
    cupti = "CUPTI_ACTIVITY_KIND_"
    texts = dict(rows(database, "StringIds", "id", "value"))
    kernels = rows(database, cupti + "KERNEL", "start", "end", "deviceId", "globalPid",
                   "demangledName", "shortName")
    kernels += rows(database, cupti + "GRAPH_TRACE", "start", "end", "deviceId", "globalPid")
    copies = rows(database, cupti + "MEMCPY", "start", "end", "bytes")
    sets = rows(database, cupti + "MEMSET", "start", "end", "bytes")
    calls = rows(database, cupti + "RUNTIME", "start", "end", "nameId")
    ranges = rows(database, "NVTX_EVENTS", "eventType")
    busy = collections.defaultdict(list)
    for begin, end, device, process, *_ in kernels:
        busy[process, device].append((begin, end))
    found = {
        "kernels": len(kernels),
        "kernel ns": sum(row[1] - row[0] for row in kernels),
        "busy with kernels ns": sorted(map(union, busy.values())),
        "copies": len(copies),
        "copy ns": sum(row[1] - row[0] for row in copies),
        "copy bytes": sum(row[2] for row in copies),
        "sets": len(sets),
        "set ns": sum(row[1] - row[0] for row in sets),
        "set bytes": sum(row[2] for row in sets),
        "calls": len(calls),
        "call ns": sum(row[1] - row[0] for row in calls),
        "ranges": sum(row[0] == 59 for row in ranges),
        "call rows": summed((without_version(texts.get(row[2], "")), row) for row in calls),
    }
    if all(len(row) > 4 for row in kernels):  # launches of whole graphs have no name
        found["kernel rows"] = as_in_source(
            summed((texts.get(row[4]) or texts.get(row[5], ""), row) for row in kernels))
    return found


# ---- memory snapshots of PyTorch


class OnlyData(pickle.Unpickler):
    def find_class(self, module, name):
        raise pickle.UnpicklingError(f"{module}.{name} in a memory snapshot")


def peaks_of(history, live, reserved):
    """Running maxima, backwards from the state at the end."""
    allocated = {"alloc": 1, "free_requested": -1}
    held = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}
    peak_live, peak_reserved = live, reserved
    for event in reversed(history):
        live -= allocated.get(event["action"], 0) * event["size"]
        reserved -= held.get(event["action"], 0) * event["size"]
        peak_live, peak_reserved = max(peak_live, live), max(peak_reserved, reserved)
    return peak_live, peak_reserved


def active(segments):
    """Blocks that the program holds; released ones wait for other streams."""
    return [b for s in segments for b in s["blocks"] if b["state"] == "active_allocated"]


def snapshot(path):
    with open(path, "rb") as file:
        document = OnlyData(file).load()
    segments = document["segments"] if isinstance(document, dict) else document
    histories = document.get("device_traces", []) if isinstance(document, dict) else []
    devices = {s["device"] for s in segments}
    devices |= {i for i, history in enumerate(histories) if history}
    found = collections.defaultdict(list)
    for device in sorted(devices):
        mine = [s for s in segments if s["device"] == device]
        blocks = active(mine)
        reserved = sum(s["total_size"] for s in mine)
        live = sum(b.get("requested_size", b["size"]) for b in blocks)
        history = histories[device] if device < len(histories) else []
        peak_live, peak_reserved = peaks_of(history, live, reserved)
        found["segments"].append(len(mine))
        found["reserved"].append(reserved)
        found["allocated in blocks"].append(sum(b["size"] for b in blocks))
        found["allocated"].append(live)
        found["peak allocated"].append(peak_live)
        found["peak reserved"].append(peak_reserved)
    return {name: sorted(values) for name, values in found.items()}


READERS = {"kineto": kineto, "nsight": nsight, "snapshot": snapshot}


def recount(path):
    return READERS[kind_of(path)](path)
