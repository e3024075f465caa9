# SPDX-License-Identifier: Apache-2.0
"""Verdicts: the first one names the cause of traces whose cause is known, and none contradicts
another, its own evidence or the figures of the report."""

import json
import pathlib

from cli import Skip, check, equal, main, moescope, test
from planted import PLANTED

FIXTURES = pathlib.Path(__file__).resolve().parents[3] / "shared" / "fixtures"
DATA = pathlib.Path(__file__).resolve().parent.parent / "data"
RIGHT_SHARE = 0.95

# Public and own traces: what their authors say of them, and what a plain recount of the file shows.
KNOWN = [
    ("deepseek-train-ep64.json.gz", "gpu-busy"),  # 96% of its communication is hidden
    ("h200-torch2.11-mixtral-train.pt.trace.json.gz", "gpu-starved-host"),  # eager, stacks recorded
    ("kineto-2021-resnet50.pt.trace.json.gz", "gpu-starved-data"),  # num_workers=0
    ("kineto-2024-ns-resolution.pt.trace.json.gz", "gpu-busy"),
    ("kineto-two-ranks", "comm-exposed"),
    ("nsys-3.20-power-iteration.sqlite", "gpu-starved-host"),
    ("nsys-3.25-h100-2gpu.sqlite", "transfer-bound"),  # a benchmark of copies
    ("nsys-saxpy-old-schema.sqlite", "gpu-starved-host"),  # the host fills arrays between kernels
]

IDLE = {"gpu-starved-data": "idle_data_pct", "gpu-starved-host": "idle_host_in_long_gaps_pct",
        "gpu-starved-sync": "idle_sync_pct",
        "gpu-starved-launch": "idle_launch_or_in_short_gaps_pct"}
# Of these verdicts no moment of a device is in two gains.
TIME = [*IDLE, "transfer-bound", "comm-exposed", "rank-late"]
ABOUT = {**IDLE, "transfer-bound": "copies_alone_pct", "comm-exposed": "exposed_pct",
         "rank-late": "wait_pct"}


def contradictions(document):
    """What must not stand side by side in one report, as sentences."""
    verdicts = document["verdicts"]
    by = {v["id"]: v for v in verdicts}
    evidence = {k: x for v in verdicts for k, x in v["evidence"].items()}
    said = " ".join(v["title"] + " " + v["advice"] for v in verdicts)
    busy = evidence.get("busy_pct")
    found = []

    def wrong(condition, sentence):
        if condition:
            found.append(sentence)

    wrong("CPU-bound" in said and busy is not None and busy >= 50,
          f"CPU-bound beside busy {busy}%")
    wrong("shorter than the calls" in said and
          evidence["kernel_mean_ns"] >= evidence["launch_call_p50_ns"],
          "kernels are called shorter than their calls, and are not")
    wrong("gpu-busy" in by and ("gpu-idle" in by or (busy is not None and busy < 80)),
          f"busy and idle at once: {busy}")
    wrong("gpu-busy" in by and "Nothing to do" in by["gpu-busy"]["advice"],
          "nothing to do beside other verdicts")
    wrong("transfer-bound" in by and evidence.get("copied_bytes", 1 << 40) < 1 << 16,
          "a few bytes hold up the GPU")
    wrong("data-loading" in by and "gpu-starved-data" in by, "data loading twice")
    wrong("router-collapsed" in by and by.get("routing-imbalance", {}).get("severity") == "ok" and
          by["router-collapsed"]["evidence"]["layers"] == len(document["routing"]["rows"]),
          "collapsed and balanced")
    for name, key in ABOUT.items():
        if name in by and by[name]["gain_pct"] is not None:
            wrong(by[name]["gain_pct"] > by[name]["evidence"][key] + 0.01,
                  f"the gain of {name} is larger than the time that it is about")
    gains = sum(by[name]["gain_pct"] or 0 for name in TIME if name in by)
    wrong(gains > 100.01, f"gains add up to {gains}%")
    idle = sum(by[name]["gain_pct"] or 0 for name in IDLE if name in by)
    wrong(busy is not None and idle > 100.01 - busy, f"idle gains of {idle}% beside busy {busy}%")
    wrong(len([v for v in verdicts if "busy_pct" in v["evidence"]]) > 1 and
          len({v["evidence"]["busy_pct"] for v in verdicts if "busy_pct" in v["evidence"]}) > 1,
          "two figures of busy")
    wrong(document.get("timeline") and document["timeline"]["devices"] and
          not any(v["id"] in (*TIME, "gpu-idle", "gpu-busy", "slow-start") for v in verdicts),
          "a device without a verdict")
    devices = (document.get("timeline") or {}).get("devices") or []
    window = sum(d["window_ns"] for d in devices)
    whole = 100 * sum(d["busy_ns"] for d in devices) / window if window else None
    for v in verdicts:
        shown = v["evidence"].get("busy_pct")
        wrong(shown is not None and "steps" not in v["title"] and "steady" not in v["title"] and
              v["id"] in (*IDLE, "transfer-bound", "gpu-idle") and abs(shown - whole) > 0.1,
              f"busy {shown}% in the verdict, {whole}% in the report")
    ranks = ["critical", "warning", "note", "ok"]
    order = [ranks.index(v["severity"]) for v in verdicts]
    wrong(order != sorted(order), "not by severity")
    return found


def judge(path):
    r = moescope("report", path, "--json")
    equal(r.status, 0, r)
    return json.loads(r.out)


