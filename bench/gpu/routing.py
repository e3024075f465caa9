#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What recording routing costs on this machine's GPU: routing.py [options]

Training: the Mixtral-shaped model of train.py, 32 x 1024 tokens a step, in one process, in blocks of
steps without and with each method in turn, so that all see the same clocks:
  recorder-counts, recorder-tokens   the C recorder, one hook a layer and nothing else
  counts, tokens                     moescope.MoEProfiler
  plain-hook                         torch.bincount on the device in a hook, nothing fetched
  synchronising                      torch.bincount(...).tolist() in a hook, the device waited for
Decoding: one token of one sequence as a CUDA graph, replayed without and with recording in it; first
every replay's counts are compared with a recount.

A JSON line for each method, then a table. Methods that fail are named with their error.
"""
import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
import traceback

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import interval, spread  # noqa: E402
from routing_parts import (Log, Recorder, StaticDecode, captured, experts_of, lib, lost,  # noqa: E402
                           recorded_graph, series)
from train import Wait, training  # noqa: E402

TRAINING = ("recorder-counts", "counts", "recorder-tokens", "tokens", "plain-hook", "synchronising")
CONTEXT, K, EXACT_REPLAYS = 1024, 2, 200
LIMIT_PCT = {"counts": 0.5, "recorder-counts": 0.5, "tokens": 1.0, "recorder-tokens": 1.0,
             "decode": 2.0}


def start(run, level="counts"):
    from moescope import api
    return api.start(run, level)


def stop():
    torch.cuda.synchronize()
    lib.load().moescope_stop()


class Direct:
    """The recorder by itself. Level counts: no device records."""

    def __init__(self, model, folder, tokens):
        self.model, self.folder, self.tokens, self.runs = model, folder, tokens, []

    def on(self):
        self.runs.append(os.path.join(self.folder, f"direct-{self.tokens}-{len(self.runs)}.mscope"))
        start(self.runs[-1])
        self.recorder = Recorder(self.model, K, tokens=self.tokens).attach()
        self.end = self.model.register_forward_hook(lambda *_: self.recorder.step())

    def off(self):
        self.end.remove()
        torch.cuda.synchronize()
        self.recorder.close()
        stop()


class Profiler:
    def __init__(self, model, folder, mode):
        self.model, self.folder, self.mode, self.runs = model, folder, mode, []

    def on(self):
        import moescope
        self.runs.append(os.path.join(self.folder, f"{self.mode}-{len(self.runs)}.mscope"))
        more = {"max_tokens": 32 * CONTEXT} if self.mode == "tokens" else {}
        self.profiler = moescope.MoEProfiler(self.model, mode=self.mode, run=self.runs[-1], **more)
        self.profiler.start()

    def off(self):
        torch.cuda.synchronize()
        self.profiler.stop()
        close = getattr(self.profiler, "close", None)
        if close:
            close()


class Hooks:
    """What people write by hand."""
    runs = []

    def __init__(self, model, synchronise):
        self.modules, self.synchronise = experts_of(model), synchronise

    def on(self):
        self.counts = [torch.zeros(m.num_experts, dtype=torch.long, device="cuda")
                       for m in self.modules]
        self.handles = [m.register_forward_pre_hook(self.hook(i))
                        for i, m in enumerate(self.modules)]

    def hook(self, layer):
        def before(module, args):
            counts = torch.bincount(args[1].reshape(-1), minlength=module.num_experts)
            if self.synchronise:
                torch.cuda.synchronize()
                counts.tolist()
            else:
                self.counts[layer] += counts
        return before

    def off(self):
        for handle in self.handles:
            handle.remove()


def method_of(name, model, folder, batch):
    if name.startswith("recorder-"):
        return Direct(model, folder, batch * CONTEXT if name.endswith("tokens") else 0)
    if name in ("counts", "tokens"):
        return Profiler(model, folder, name)
    return Hooks(model, name == "synchronising")


def timed(step, wait, n):
    """ms of each step except the first, which includes starting and compiling."""
    times = []
    for _ in range(n + 1):
        began = time.perf_counter()
        step()
        wait()
        times.append((time.perf_counter() - began) * 1e3)
    return times[1:]


def recorded(run, steps, tokens, layers):
    """"" if the run has every assignment of the block, else what is wrong."""
    rows = lib.table("routing", run)["rows"]
    want = steps * tokens
    if len({row["layer"] for row in rows}) != layers:
        return f"{len(rows)} layers instead of {layers}"
    for layer in range(layers):
        got = sum(row["assignments"] for row in rows if row["layer"] == layer)
        if got != want * K:
            return f"layer {layer} has {got} assignments instead of {want * K}"
    trouble = lost(run)
    return f"lost: {trouble}" if trouble else ""


def measure(name, model, step, args, folder):
    method, wait = method_of(name, model, folder, args.batch), Wait()
    before = statistics.mean(timed(step, wait, args.steps))
    costs, plain = [], [before]
    for _ in range(args.pairs):
        method.on()
        try:
            during = statistics.mean(timed(step, wait, args.steps))
        finally:
            method.off()
        after = statistics.mean(timed(step, wait, args.steps))
        costs.append(100 * (2 * during / (before + after) - 1))
        plain.append(after)
        before = after
    wrong = [w for w in (recorded(run, args.steps + 1, args.batch * CONTEXT, 8)
                         for run in method.runs) if w]
    return {"costs_pct": costs, "plain_ms": statistics.median(plain),
            "exact": (not wrong) if method.runs else None, "wrong": wrong[:3]}


def replay_times(graph, n):
    """us of a replay: n of them back to back."""
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    graph.replay()
    first.record()
    for _ in range(n):
        graph.replay()
    last.record()
    torch.cuda.synchronize()
    return first.elapsed_time(last) * 1e3 / n


def exact_replays(model, recorder, folder):
    """"" if each replay's counts equal the recount by plain operations in the same graph."""
    run = os.path.join(folder, "exact.mscope")
    log = Log(model, EXACT_REPLAYS + 8, "cuda")
    graph = recorded_graph(model, recorder, log)
    start(run)
    recorder.step(99)  # it is empty; the replays continue counting from here
    for _ in range(EXACT_REPLAYS):
        graph.replay()
    torch.cuda.synchronize()
    recorder.flush()
    stop()
    log.detach()
    trouble = lost(run)
    if trouble:
        return f"lost: {trouble}"
    for layer in range(len(log.modules)):
        want = {100 + s: log.load(s, layer) for s in range(EXACT_REPLAYS)}
        got = series(run, layer)
        if got != want:
            bad = next(s for s in {**want, **got} if want.get(s) != got.get(s))
            return f"layer {layer}, step {bad}: {got.get(bad)} is not {want.get(bad)}"
    return ""


