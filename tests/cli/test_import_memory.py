# SPDX-License-Identifier: Apache-2.0
"""Memory snapshots of PyTorch as runs: figures against a plain reader in Python, bad files, code.

The plain reader unpickles with every import forbidden, and follows the allocator step by step with
dictionaries; it shares nothing with the importer.
"""

import io
import json
import os
import pathlib
import pickle
import struct

from cli import Skip, check, equal, main, moescope, one_sentence, test

FIXTURES = pathlib.Path(__file__).resolve().parents[3] / "shared" / "fixtures"
T = 1_700_000_000_000_000  # microseconds since 1970
MB = 1 << 20


class Plain(pickle.Unpickler):
    def find_class(self, module, name):
        raise pickle.UnpicklingError(f"{module}.{name} in a snapshot")


def plain(path):
    with open(path, "rb") as f:
        return Plain(f).load()


def fixture(name):
    path = FIXTURES / name
    if not path.exists():
        raise Skip(f"{path} is not there")
    return path


def memory(path):
    r = moescope("memory", path, "--json")
    equal(r.status, 0, r)
    equal(r.err, "", r)
    return json.loads(r.out)


def live_blocks(snapshot, device):
    """Address to bytes of what the program holds at the end."""
    blocks = {}
    for segment in snapshot["segments"]:
        address = segment["address"]
        for block in segment["blocks"]:
            if segment["device"] == device and block["state"] == "active_allocated":
                blocks[block.get("address", address)] = block.get("requested_size", block["size"])
            address += block["size"]
    return blocks


def slow_figures(snapshot, device):
    """Live bytes at the beginning by undoing the history from its end, then all of it forwards."""
    trace = snapshot["device_traces"][device]
    live = live_blocks(snapshot, device)
    reserved = sum(s["total_size"] for s in snapshot["segments"] if s["device"] == device)
    for entry in reversed(trace):
        if entry["action"] == "alloc":
            del live[entry["addr"]]
        elif entry["action"] == "free_requested":
            check(entry["addr"] not in live, entry)
            live[entry["addr"]] = entry["size"]
        elif entry["action"] in ("segment_alloc", "segment_map"):
            reserved -= entry["size"]
        elif entry["action"] in ("segment_free", "segment_unmap"):
            reserved += entry["size"]
    before = len(live)
    peak, peak_reserved, allocated = sum(live.values()), reserved, sum(live.values())
    for entry in trace:
        if entry["action"] == "alloc":
            live[entry["addr"]] = entry["size"]
            allocated += entry["size"]
        elif entry["action"] == "free_requested":
            del live[entry["addr"]]
        elif entry["action"] in ("segment_alloc", "segment_map"):
            reserved += entry["size"]
        elif entry["action"] in ("segment_free", "segment_unmap"):
            reserved -= entry["size"]
        peak = max(peak, sum(live.values()))
        peak_reserved = max(peak_reserved, reserved)
    actions = [entry["action"] for entry in trace]
    return {"allocated_bytes": sum(live.values()), "live_allocations": len(live),
            "peak_allocated_bytes": peak, "reserved_bytes": reserved,
            "peak_reserved_bytes": peak_reserved, "allocated_total_bytes": allocated,
            "allocations": before + actions.count("alloc"),
            "frees": actions.count("free_requested"), "unmatched_frees": 0, "replaced": 0}


def compare(path, device=0):
    snapshot = plain(path)
    row = [r for r in memory(path)["rows"] if r["device"] == device][0]
    wanted = slow_figures(snapshot, device)
    equal({key: row[key] for key in wanted}, wanted)
    segments = [s for s in snapshot["segments"] if s["device"] == device]
    equal(row["account_allocated_bytes"], sum(s["allocated_size"] for s in segments))
    equal(row["account_reserved_bytes"], sum(s["total_size"] for s in segments))
    equal(row["segments"], len(segments))
    return row, snapshot


