#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A program that uses torch.profiler for some of its steps: two_profilers.py STEPS SECONDS

STEPS steps in the NVTX range 'before', STEPS under torch.profiler in 'inside', then steps in
'after' for SECONDS. Prints one JSON object: the kernels that torch.profiler saw, by name, and how
many steps came after.
"""
import collections
import json
import sys
import time

import torch
from torch.profiler import ProfilerActivity, profile


def main():
    steps, seconds = int(sys.argv[1]), float(sys.argv[2])
    torch.manual_seed(0)
    x = torch.randn(512, 512, device="cuda")

    def step():
        return torch.relu(x @ x).square().mean()

    for _ in range(5):
        step()
    torch.cuda.synchronize()
    with torch.cuda.nvtx.range("before"):
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as prof:
        with torch.cuda.nvtx.range("inside"):
            for _ in range(steps):
                step()
            torch.cuda.synchronize()
    seen = collections.Counter(e.name for e in prof.events()
                               if e.device_type == torch.autograd.DeviceType.CUDA)
    after = 0
    begin = time.perf_counter()
    with torch.cuda.nvtx.range("after"):
        while time.perf_counter() - begin < seconds:
            step()
            torch.cuda.synchronize()
            after += 1
    print(json.dumps({"seen": seen, "after": after}), flush=True)


if __name__ == "__main__":
    main()
