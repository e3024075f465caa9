#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What MoEProfiler costs in eager decoding, one token of one sequence: decode.py [options]

A Mixtral-shaped model of 24 layers decodes in one process. A round is a few steps with no hooks,
with those of MoEProfiler, and with a plain hook a layer that adds torch.bincount of the experts'
indices to a tensor; hooks are put on and off between them, so that all see the same clocks and
neighbours. On a GPU the figure is wall time, and beside it the CPU time of the thread, which is what
a host that others share still tells; on a CPU the latter alone. Beside that the CPU time of the
profiler's own thread.

First the counts of some steps are compared with a plain hook's. The table has each cost with an
interval for its median over the rounds, the JSON file all rounds. A minute or less; --device cpu
for a machine without a GPU.
"""
import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from ctypes import byref
from types import SimpleNamespace

import torch
from transformers import MixtralConfig, MixtralForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(os.path.dirname(HERE)), "python")]
import moescope  # noqa: E402
from moescope import _library as lib  # noqa: E402
from harness import interval, spread  # noqa: E402

LONGEST = 256


def build(args):
    small = args.device == "cpu"
    config = MixtralConfig(
        vocab_size=256 if small else 32000, hidden_size=64 if small else 1024,
        intermediate_size=64 if small else 1792, num_hidden_layers=args.layers,
        num_attention_heads=4 if small else 16, num_key_value_heads=2 if small else 8,
        num_local_experts=8, num_experts_per_tok=2, max_position_embeddings=512)
    torch.manual_seed(0)
    with torch.device(args.device):
        return MixtralForCausalLM(config).to(torch.float32 if small else torch.bfloat16).eval()


def decoding_step(model, device):
    """A function that decodes one token. When the cache is long it restarts, without a prompt, so
    that every step is a step of one token."""
    state = {"cache": None, "token": torch.ones(1, 1, dtype=torch.long, device=device), "length": 0}

    @torch.inference_mode()
    def step():
        if state["length"] >= LONGEST:
            state.update(cache=None, length=0)
        out = model(input_ids=state["token"], past_key_values=state["cache"], use_cache=True)
        state["length"] += 1
        state["token"] = out.logits[:, -1:].argmax(-1)
        state["cache"] = out.past_key_values

    return step


class PlainHook:
    def __init__(self, model, device):
        self.experts = [m for m in model.modules() if hasattr(m, "down_proj")
                        and getattr(m.down_proj, "ndim", 0) == 3]
        self.counts = [torch.zeros(m.num_experts, dtype=torch.long, device=device)
                       for m in self.experts]

    def hook(self, layer):
        def before(module, args):
            self.counts[layer] += torch.bincount(args[1].reshape(-1), minlength=module.num_experts)
        return before

    def on(self):
        self.handles = [m.register_forward_pre_hook(self.hook(i))
                        for i, m in enumerate(self.experts)]

    def off(self):
        for handle in self.handles:
            handle.remove()


class Hooks:
    """The current hooks of a model, to be removed and restored."""
    KINDS = ("_forward_pre_hooks", "_forward_pre_hooks_with_kwargs", "_forward_hooks",
             "_forward_hooks_with_kwargs", "_forward_hooks_always_called")

    def __init__(self, model):
        self.dicts = [getattr(m, kind) for m in model.modules() for kind in self.KINDS]
        self.off()

    def on(self):
        for hooks, saved in self.saved:
            hooks.update(saved)

    def off(self):
        """As they are now: a profiler may have changed them while they were on."""
        self.saved = [(hooks, dict(hooks)) for hooks in self.dicts if hooks]
        for hooks, _ in self.saved:
            hooks.clear()


def hooks_of(model, thing):
    thing.on()
    return Hooks(model)


def exact(model, profiler, step, device):
    """Counts of some steps equal those of a plain hook that ran alongside."""
    plain = PlainHook(model, device)
    plain.on()
    with profiler:
        for _ in range(20):
            step()
        if device == "cuda":
            torch.cuda.synchronize()
    plain.off()
    return [v.metrics.loads for v in profiler.wrappers] == [c.tolist() for c in plain.counts]


def block(step, steps, device):
    """Mean time of a step in µs: on a GPU by the wall clock, and of the thread without its last
    wait."""
    if device == "cuda":
        torch.cuda.synchronize()
    wall, thread = time.perf_counter_ns(), time.thread_time_ns()
    for _ in range(steps):
        step()
    thread = time.thread_time_ns() - thread
    if device == "cuda":
        torch.cuda.synchronize()
    wall = time.perf_counter_ns() - wall
    return {"wall": wall / steps / 1e3, "thread": thread / steps / 1e3}


def measure(args, methods, step):
    """{method: µs per step by clock, by round}, each round in a different order."""
    times, names = {name: [] for name in methods}, list(methods)
    until = time.monotonic() + args.seconds
    while time.monotonic() < until or len(times[names[0]]) < 6:
        names.append(names.pop(0))
        for name in names:
            if methods[name]:
                methods[name].on()
            step()  # the first after a switch
            times[name].append(block(step, args.steps, args.device))
            if methods[name]:
                methods[name].off()
    return times


def compare(times, clock, layers):
    """What each method adds to a bare step of its round."""
    of = {name: [block[clock] for block in blocks] for name, blocks in times.items()}
    bare = statistics.median(of["bare"])
    told = {"bare_us": bare, "methods": {}}
    for name in list(of)[1:]:
        extra = [t - b for t, b in zip(of[name], of["bare"])]
        pct = [100 * v / bare for v in extra]
        layer = [v / layers for v in extra]
        median, low, high, confidence = interval(pct)
        told["methods"][name] = {
            "cost_pct": median, "low_pct": low, "high_pct": high, "confidence": confidence,
            "mean_pct": 100 * (statistics.mean(of[name]) / statistics.mean(of["bare"]) - 1),
            "layer_us": statistics.median(layer),
            "words": f"{spread(pct)}, a layer {spread(layer, ' µs')}"}
    return told


def drained_ns():
    stats = lib.Stats()
    lib.load().moescope_get_stats(byref(stats))
    return stats.drain_cpu_ns


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--mode", choices=("counts", "tokens"), default="counts")
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--steps", type=int, help="of a method in a round; 4 on a GPU, 2 on a CPU")
    parser.add_argument("--seconds", type=float, default=30, help="of measuring")
    parser.add_argument("--json", help="file for the figures of all rounds")
    args = parser.parse_args()
    if args.device == "cuda" and not torch.cuda.is_available():
        sys.exit("decode.py: no CUDA device; give --device cpu")
    args.steps = args.steps or (4 if args.device == "cuda" else 2)
    clocks = ("wall", "thread") if args.device == "cuda" else ("thread",)
    torch.set_num_threads(1)
    model = build(args)
    step = decoding_step(model, args.device)
    for _ in range(20):
        step()
    folder = tempfile.mkdtemp(prefix="moescope-decode-")
    right = exact(model, moescope.MoEProfiler(model, mode=args.mode,
                                              run=os.path.join(folder, "exact.mscope")),
                  step, args.device)
    profiler = moescope.MoEProfiler(model, mode=args.mode, run=os.path.join(folder, "run.mscope"))
    methods = {"bare": None, "moescope": hooks_of(model, SimpleNamespace(on=profiler.start)),
               "plain hook": hooks_of(model, PlainHook(model, args.device))}
    began = drained_ns()
    times = measure(args, methods, step)
    rounds = len(times["bare"])
    drained = (drained_ns() - began) / 1e3 / (rounds * (args.steps + 1))
    methods["moescope"].on()
    profiler.stop()
    shutil.rmtree(folder)
    result = {"device": args.device, "mode": args.mode, "layers": args.layers, "exact": right,
              "torch": torch.__version__, "drain_us": drained, "rounds_us": times, "clocks": {}}
    print(f"{args.layers} layers on {args.device}, mode {args.mode}: {rounds} rounds of {args.steps} "
          f"steps; counts {'exact' if right else 'DIFFER'}")
    for clock in clocks:
        told = result["clocks"][clock] = compare(times, clock, args.layers)
        print(f"{clock} time: a bare step takes {told['bare_us']:.0f} µs")
        for name, method in told["methods"].items():
            print(f"  {name:11} {method['words']}")
    print(f"the profiler's own thread: {drained:.0f} µs of CPU time a step")
    if args.json:
        with open(args.json, "w") as out:
            json.dump(result, out, indent=1)
    sys.exit(0 if right else 1)


if __name__ == "__main__":
    main()