@test
def own_recording():
    row, _ = compare(fixture("h200-torch2.11-memory-snapshot.pkl"))
    # as its README says
    equal(row["segments"], 59)
    equal(row["reserved_bytes"], 717_225_984)
    equal(row["account_allocated_bytes"], 438_474_240)
    r = moescope("memory", fixture("h200-torch2.11-memory-snapshot.pkl"))
    check("last 717 MB in 59 segments" in r.out, r.out)
    check("by its own account: allocated last 438 MB; reserved last 717 MB" in r.out, r.out)


@test
def annotations_and_steps_of_the_own_recording():
    path = fixture("h200-torch2.11-memory-snapshot.pkl")
    begun, ranges, steps = {}, {}, []
    for a in plain(path)["external_annotations"]:
        if a["stage"] == "START":
            begun[a["name"]] = a["time_us"]
        elif a["name"].startswith("ProfilerStep#"):
            steps.append((int(a["name"][13:]), (a["time_us"] - begun[a["name"]]) * 1000))
        else:
            count, total = ranges.get(a["name"], (0, 0))
            ranges[a["name"]] = (count + 1, total + (a["time_us"] - begun[a["name"]]) * 1000)
    r = moescope("ops", path, "--json")
    equal({row["name"]: (row["count"], row["cpu_ns"]) for row in json.loads(r.out)["rows"]},
          ranges)
    r = moescope("steps", path, "--json")
    equal([(row["step"], row["time_ns"]) for row in json.loads(r.out)["rows"]], steps)


@test
def public_sample():
    path = fixture("torch-memory-snapshot.pkl")
    row, snapshot = compare(path)
    # expandable segments; no times in its events
    check(all(s["is_expandable"] for s in snapshot["segments"]))
    check("time_us" not in snapshot["device_traces"][0][0])
    check("the events have no times" in moescope("memory", path).out)
    sites = {}
    trace = snapshot["device_traces"][0]
    live = {a: (n, None) for a, n in live_blocks(snapshot, 0).items()}
    for entry in reversed(trace):
        if entry["action"] == "alloc":
            del live[entry["addr"]]
        elif entry["action"] == "free_requested":
            live[entry["addr"]] = (entry["size"], None)
    most, at_peak = -1, {}
    for entry in trace:
        if entry["action"] == "alloc":
            frame = next((f for f in entry["frames"] if f["filename"].endswith(".py")), None)
            live[entry["addr"]] = (entry["size"], frame and
                                   f"{frame['filename']}:{frame['line']} {frame['name']}")
        elif entry["action"] == "free_requested":
            del live[entry["addr"]]
        if sum(n for n, _ in live.values()) > most:
            most, at_peak = sum(n for n, _ in live.values()), dict(live)
    for size, site in at_peak.values():
        sites[site] = sites.get(site, 0) + size
    got = {}
    for site in row["live_at_peak"]:
        got[site["site"]] = got.get(site["site"], 0) + site["bytes"]
    equal(got, sites)


def block(address, size, asked=None, state="active_allocated", frames=()):
    return {"address": address, "size": size, "requested_size": size if asked is None else asked,
            "state": state, "frames": list(frames)}


def segment(address, size, blocks, device=0, expandable=False):
    live = [b for b in blocks if b["state"] == "active_allocated"]
    return {"device": device, "address": address, "total_size": size, "stream": 0,
            "allocated_size": sum(b["size"] for b in live), "segment_type": "large",
            "segment_pool_id": (0, 0), "is_expandable": expandable, "frames": [], "blocks": blocks}


def entry(action, address, size, us, frames=()):
    return {"action": action, "addr": address, "size": size, "stream": 0, "time_us": T + us,
            "frames": list(frames)}


def write(snapshot, name="s.pkl", protocol=4):
    pathlib.Path(name).write_bytes(pickle.dumps(snapshot, protocol))
    return name


def small():
    """A block from before the history, one freed in it, one that comes and stays."""
    python = {"name": "forward", "filename": "model.py", "line": 12}
    native = {"name": "malloc()", "filename": "a.cpp", "line": 3}
    return {"segments": [segment(4096, 4096, [block(4096, 1024, 1000), block(5120, 512, 500),
                                             block(5632, 2560, 0, "inactive")])],
            "device_traces": [[entry("free_requested", 6144, 700, 0),
                               entry("free_completed", 6144, 700, 1),
                               entry("alloc", 5120, 500, 2, [native, python]),
                               dict(entry("oom", 0, 1 << 40, 3), device_free=77),
                               entry("snapshot", 0, 0, 4)]]}


