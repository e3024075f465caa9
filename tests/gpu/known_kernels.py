# SPDX-License-Identifier: Apache-2.0
"""Twelve operations whose kernels are known: bandwidth, tensor cores in three formats, a gather, small ones.

make() returns them by name. As a program: each between cudaProfilerStart and Stop (ncu --profile-from-start off), in an NVTX
range of its name, ROUNDS times. Before each, outside of these, another kernel fills the cache with what need not be written
back, so that every profiler sees the same traffic; with WARM=1 the same operation, as for each pass of one that runs again."""
import os

import torch
import triton
import triton.language as tl

LARGE = 1 << 28  # floats: a gigabyte, so that what stays in the cache is little beside it


@triton.jit
def copy_kernel(source, target, block: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    tl.store(target + at, tl.load(source + at))


def make():
    torch.manual_seed(0)
    bf16, fp8 = torch.bfloat16, torch.float8_e4m3fn
    numbers = torch.empty(LARGE, device="cuda").normal_()
    copy = torch.empty_like(numbers)
    h, h2 = (torch.randn(4096, 4096, device="cuda", dtype=bf16) for _ in range(2))
    f, f2 = (torch.randn(2048, 2048, device="cuda") for _ in range(2))
    q, k, v = (torch.randn(4, 16, 2048, 128, device="cuda", dtype=bf16) for _ in range(3))
    rows, table = torch.randint(0, 65536, (65536,), device="cuda"), torch.randn(65536, 1024, device="cuda")
    e, e2, one = h.to(fp8), h2.to(fp8).t().contiguous().t(), torch.tensor(1.0, device="cuda")
    tokens, weights = torch.randn(8 * 1024, 2048, device="cuda", dtype=bf16), torch.randn(8, 2048, 1024, device="cuda", dtype=bf16)
    ends = torch.arange(1, 9, device="cuda", dtype=torch.int32) * 1024
    return {
        "copy": lambda: copy_kernel[(LARGE // 4096,)](numbers, copy, 4096),  # copy_ would be the driver's
        "sum": numbers.sum,
        "add": lambda: torch.add(numbers, 1.0, out=copy),
        "gemm_bf16": lambda: h @ h2,
        "gemm_fp32": lambda: f @ f2,
        "gemm_fp8": lambda: torch._scaled_mm(e, e2, scale_a=one, scale_b=one, out_dtype=bf16),
        "grouped_gemm": lambda: torch._grouped_mm(tokens, weights, offs=ends),
        "attention": lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v),
        "gather": lambda: table.index_select(0, rows),
        "softmax": lambda: torch.softmax(f, -1),
        "layernorm": lambda: torch.nn.functional.layer_norm(f, (2048,)),
        "transpose": lambda: f.t().contiguous(),
    }


# Bytes that must come from DRAM and go there.
BYTES = {"copy": 2 * 4 * LARGE, "sum": 4 * LARGE, "add": 2 * 4 * LARGE}
# Operations of the tensor cores.
TENSOR = {"gemm_bf16": ("sm__ops_path_tensor_src_bf16_dst_fp32.sum", 2 * 4096**3),
          "gemm_fp8": ("sm__ops_path_tensor_src_fp8.sum", 2 * 4096**3),
          "grouped_gemm": ("sm__ops_path_tensor_src_bf16_dst_fp32.sum", 2 * 8 * 1024 * 2048 * 1024)}


def main():
    operations, cold, warm = make(), torch.zeros(LARGE, device="cuda"), os.environ.get("WARM")
    for _ in range(2):
        for run in operations.values():
            run()
    torch.cuda.synchronize()
    profiler = torch.cuda.cudart()
    for _ in range(int(os.environ.get("ROUNDS", "1"))):
        for name, run in operations.items():
            (run if warm else cold.sum)()
            profiler.cudaProfilerStart()
            with torch.cuda.nvtx.range(name):
                run()
            profiler.cudaProfilerStop()
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
