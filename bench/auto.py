#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What finding the steps of a PyTorch training costs it, on a CPU:

    moescope run --no-auto -o DIR -- python3 bench/auto.py [--pairs N] [--steps N] [--threads N]

One process, in which everything is installed for some steps and taken out again for as many, in turns; wall
time, and processor time of the training's thread, of each half. The median of the ratios, with a 95% interval
by order statistics, is about what every step pays; the ratio of the sums includes the steps whose operations
are recorded."""
import argparse
import math
import os
import statistics
import sys
import time

import torch
from torch import nn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
from moescope.auto.program import Program  # noqa: E402


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.inner = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        y = self.before(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.inner(self.between(x))


def interval(values):
    """The median and the order statistics around it that hold 95%."""
    values, n = sorted(values), len(values)
    below = 0
    while below + 1 <= n // 2 and sum(math.comb(n, i) for i in range(below + 1)) / 2**n <= 0.025:
        below += 1
    return statistics.median(values), values[max(0, below - 1)], values[min(n - 1, n - below)]


def main():
    parser = argparse.ArgumentParser()
    for name, value in (("pairs", 60), ("steps", 5), ("threads", 1), ("layers", 6), ("width", 256)):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(options.threads)
    model = nn.Sequential(nn.Embedding(1000, options.width),
                          *[Block(options.width, 4) for _ in range(options.layers)],
                          nn.Linear(options.width, 1000))
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    tokens = torch.randint(0, 1000, (4, 65))
    batches = iter(torch.utils.data.DataLoader(tokens.repeat(100000, 1), batch_size=4))
    program = Program(lambda words: print(words, file=sys.stderr))

    def train(steps):
        for _ in range(steps):
            batch = next(batches)
            loss = nn.functional.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    def half(on):
        if on:
            program.install()
        train(1)  # Python's caches of methods are empty after a change of a class
        wall, processor = time.perf_counter(), time.thread_time()
        train(options.steps)
        result = time.perf_counter() - wall, time.thread_time() - processor
        if on:
            program._cancel_step()
            program.remove()
        return result

    for on in (False, True):
        half(on)
    rows = {True: [], False: []}
    for pair in range(options.pairs):
        for on in (True, False) if pair % 2 else (False, True):
            rows[on].append(half(on))
    step_ms = statistics.median(wall for wall, _ in rows[False]) / options.steps * 1e3
    print(f"{options.pairs} pairs of {options.steps} steps, {step_ms:.1f} ms each without; "
          f"operations of {program._budget.samples} steps recorded")
    for i, name in enumerate(("wall", "thread")):
        on, off = [row[i] for row in rows[True]], [row[i] for row in rows[False]]
        middle, low, high = interval([a / b - 1 for a, b in zip(on, off)])
        print(f"{name:10} every step {middle:+.2%} ({low:+.2%} to {high:+.2%}), all {sum(on) / sum(off) - 1:+.2%}")


main()