@test
def before_the_history():
    row, _ = compare(write(small()))
    equal(row["allocated_bytes"], 1500)
    equal(row["peak_allocated_bytes"], 1700)
    equal(row["account_allocated_bytes"], 1536)
    for protocol in range(6):
        other = memory(write(small(), f"p{protocol}.pkl", protocol))["rows"][0]
        equal(other, row, protocol)


@test
def phases_by_annotations():
    """What comes inside an annotation is of its phase; what was there before is of none."""
    snapshot = small()
    snapshot["external_annotations"] = [
        {"stage": stage, "name": "forward", "device": 0, "time_us": T + us}
        for stage, us in (("START", -10), ("END", 20))]
    snapshot["device_traces"][0].insert(0, entry("alloc", 7168, 900, 0))
    snapshot["device_traces"][0].append(entry("free_requested", 7168, 900, 5))
    row, _ = compare(write(snapshot))
    equal({(s["phase"], s["bytes"]) for s in row["live_at_peak"]}, {(None, 1700), ("forward", 900)})


@test
def marks_of_the_allocator():
    r = moescope("export", write(small()), "--to", "chrome", "-o", "-")
    equal(r.status, 0, r)
    check("out of memory: 1099511627776 bytes asked for, 77 free on the device" in r.out, r.out)
    check("memory snapshot" in r.out, r.out)


@test
def segments_that_grow_and_shrink():
    """Mapped in three parts, of which the middle one goes again; and one that is only freed."""
    base = 1 << 33
    snapshot = {
        "segments": [segment(base, 2 * MB, [block(base, 2 * MB)], expandable=True),
                     segment(base + 4 * MB, 2 * MB,
                             [block(base + 4 * MB, 2 * MB, 0, "inactive")], expandable=True)],
        "device_traces": [[entry("segment_map", base + 2 * MB, 2 * MB, 0),
                           entry("segment_map", base + 4 * MB, 2 * MB, 1),
                           entry("alloc", base, 2 * MB, 2),
                           entry("segment_unmap", base + 2 * MB, 2 * MB, 3),
                           entry("segment_free", 1 << 34, 20 * MB, 4),
                           entry("alloc", base + 4 * MB, MB, 5),
                           entry("free_requested", base + 4 * MB, MB, 6)]]}
    row, _ = compare(write(snapshot))
    equal(row["reserved_bytes"], 4 * MB)
    equal(row["peak_reserved_bytes"], 26 * MB)
    points = {p["time_ns"]: p["reserved_bytes"] for p in row["series"]}
    # relative to the first record; the beginning is that of the history
    equal(points[2000], 26 * MB)
    equal(points[5000], 4 * MB)


@test
def peak_of_segments_within_one_moment():
    """The order of events decides where their times are equal: a history that begins with a segment
    that goes, one that comes after another went, one that went after another came."""
    def held(*events):
        snapshot = {"segments": [segment(4096, MB, [block(4096, 512)])],
                    "device_traces": [[*events, entry("alloc", 4096, 512, 9)]]}
        return compare(write(snapshot))[0]["peak_reserved_bytes"]

    there, other = 1 << 33, 1 << 34
    equal(held(entry("segment_free", there, 20 * MB, 0)), 21 * MB)
    equal(held(entry("segment_free", there, 20 * MB, 1), entry("segment_alloc", other, 30 * MB, 1),
               entry("segment_free", other, 30 * MB, 2)), 31 * MB)
    equal(held(entry("segment_alloc", other, 30 * MB, 1), entry("segment_free", there, 20 * MB, 1),
               entry("segment_free", other, 30 * MB, 2)), 51 * MB)
    equal(held(entry("segment_alloc", other, 30 * MB, 1),
               entry("segment_free", other, 30 * MB, 1)), 31 * MB)


