#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small PyTorch program with known work: program.py STEPS [PROFILE.json]

Ten warm-up steps, then STEPS steps inside the NVTX range 'measured'. With a file name the measured
steps run under torch.profiler instead of under NVTX, and its device events are written there.
"""
import json
import sys

import torch

COPY_BYTES = 16 << 20


def main():
    steps = int(sys.argv[1])
    torch.manual_seed(0)
    model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(8)]).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    x = torch.randn(4096, 1024, device="cuda")
    pinned = torch.empty(COPY_BYTES, dtype=torch.uint8).pin_memory()
    pageable = torch.empty(COPY_BYTES, dtype=torch.uint8)
    target = torch.empty(COPY_BYTES, dtype=torch.uint8, device="cuda")

    def step():
        torch.cuda.nvtx.range_push("forward")
        loss = model(x).square().mean()
        torch.cuda.nvtx.range_pop()
        torch.cuda.nvtx.range_push("backward")
        loss.backward()
        torch.cuda.nvtx.range_pop()
        optimizer.step()
        optimizer.zero_grad()
        target.copy_(pinned, non_blocking=True)
        target.copy_(pageable)

    for _ in range(10):
        step()
    torch.cuda.synchronize()
    if len(sys.argv) > 2:
        from torch.profiler import ProfilerActivity, profile
        with profile(activities=[ProfilerActivity.CUDA]) as prof:
            for _ in range(steps):
                step()
            torch.cuda.synchronize()
        events = [(e.name, e.time_range.elapsed_us()) for e in prof.events()
                  if e.device_type == torch.autograd.DeviceType.CUDA]
        with open(sys.argv[2], "w") as f:
            json.dump(events, f)
    else:
        torch.cuda.nvtx.range_push("measured")
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
        torch.cuda.nvtx.range_pop()
    print("done", float(model[0].weight.sum()))


if __name__ == "__main__":
    main()
