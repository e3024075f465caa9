#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What MoEProfiler costs in eager decoding, one token of one sequence: decode.py [options]

A Mixtral-shaped model of 24 layers decodes in one process, in blocks of steps: bare, then with each
method, then bare again, so that all see the same clocks and neighbours:
  counts, tokens   moescope.MoEProfiler in these modes
  plain-hook       a hook a layer that adds torch.bincount of the experts' indices to a tensor
On a GPU the figure is wall time; on a CPU, which other programs may share, it is the CPU time of the
process, the profiler's own threads included. The last block's counts are compared with those of a
second plain hook. The table has each method's cost with an interval for its median, the JSON file all
blocks. About a minute; --device cpu for a machine without a GPU.
"""
import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time

import torch
from transformers import MixtralConfig, MixtralForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(os.path.dirname(HERE)), "python")]
import moescope  # noqa: E402
from harness import interval, spread  # noqa: E402

PROMPT, LONGEST = 16, 256


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
    """A function that decodes one token. The cache begins again when it is long, without a prompt,
    so that every step is a step of one token."""
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


class Profiler:
    def __init__(self, model, folder, mode):
        self.model, self.folder, self.mode = model, folder, mode
        self.blocks = 0

    def on(self):
        run = os.path.join(self.folder, f"{self.mode}-{self.blocks}.mscope")
        self.blocks += 1
        self.profiler = moescope.MoEProfiler(self.model, mode=self.mode, run=run)
        self.profiler.start()

    def off(self):
        self.profiler.stop()
        self.run = self.profiler.run

    def check(self, step, device):
        """Counts of a block equal those of a plain hook that ran beside it."""
        plain = PlainHook(self.model, device)
        plain.on()
        self.on()
        for _ in range(20):
            step()
        if device == "cuda":
            torch.cuda.synchronize()
        self.off()
        plain.off()
        return [v.metrics.loads for v in self.profiler.wrappers] == [
            c.tolist() for c in plain.counts]


def block(step, steps, device):
    """Mean of a step in µs; the first, in which things are made, is left out."""
    clock = time.perf_counter if device == "cuda" else time.process_time
    step()
    if device == "cuda":
        torch.cuda.synchronize()
    began = clock()
    for _ in range(steps):
        step()
    if device == "cuda":
        torch.cuda.synchronize()
    return (clock() - began) / steps * 1e6


def measure(args, methods, step):
    bare, during = [block(step, args.steps, args.device)], {name: [] for name in methods}
    costs = {name: [] for name in methods}
    for _ in range(args.rounds):
        for name, method in methods.items():
            method.on()
            during[name].append(block(step, args.steps, args.device))
            method.off()
            bare.append(block(step, args.steps, args.device))
            costs[name].append(during[name][-1] - (bare[-1] + bare[-2]) / 2)
    return bare, during, costs


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--methods", default="counts,plain-hook,tokens")
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--json", help="file for the figures of all blocks")
    args = parser.parse_args()
    if args.device == "cuda" and not torch.cuda.is_available():
        sys.exit("decode.py: no CUDA device; give --device cpu")
    torch.set_num_threads(1)
    model = build(args)
    step = decoding_step(model, args.device)
    folder = tempfile.mkdtemp(prefix="moescope-decode-")
    methods = {name: PlainHook(model, args.device) if name == "plain-hook"
               else Profiler(model, folder, name) for name in args.methods.split(",")}
    for _ in range(20):
        step()
    bare, during, costs = measure(args, methods, step)
    middle = statistics.median(bare)
    exact = {name: m.check(step, args.device) for name, m in methods.items()
             if isinstance(m, Profiler)}
    shutil.rmtree(folder)
    print(f"{args.layers} layers, {args.device}: a bare step takes {middle:.0f} µs "
          f"({'wall' if args.device == 'cuda' else 'CPU'} time)")
    result = {"device": args.device, "layers": args.layers, "bare_us": bare, "during_us": during,
              "torch": torch.__version__, "exact": exact, "methods": {}}
    for name, values in costs.items():
        pct = [100 * v / middle for v in values]
        layer = [v / args.layers for v in values]
        median, low, high, confidence = interval(pct)
        result["methods"][name] = {
            "cost_pct": median, "low_pct": low, "high_pct": high, "confidence": confidence,
            "mean_pct": statistics.mean(pct), "layer_us": statistics.median(layer)}
        print(f"{name:11} {spread(pct)}, a layer {spread(layer, ' µs')}"
              + ("" if name not in exact else ", counts exact" if exact[name] else ", COUNTS DIFFER"))
    if args.json:
        with open(args.json, "w") as out:
            json.dump(result, out, indent=1)
    sys.exit(0 if all(exact.values()) else 1)


if __name__ == "__main__":
    main()