@test
def segments_after_the_last_block():
    """empty_cache() at the end, and a segment that was taken and not used yet."""
    base = 1 << 33
    snapshot = {
        "segments": [segment(base, 8 * MB, [block(base, MB)]),
                     segment(base + 64 * MB, 2 * MB, [block(base + 64 * MB, 2 * MB, 0, "inactive")]),
                     segment(base + 96 * MB, 4 * MB, [block(base + 96 * MB, 4 * MB, 0, "inactive")])],
        "device_traces": [[entry("segment_alloc", base, 8 * MB, 0),
                           entry("alloc", base, MB, 1),
                           entry("segment_alloc", base + 32 * MB, 20 * MB, 2),
                           entry("alloc", base + 32 * MB, 16 * MB, 3),
                           entry("free_requested", base + 32 * MB, 16 * MB, 4),
                           entry("free_completed", base + 32 * MB, 16 * MB, 5),
                           entry("segment_free", base + 32 * MB, 20 * MB, 6),
                           entry("segment_alloc", base + 64 * MB, 2 * MB, 7),
                           entry("segment_alloc", base + 96 * MB, 4 * MB, 8)]]}
    row, _ = compare(write(snapshot))
    equal((row["reserved_bytes"], row["segments"]), (14 * MB, 3))
    equal(row["peak_reserved_bytes"], 28 * MB)
    equal(row["cache_slack_pct"], 100 * 13 / 14)
    equal([p["reserved_bytes"] for p in row["series"]], [8 * MB, 28 * MB, 28 * MB, 14 * MB])
    check("last 14.7 MB in 3 segments" in moescope("memory", "s.pkl").out)


@test
def devices_of_their_own():
    snapshot = small()
    snapshot["segments"].append(segment(4096, 1024, [block(4096, 512)], device=2))
    snapshot["device_traces"] += [[], [entry("alloc", 4096, 512, 9)]]
    path = write(snapshot)
    compare(path, 0)
    row, _ = compare(path, 2)
    equal(row["live_allocations"], 1)


@test
def one_moment_alone():
    for snapshot in (small()["segments"], {"segments": small()["segments"]},
                     {"segments": small()["segments"], "device_traces": [[]]}):
        path = write(snapshot)
        row = memory(path)["rows"][0]
        equal((row["allocated_bytes"], row["reserved_bytes"], row["segments"]), (1500, 4096, 1))
        check("it shows one moment" in moescope("memory", path).out)


@test
def blocks_of_old_versions():
    """Blocks without addresses and asked sizes lie one behind the other."""
    snapshot = {"segments": [{"device": 0, "address": 4096, "total_size": 4096, "stream": 0, "blocks": [
        {"size": 512, "state": "active_allocated"},
        {"size": 512, "state": "active_pending_free"},
        {"size": 1024, "state": "active_allocated", "history": [
            {"addr": 5120, "real_size": 1000, "frames": [
                {"filename": "old.py", "line": 7, "name": "f"}]},
            {"addr": 5120, "real_size": 1, "frames": []}]},
        {"size": 2048, "state": "inactive"}]}]}
    row = memory(write(snapshot))["rows"][0]
    equal((row["allocated_bytes"], row["live_allocations"]), (1512, 2))
    equal({s["site"]: s["bytes"] for s in row["live_at_peak"]}, {None: 512, "old.py:7 f": 1000})
    # the free ones are 512 bytes, and 24 and 2048 side by side
    equal(row["fragmentation_pct"], 100 * (1 - 2072 / 2584))


@test
def cut_anywhere():
    """Nothing at all, or fewer events than the whole has, never wrong ones, and a word about it."""
    whole = pickle.dumps(small(), 4)
    seen = set()
    for length in range(2, len(whole)):
        pathlib.Path("cut.pkl").write_bytes(whole[:length])
        r = moescope("memory", "cut.pkl", "--json")
        if r.status:
            one_sentence(r, 1, "cut.pkl: ", " at byte ")
            continue
        rows = json.loads(r.out)["rows"]
        notes = json.loads(r.out)["run"]["notes"]
        check("at byte" in notes, notes)
        seen.add(tuple((row["allocations"], row["frees"]) for row in rows))
        for row in rows:
            equal(row["unmatched_frees"], 0)
            check(row["peak_allocated_bytes"] <= 1700, length, row)
    check(((1, 1),) in seen and ((2, 1),) in seen, seen)