def ask(cases):
    """How many first verdicts are right; those that are not, and contradictions, as lines."""
    right, wrong, contrary = 0, [], []
    for name, path, wanted in cases:
        document = judge(path)
        first = document["verdicts"][0]["id"] if document["verdicts"] else None
        right += first == wanted
        if first != wanted:
            wrong.append(f"{name}: {first}, not {wanted}: "
                         f"{[(v['id'], v['gain_pct']) for v in document['verdicts']]}")
        contrary += [f"{name}: {sentence}" for sentence in contradictions(document)]
    return right, wrong, contrary


def planted_cases():
    for i, (name, plant, wanted) in enumerate(PLANTED):
        path = f"{i}.trace"
        plant(path)
        yield name, path, wanted


@test
def planted_causes_come_first():
    right, wrong, contrary = ask(planted_cases())
    print(f"  {right} of {len(PLANTED)} planted causes come first")
    check(right >= RIGHT_SHARE * len(PLANTED), *wrong)
    check(not contrary, *contrary)
    check(not wrong, *wrong)


def records(path, query):
    r = moescope("sql", path, query, "--json")
    if "no SQLite" in r.err:
        raise Skip("built without SQLite")
    equal(r.status, 0, r)
    return [tuple(row) for row in json.loads(r.out)["rows"]]


def wrong_moment(path, verdict):
    """What the records say against the moment of a verdict, as a sentence; None: nothing."""
    when = verdict["when"]
    # SQL has the host's clock, tables the time since the start of the run.
    steps = [row["start_ns"] for row in json.loads(moescope("steps", path, "--json", "--limit", "0").out)["rows"]]
    begin = records(path, "SELECT min(start_ns) FROM steps")[0][0] - min(steps) if steps else None
    if begin is None:
        return None  # nothing ties the clocks together
    start, end = when["start_ns"] + begin, when["end_ns"] + begin
    rank, device = when["rank"], when["device"]
    if verdict["id"] in ("memory-pressure", "fragmentation", "outside-allocator"):
        return None if start == end else "a peak is a moment"
    if when["lane"] == "steps":
        found = records(path, f"SELECT count(*) FROM steps WHERE rank = {rank} AND start_ns = {start} AND end_ns = {end}")
        return None if found == [(1,)] else "no such step"
    if when["lane"] == "copies":
        longest = records(path, f"SELECT max(duration_ns) FROM copies WHERE rank = {rank} AND device = {device}")
        same = records(path, f"SELECT count(*) FROM copies WHERE start_ns = {start} AND end_ns = {end}")
        return None if same[0][0] and end - start <= longest[0][0] else "no such copy"
    of_rank = f"WHERE rank = {rank} AND start_ns < {end} AND end_ns > {start}"
    if verdict["id"] in ("comm-exposed", "rank-late"):
        names = [name for name, in records(path, f"SELECT name FROM kernels {of_rank}")]
        return None if any("nccl" in name.lower() for name in names) else f"no communication: {names}"
    if verdict["id"] == "gpu-starved-data":
        return None if records(path, f"SELECT count(*) FROM ranges {of_rank} UNION ALL "
                               f"SELECT count(*) FROM operations {of_rank}") != [(0,), (0,)] else "no range"
    busy = sum(records(path, f"SELECT count(*) FROM {table} {of_rank} AND device = {device} AND NOT untimed")[0][0]
               for table in ("kernels", "copies", "sets"))
    return f"{busy} records in a gap" if busy else None


@test
def moments_are_where_the_records_say():
    looked = {}
    for name, path, _ in planted_cases():
        for verdict in judge(path)["verdicts"]:
            when = verdict["when"]
            equal(when is None, verdict.get("when_reason") is not None, name, verdict)
            # One of each rule and kind will do.
            if when is None or looked.get((verdict["id"], when["what"]), 0) > 1:
                continue
            check(0 <= when["start_ns"] <= when["end_ns"], name, verdict)
            equal(wrong_moment(path, verdict), None, name, verdict)
            looked[verdict["id"], when["what"]] = looked.get((verdict["id"], when["what"]), 0) + 1
    found = {rule for rule, _ in looked}
    for rule in ("gpu-starved-data", "gpu-starved-host", "gpu-starved-sync", "gpu-starved-launch", "transfer-bound",
                 "comm-exposed", "step-variation"):
        check(rule in found, rule, sorted(found))


@test
def short_programs_are_not_host_bound():
    """JAX, CuPy and Triton programs of a few seconds, most of it compiling, on an H200."""
    for name in ("h200-jax", "h200-cupy", "h200-triton"):
        document = judge(DATA / name)
        by = {v["id"]: v for v in document["verdicts"]}
        check(not contradictions(document), name, *contradictions(document))
        check(all(v["severity"] != "critical" for v in document["verdicts"]), name, by)
        check("gpu-busy" in by, name, by)
        left_out = by["slow-start"]["evidence"]
        check(left_out["judged_ns"] > 250e6 and left_out["aside_ns"] > 500e6, name, left_out)


@test
def known_traces():
    cases = [(name, FIXTURES / name, wanted) for name, wanted in KNOWN
             if (FIXTURES / name).exists()]
    if not cases:
        raise Skip(f"{FIXTURES} is not there")
    right, wrong, contrary = ask(cases)
    print(f"  {right} of {len(cases)} known causes come first")
    check(not contrary, *contrary)
    check(not wrong, *wrong)


if __name__ == "__main__":
    main()
