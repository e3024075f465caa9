#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a model for check.py under 'moescope run' and prints what PyTorch itself measures, as JSON:
the time between CUDA events around each phase, and the allocator's peaks.

training_program.py STEPS
"""
import json
import os
import sys

import torch

import moescope

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench",
                                "gpu"))
import train  # noqa: E402

PHASES = ("forward", "backward", "optimizer")
WARM_UP = 3


def main():
    steps = int(sys.argv[1])
    model, config = train.build()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    tokens = torch.randint(0, config.vocab_size, (16, 1024), device="cuda")

    def step():
        """One step; its events, before and after each phase."""
        events = [torch.cuda.Event(enable_timing=True) for _ in range(4)]
        events[0].record()
        with moescope.range("forward", phase="forward"):
            loss = model(input_ids=tokens, labels=tokens).loss
        events[1].record()
        with moescope.range("backward", phase="backward"):
            loss.backward()
        events[2].record()
        with moescope.range("optimizer", phase="optimizer"):
            optimizer.step()
            optimizer.zero_grad()
        events[3].record()
        return events

    for _ in range(WARM_UP):
        step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    took = []
    with moescope.record_memory(model, optimizer) as memory:
        moescope.step()
        for _ in range(steps):
            took.append(step())
            torch.cuda.synchronize()
            moescope.step(tokens.numel())
            memory.note()
    stats = torch.cuda.memory_stats()
    ms = {phase: sum(events[i].elapsed_time(events[i + 1]) for events in took)
          for i, phase in enumerate(PHASES)}
    parameter_bytes = sum(p.numel() * p.element_size() for p in model.parameters())
    print(json.dumps({"ms": ms, "max_memory_allocated": torch.cuda.max_memory_allocated(),
                      "max_memory_reserved": torch.cuda.max_memory_reserved(),
                      "requested_peak": stats["requested_bytes.all.peak"],
                      "parameter_bytes": parameter_bytes}))


main()
