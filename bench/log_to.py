#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What log_to costs a step, with TensorBoard: log_to.py [--pairs N] [--steps N] [--layers N]

PYTHONPATH=python, with PyTorch, transformers and TensorBoard installed. Pairs of equal trainings of a
small Mixtral, with and without log_to, in turns. Prints the CPU time of the thread that logs, which
holds Python's lock for most of it, that of the tool beside it, and how the time of a step differs.
"""
import argparse
import os
import resource
import statistics
import tempfile
import time

import torch
from torch.utils.tensorboard import SummaryWriter
from transformers import MixtralConfig, MixtralForCausalLM

import moescope
from moescope.logs import live


def train(model, steps, folder, number, logged):
    """(seconds of each step, the log)"""
    profiler = moescope.MoEProfiler(model, run=os.path.join(folder, f"{number}-{logged}.mscope"))
    times, log = [], None
    with profiler:
        if logged:
            profiler.log_to(SummaryWriter(os.path.join(folder, f"{number}")))
            log = live._open[-1]
        for _ in range(steps):
            begin = time.perf_counter()
            model(input_ids=torch.zeros(2, 64, dtype=torch.long)).logits.sum().backward()
            times.append(time.perf_counter() - begin)
    return times, log


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--layers", type=int, default=4)
    args = parser.parse_args()
    torch.set_num_threads(1)
    model = MixtralForCausalLM(MixtralConfig(
        vocab_size=256, hidden_size=64, intermediate_size=128, num_hidden_layers=args.layers,
        num_attention_heads=4, num_key_value_heads=2, num_local_experts=8))
    with tempfile.TemporaryDirectory() as folder:
        train(model, 20, folder, "warm", True)
        added, bare_us, thread_us, logged_us, tool_us, figures, steps = [], [], [], [], [], 0, 0
        for number in range(args.pairs):
            means = {}
            for logged in (True, False) if number % 2 else (False, True):
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                times, log = train(model, args.steps, folder, number, logged)
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                means[logged] = 1e6 * statistics.mean(times)
                if logged:
                    thread_us.append(1e6 * log.cpu_s / args.steps)
                    tool_us.append(1e6 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
                                   / args.steps)
                    logged_us.append(1e6 * log.cpu_s / log.steps)
                    figures, steps = figures + log.figures, steps + log.steps
            added.append(means[True] - means[False])
            bare_us.append(means[False])

    def told(values):
        return f"{statistics.median(values):,.0f} µs ({min(values):,.0f} to {max(values):,.0f})"

    print(f"{args.pairs} pairs of {args.steps} steps, step without {told(bare_us)}; "
          f"{100 * steps / args.pairs / args.steps:.0f}% logged, {figures / steps:.0f} figures each")
    print(f"thread that logs: {told(thread_us)} of CPU a step, {told(logged_us)} a logged one; "
          f"the tool: {told(tool_us)} a step")
    print(f"mean step, with less without: {told(added)}")


main()