@test
def code_is_refused():
    class Evil:
        def __reduce__(self):
            return os.system, ("touch ran",)

    for protocol in range(6):
        for name, content in (("top", Evil()), ("inside", dict(small(), more=[1, {"x": Evil()}])),
                              ("first", {"device_traces": [[Evil()]], "segments": []})):
            path = write(content, f"{name}{protocol}.pkl", protocol)
            one_sentence(moescope("memory", path), 1,
                         f"{path}: contains code (opcode ", " at byte ",
                         "; refused: a memory snapshot has none")
    check(not os.path.exists("ran"))


@test
def things_that_stand_twice():
    """Traces of a million events that cost ten bytes: one list, everywhere."""
    trace = [entry("alloc", 4096, 512, 0)] * 1000
    snapshot = {"segments": small()["segments"] * 3, "device_traces": [trace] * 1000}
    path = write(snapshot)
    r = moescope("memory", path, "--json", cpu_s=20)
    equal(r.status, 0, r)
    rows = json.loads(r.out)["rows"]
    equal(len(rows), 1)
    equal(rows[0]["reserved_bytes"], 4096)
    check("stand at several" in json.loads(r.out)["run"]["notes"], r.out)


@test
def lists_in_themselves():
    snapshot = small()
    snapshot["device_traces"].append(snapshot["device_traces"])
    snapshot["device_traces"][0].append(snapshot)
    snapshot["segments"].append(snapshot["segments"])
    snapshot["segments"][0]["blocks"].append(snapshot["segments"][0])
    r = moescope("memory", write(snapshot), "--json", cpu_s=20)
    equal(r.status, 0, r)
    equal(json.loads(r.out)["rows"][0]["allocated_bytes"], 1500)


@test
def wrong_values():
    """Each is left out and counted, the rest stays."""
    for changes in ({"addr": None}, {"size": -1}, {"size": "12"}, {"action": 7}, {"size": 1 << 80},
                    {"addr": (1 << 64) - 1}):
        snapshot = small()
        snapshot["device_traces"][0].insert(0, dict(entry("alloc", 8192, 99, 0), **changes))
        r = moescope("memory", write(snapshot), "--json")
        equal(r.status, 0, r)
        out = json.loads(r.out)
        equal(out["loss"]["damaged_events"], 1, changes)
        equal(out["rows"][0]["allocated_bytes"], 1500, changes)
    snapshot = small()
    snapshot["device_traces"][0].append(entry("defragmented", 1, 2, 9))
    equal(memory(write(snapshot))["loss"]["unknown_events"], 1)
    snapshot = small()
    snapshot["segments"].append({"device": 5000, "address": 1, "total_size": 1, "blocks": []})
    equal(memory(write(snapshot))["loss"]["damaged_events"], 1)


@test
def no_snapshots():
    one_sentence(moescope("memory", write({"weights": [1.0]})), 1,
                 "a pickle, but no memory snapshot of PyTorch")
    one_sentence(moescope("memory", write({"segments": 7})), 1, "no memory snapshot")
    pathlib.Path("stub.pkl").write_bytes(b"\x80\x04\x95" + struct.pack("<Q", 1 << 60) + b"}.")
    one_sentence(moescope("memory", "stub.pkl"), 1, "no memory snapshot")


@test
def ranks_in_a_directory():
    os.mkdir("ranks")
    for rank in (3, 1):
        write(small(), f"ranks/rank{rank}.pickle")
    rows = memory("ranks")["rows"]
    equal([(r["rank"], r["allocated_bytes"]) for r in rows], [(1, 1500), (3, 1500)])


@test
def import_and_then_look():
    path = write(small())
    r = moescope("import", path, "-o", "a.mscope")
    equal(r.status, 0, r)
    equal(memory("a.mscope")["rows"], memory(path)["rows"])


main()
