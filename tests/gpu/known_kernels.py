# SPDX-License-Identifier: Apache-2.0
"""Twelve operations whose kernels are known: bandwidth, tensor cores in three formats, a gather, small ones.

make() returns them by name; once() runs each so many times. As a program: once, between cudaProfilerStart and Stop, for
Nsight Compute (ncu --profile-from-start off), each in an NVTX range of its name. ROUNDS: how often."""
import os

import torch


def make():
    torch.manual_seed(0)
    bf16, fp8 = torch.bfloat16, torch.float8_e4m3fn
    numbers = torch.empty(1 << 26, device="cuda").normal_()
    copy = torch.empty_like(numbers)
    h, h2 = (torch.randn(4096, 4096, device="cuda", dtype=bf16) for _ in range(2))
    f, f2 = (torch.randn(2048, 2048, device="cuda") for _ in range(2))
    q, k, v = (torch.randn(4, 16, 2048, 128, device="cuda", dtype=bf16) for _ in range(3))
    rows, table = torch.randint(0, 65536, (65536,), device="cuda"), torch.randn(65536, 1024, device="cuda")
    e, e2, one = h.to(fp8), h2.to(fp8).t().contiguous().t(), torch.tensor(1.0, device="cuda")
    groups, weights = torch.randn(8, 1024, 2048, device="cuda", dtype=bf16), torch.randn(8, 2048, 1024, device="cuda", dtype=bf16)
    return {
        "copy": lambda: copy.copy_(numbers),
        "sum": numbers.sum,
        "add": lambda: torch.add(numbers, 1.0, out=copy),
        "gemm_bf16": lambda: h @ h2,
        "gemm_fp32": lambda: f @ f2,
        "gemm_fp8": lambda: torch._scaled_mm(e, e2, scale_a=one, scale_b=one, out_dtype=bf16),
        "grouped_gemm": lambda: torch.bmm(groups, weights),
        "attention": lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v),
        "gather": lambda: table.index_select(0, rows),
        "softmax": lambda: torch.softmax(f, -1),
        "layernorm": lambda: torch.nn.functional.layer_norm(f, (2048,)),
        "transpose": lambda: f.t().contiguous(),
    }


# Bytes that must come from and go to DRAM, where the operands are larger than the cache.
BYTES = {"sum": (1 << 28, 0), "add": (1 << 28, 1 << 28)}
# What they read fits into the cache.
CACHED = {"softmax", "layernorm", "transpose"}
# Operations of the tensor cores.
TENSOR = {"gemm_bf16": ("sm__ops_path_tensor_src_bf16_dst_fp32.sum", 2 * 4096**3),
          "gemm_fp8": ("sm__ops_path_tensor_src_fp8.sum", 2 * 4096**3),
          "grouped_gemm": ("sm__ops_path_tensor_src_bf16_dst_fp32.sum", 2 * 8 * 1024 * 2048 * 1024)}


def main():
    operations = make()
    for _ in range(2):
        for run in operations.values():
            run()
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStart()
    for _ in range(int(os.environ.get("ROUNDS", "1"))):
        for name, run in operations.items():
            with torch.cuda.nvtx.range(name):
                run()
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStop()


if __name__ == "__main__":
    main()