def decode(args, folder):
    torch.manual_seed(0)
    model = StaticDecode().to("cuda", torch.bfloat16).eval()
    model()  # kernels are loaded
    bare = captured(model)
    recorder = Recorder(model, K).attach()
    wrong = exact_replays(model, recorder, folder)

    with_counts = recorded_graph(model, recorder)
    recorder.detach()
    run = os.path.join(folder, "decode.mscope")
    start(run)
    replay_times(bare, 200), replay_times(with_counts, 200)
    before = replay_times(bare, args.replays)
    costs, plain, added = [], [before], []
    for _ in range(args.pairs):
        during = replay_times(with_counts, args.replays)
        after = replay_times(bare, args.replays)
        costs.append(100 * (2 * during / (before + after) - 1))
        added.append(during - (before + after) / 2)
        plain.append(after)
        before = after
    torch.cuda.synchronize()
    recorder.flush()
    stop()
    want = args.pairs * (args.replays + 1) + 201
    got = len(series(run, 0))
    if not wrong and got != want:
        wrong = f"{got} of {want} replays are in the run"
    if not wrong and lost(run):
        wrong = f"lost: {lost(run)}"
    return {"costs_pct": costs, "plain_us": statistics.median(plain), "added_us": added,
            "replays": want, "exact": not wrong, "wrong": [wrong] if wrong else []}


def line(name, result):
    if "error" in result:
        return f"| {name} | not measured: {result['error']} | | |"
    plain = f"{result['plain_ms']:.1f} ms" if "plain_ms" in result else f"{result['plain_us']:.0f} us"
    exact = {True: "yes", False: "NO: " + "; ".join(result["wrong"]), None: "-"}[result["exact"]]
    limit = LIMIT_PCT.get(name)
    over = limit is not None and interval(result["costs_pct"])[0] > limit
    return (f"| {name} | {plain} | {spread(result['costs_pct'])}"
            f"{f' (more than {limit}%)' if over else ''} | {exact} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join((*TRAINING, "decode")))
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--steps", type=int, default=3, help="timed steps of a block")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--replays", type=int, default=600, help="of a block")
    parser.add_argument("--keep", help="keep the runs in this folder")
    args = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("routing.py: no CUDA device here")
    wanted = args.only.split(",")
    unknown = set(wanted) - {*TRAINING, "decode"}
    if unknown:
        raise SystemExit(f"routing.py: no such method: {', '.join(sorted(unknown))}")
    folder = args.keep or tempfile.mkdtemp(prefix="moescope-routing-")
    os.makedirs(folder, exist_ok=True)
    results, began = {}, time.monotonic()

    def attempt(name, work):
        try:
            results[name] = work()
        except Exception as why:  # one that fails is no reason to lose the others
            traceback.print_exc()
            results[name] = {"error": f"{type(why).__name__}: {why}".splitlines()[0][:300]}
        results[name]["seconds"] = round(time.monotonic() - began, 1)
        print(json.dumps({name: results[name]}), flush=True)

    if "decode" in wanted:  # first: it needs little memory, and a graph little noise
        attempt("decode", lambda: decode(args, folder))
        torch.cuda.empty_cache()
    if set(wanted) & set(TRAINING):
        model, step = training(args.batch, CONTEXT)
        timed(step, Wait(), 8)
        for name in (n for n in TRAINING if n in wanted):
            attempt(name, lambda name=name: measure(name, model, step, args, folder))
    print("\n| method | without | added | every token recorded |\n|---|---|---|---|")
    for name, result in results.items():
        print(line(name, result))
    if not args.keep:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if any("error" in r or r.get("exact") is False for r in results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
