# SPDX-License-Identifier: Apache-2.0
"""A program whose kernels write what they read, so that one that ran twice would show in its result: sums in place, products
that are added to the one before, additions at indices, and one kernel that adds to memory of the host. Prints as JSON a checksum
of each, for 'counters_check.py --only replay'."""
import json
import time

import torch
import triton
import triton.language as tl


# By its name a pointwise kernel, so that it is for its memory alone that it is not replayed.
@triton.jit
def triton_poi_host(host, n, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(host + at, tl.load(host + at, at < n) + 1, at < n)


def main():
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(False)
    total = torch.zeros(1 << 22, device="cuda", dtype=torch.int64)
    ones = torch.ones_like(total)
    at = torch.randint(0, 1 << 22, (1 << 20,), device="cuda")
    left, right = (torch.randn(2048, 2048, device="cuda", dtype=torch.bfloat16) / 64 for _ in range(2))
    product = torch.zeros_like(left)
    host = torch.zeros(1 << 16, dtype=torch.int32, pin_memory=True)
    begin = time.monotonic()
    for _ in range(40):
        total.add_(ones)
        total.index_add_(0, at, ones[: 1 << 20])
        product.addmm_(left, right)
        product.clamp_(-1, 1)
        torch.cumsum(total[: 1 << 16], 0, out=total[: 1 << 16])
        total.remainder_(1 << 20)
        triton_poi_host[(64,)](host, 1 << 16, 1024)
    torch.cuda.synchronize()
    print(json.dumps({"total": int(total.sum()), "weighted": int((total * torch.arange(1 << 22, device="cuda")).sum()),
                      "product": product.view(torch.int16).to(torch.int64).sum().item(), "host": int(host.sum()),
                      "seconds": time.monotonic() - begin}))


if __name__ == "__main__":
    main()
