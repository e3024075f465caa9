# SPDX-License-Identifier: Apache-2.0
"""A kernel that follows pointers, so that its warps wait for memory at one line, beside products and sums; prints a
checksum, how long it took and how long each part did, for 'counters_check.py --only pc'."""
import json
import time

import torch
import triton
import triton.language as tl

STEPS = 512


@triton.jit
def chase(following, out, steps, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    for _ in range(steps):
        at = tl.load(following + at)  # the line
    tl.store(out + tl.program_id(0) * block + tl.arange(0, block), at)


def main():
    torch.manual_seed(0)
    n = 1 << 24
    following, out = torch.randperm(n, device="cuda", dtype=torch.int32), torch.empty(132 * 128, device="cuda", dtype=torch.int32)
    left, right = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    parts = {"chase": lambda: chase[(132,)](following, out, STEPS, 128), "product": lambda: left @ right, "sum": left.sum}
    checksum, taken = 0.0, {}
    for run in parts.values():
        run()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for name, run in parts.items():
        began = time.perf_counter()
        while time.perf_counter() - began < 2:
            for _ in range(50):
                result = run()
            torch.cuda.synchronize()
        taken[name] = time.perf_counter() - began
        checksum += float((out if name == "chase" else result).double().sum())
    fixed = time.perf_counter()
    for _ in range(300):
        left @ right  # pylint: disable=pointless-statement
    torch.cuda.synchronize()
    print(json.dumps({"checksum": checksum, "s": time.perf_counter() - begin, "parts": taken,
                      "fixed_s": time.perf_counter() - fixed}))


if __name__ == "__main__":
    main()
