# SPDX-License-Identifier: Apache-2.0
"""The parts of a mixture of experts in a real trace, recounted here from the file alone."""

import collections
import functools
import gzip
import json
import pathlib

from cli import Skip, check, equal, main, moescope, test

MODULES = (pathlib.Path(__file__).resolve().parents[3] /
           "shared/fixtures/h200-torch2.11-mixtral-train.pt.trace.json.gz")
TRACE = pathlib.Path(__file__).resolve().parents[3] / "shared/fixtures/deepseek-train-ep64.json.gz"


class Kernel:
    """A kernel, the annotation that it was launched in, and which instance of it."""

    def __init__(self, event, place):
        self.start, self.end = event["ts"] * 1000, (event["ts"] + event["dur"]) * 1000
        self.name, self.args, self.place = event["name"], event["args"], place
        self.part, self.letter = place["name"][:-1].split("(")
        self.moves = "::ep::" in self.name


@functools.lru_cache(maxsize=None)
def kernels():
    if not TRACE.exists():
        raise Skip(f"{TRACE.name} is not beside the repository")
    with gzip.open(TRACE) as file:
        events = [e for e in json.load(file)["traceEvents"] if e["ph"] == "X"]
    calls = {e["args"]["correlation"]: e for e in events
             if e["cat"] in ("cuda_runtime", "cuda_driver") and "correlation" in e["args"]}
    places = [e for e in events if e["cat"] == "user_annotation" and e["name"].endswith(")")]
    found = []
    for event in events:
        if event["cat"] != "kernel":
            continue
        at = calls[event["args"]["correlation"]]["ts"]
        # The backward pass of attention is launched by another thread inside of attn(B).
        around = [p for p in places if p["ts"] <= at < p["ts"] + p["dur"]]
        equal(len(around), 1, event)
        found.append(Kernel(event, around[0]))
    return found


def union(chosen):
    merged = []
    for start, end in sorted((k.start, k.end) for k in chosen):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        elif end > start:
            merged.append([start, end])
    return merged


def length(spans):
    return sum(end - start for start, end in spans)


def both(a, b):
    return sum(max(0, min(x[1], y[1]) - max(x[0], y[0])) for x in a for y in b)


def answer():
    kernels()
    r = moescope("moe", str(TRACE), "--json")
    equal(r.status, 0, r)
    return json.loads(r.out)


@test
def communication_is_that_of_the_file():
    total = answer()["total"]
    comm, others = (union(k for k in kernels() if k.moves == moves) for moves in (True, False))
    equal(total["comm_ns"], length(comm))
    equal(total["overlap_ns"], both(comm, others))
    equal(total["exposed_ns"], length(comm) - both(comm, others))
    equal(total["notify_ns"], length(union(k for k in kernels() if "notify" in k.name)))
    equal(total["count"], sum(k.moves for k in kernels()))
    # What is known of this file.
    equal([round(total[key] / 1e6, digits) for key, digits in
           (("comm_ns", 1), ("exposed_ns", 2), ("notify_ns", 1))], [113.4, 4.19, 32.6])
    equal(round(total["comm_overlap_pct"], 1), 96.3)
    equal(total["overlap_kind"], "forward beside backward")
    equal(total["precision"], "FP8")


@test
def rows_are_those_of_the_annotations():
    rows = {(row["part"], row["pass"]): row for row in answer()["rows"]}
    letters = {"forward": "F", "backward": "B", "weight": "W"}
    for part in ("dispatch", "combine"):
        for name in ("forward", "backward"):
            row = rows[part, name]
            here = [k for k in kernels() if (k.part, k.letter) == (part, letters[name])]
            comm = union(k for k in here if k.moves)
            other = "BW" if name == "forward" else "F"
            equal(row["time_ns"], length(union(here)), part, name)
            equal(row["comm_ns"], length(comm), part, name)
            equal(row["notify_ns"], length(union(k for k in here if "notify" in k.name)), part)
            equal(row["two_batch_ns"],
                  both(comm, union(k for k in kernels() if not k.moves and k.letter in other)))
            for beside, letter in letters.items():
                equal(row[f"beside_{beside}_ns"],
                      both(comm, union(k for k in kernels()
                                       if not k.moves and k.letter == letter)), part, beside)
    equal([round(rows[row][key] / 1e6, 1) for row in
           (("dispatch", "forward"), ("combine", "forward"), ("dispatch", "backward"),
            ("combine", "backward")) for key in ("comm_ns", "two_batch_ns")],
          [26.8, 26.5, 34.7, 34.1, 29.9, 14.0, 22.0, 14.5])
    # Attention and the router are launched inside of one annotation, experts in theirs.
    for name, letter in letters.items():
        attention = sum(rows.get((part, name), {}).get("count", 0) for part in ("attention", "router"))
        equal(attention + rows["experts", name]["count"],
              sum(k.part in ("attn", "mlp") and k.letter == letter for k in kernels()), name)


@test
def cost_is_that_of_equal_places():
    comm = union(k for k in kernels() if k.moves)
    launches = collections.defaultdict(list)
    for k in kernels():
        if not k.moves and k.end > k.start:
            launch = (k.name, *(str(k.args.get(key)) for key in
                                ("grid", "block", "shared memory", "registers per thread")))
            launches[launch, k.place["name"], k.place["ts"]].append(k)
    places = collections.defaultdict(lambda: ([], []))
    for (launch, name, _), found in launches.items():
        for order, k in enumerate(sorted(found, key=lambda k: k.start)):
            share = both(comm, [[k.start, k.end]]) / (k.end - k.start)
            if share >= 0.9 or share <= 0.1:
                places[launch, name, len(found), order][share >= 0.9].append(k.end - k.start)
    pairs = [(clear, beside) for clear, beside in places.values() if clear and beside]
    wanted = sum(len(beside) * sum(clear) / len(clear) for clear, beside in pairs)
    took = sum(sum(beside) for _, beside in pairs)
    total = answer()["total"]
    equal(total["compared"], sum(len(beside) for _, beside in pairs))
    check(abs(total["extra_ns"] - (took - wanted)) < 1, total["extra_ns"], took - wanted)
    check(abs(total["slower_pct"] - 100 * (took - wanted) / wanted) < 1e-6, total["slower_pct"])
    equal(sum(row["beside"] for row in total["cost"]), total["compared"])


@test
def layers_are_the_runs_of_the_annotations():
    total = answer()["total"]
    equal((total["layers_by"], len(total["layers"])), ("order", 4))
    order = {name: sorted({k.place["ts"] for k in kernels() if k.place["name"] == name})
             for name in {k.place["name"] for k in kernels()}}
    for layer in total["layers"]:
        here = [k for k in kernels()
                if order[k.place["name"]].index(k.place["ts"]) + 1 == layer["number"]]
        equal(layer["count"], len(here))
        for part in ("dispatch", "combine"):
            equal(layer[f"{part}_ns"], sum(k.end - k.start for k in here if k.part == part))


def moment(event, key="ts"):
    """Nanoseconds, of microseconds with three decimals."""
    return round(event[key] * 1000)


@test
def layers_of_modules_and_of_the_arrows_back_to_them():
    if not MODULES.exists():
        raise Skip(f"{MODULES.name} is not beside the repository")
    with gzip.open(MODULES) as file:
        events = json.load(file)["traceEvents"]
    timed = [e for e in events if e["ph"] == "X"]
    calls = {e["args"]["correlation"]: e for e in timed
             if e["cat"] in ("cuda_runtime", "cuda_driver") and "correlation" in e["args"]}
    layers = [(e["tid"], moment(e), moment(e) + moment(e, "dur"), int(e["name"].rsplit("_", 1)[1]))
              for e in timed if e["name"].startswith("nn.Module: MixtralDecoderLayer_")]
    begins = {e["id"]: e for e in events if e.get("cat") == "fwdbwd" and e["ph"] == "s"}
    arrows = {(e["tid"], moment(e)): begins[e["id"]] for e in events
              if e.get("cat") == "fwdbwd" and e["ph"] == "f" and e["id"] in begins}
    ops = collections.defaultdict(list)
    for e in timed:
        if e["cat"] == "cpu_op":
            ops[e["tid"]].append((moment(e), moment(e) + moment(e, "dur")))

    def layer_at(thread, time):
        return next((layer for tid, start, end, layer in layers
                     if tid == thread and start <= time < end), None)

    counts = collections.Counter()
    for e in timed:
        if e["cat"] != "kernel":
            continue
        call = calls[e["args"]["correlation"]]
        found = layer_at(call["tid"], moment(call))
        for start, end in sorted(ops[call["tid"]], reverse=True):
            back = arrows.get((call["tid"], start))
            if found is None and back and start <= moment(call) < end:
                found = layer_at(back["tid"], moment(back))
        counts[found] += 1
    document = json.loads(moescope("moe", str(MODULES), "--json").out)
    total = document["total"]
    equal(total["layers_by"], "ranges")
    equal({layer["number"]: layer["count"] for layer in total["layers"]},
          {layer: count for layer, count in counts.items() if layer is not None})
    equal(sum(row["count"] for row in document["rows"]), sum(counts.values()))
    equal(total["count"], 0)


@test
def every_figure_is_explained():
    document = answer()
    total = document["total"]
    keys = {key for row in (document["rows"][0], total, total["cost"][0], total["layers"][0])
            for key in row if not key.endswith("_reason")}
    for key in keys - {"present", "count", "cost", "layers", "name", "short_name"}:
        equal(moescope("explain", key).status, 0, key)


@test
def the_report_has_the_block():
    kernels()
    text = moescope("report", str(TRACE)).out
    block = text.split("\nMixture of experts on the devices\n")[1].split("\n\n")[0]
    for words in ("113 ms, 96.3% hidden, 4.19 ms exposed; 32.6 ms of it", "4 layers",
                  "two-batch overlap, forward beside backward: 78.5% of it overlaps work of another batch", "experts compute in FP8"):
        check(words in " ".join(block.split()), words, block)
    document = json.loads(moescope("report", str(TRACE), "--json").out)
    equal(document["moe"]["total"], answer()["total"])


if __name__ == "__main__":
    main()
