#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The parts of a mixture of experts, each a function that can be profiled alone.

moe_profiling_example.py [--rounds N]

Two experts, on two GPUs where there are two: a batch is computed by the first, goes to the other
and is computed there. Every part is a range: Expert_Forward, Linear1_Computation, GeLU_Activation,
Linear2_Computation, GPU_to_GPU_Transfer, Host_to_Device_Transfer, Device_to_Host_Transfer,
Complete_MoE_Workflow. Without a GPU everything runs on the CPU and the transfers are copies there.
Needs torch, and moescope for the ranges on the CPU; on a GPU they are NVTX ranges.

    moescope run -o moe.mscope -- python3 examples/pytorch/moe_profiling_example.py
    moescope kernels moe.mscope --by range
    cd examples/pytorch && moescope run -- python3 -c "
    from moe_profiling_example import profile_gpu_to_gpu_transfer
    profile_gpu_to_gpu_transfer()"
"""
import argparse
import time

import torch
from torch import nn

if torch.cuda.is_available():
    DEVICES = [torch.device("cuda", i) for i in range(min(2, torch.cuda.device_count()))]
    part = torch.cuda.nvtx.range
else:
    DEVICES = [torch.device("cpu")]
    import moescope
    part = moescope.range
HIDDEN, INNER = 512, 2048


def wait():
    for device in DEVICES:
        if device.type == "cuda":
            torch.cuda.synchronize(device)


class Expert(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.linear1 = nn.Linear(HIDDEN, INNER, device=device)
        self.linear2 = nn.Linear(INNER, HIDDEN, device=device)

    def forward(self, x):
        with part("Expert_Forward"):
            with part("Linear1_Computation"):
                x = self.linear1(x)
            with part("GeLU_Activation"):
                x = nn.functional.gelu(x)
            with part("Linear2_Computation"):
                return self.linear2(x)


def timed(name, work, rounds, moved=0):
    """Prints the mean time of `work`, and the rate at which `moved` bytes went."""
    work()
    wait()
    begin = time.perf_counter()
    for _ in range(rounds):
        work()
    wait()
    seconds = (time.perf_counter() - begin) / rounds
    rate = f", {moved / seconds / 1e9:.2f} GB/s" if moved else ""
    print(f"{name:32s} {seconds * 1e6:10.1f} us{rate}", flush=True)
    return seconds


@torch.no_grad()
def profile_expert_computation(rounds=20, batches=(1, 8, 32, 128)):
    """One expert at several batches."""
    torch.manual_seed(0)
    expert = Expert(DEVICES[0])
    for batch in batches:
        x = torch.randn(batch, HIDDEN, device=DEVICES[0])
        timed(f"expert, batch {batch}", lambda: expert(x), rounds)


def profile_gpu_to_gpu_transfer(rounds=20, megabytes=(1, 16)):
    """From the first device to the last; compares every byte afterwards."""
    if len(DEVICES) == 1:
        print(f"one device ({DEVICES[0]}): the copies stay on it")
    for size in megabytes:
        source = torch.randint(0, 256, (size * 1000000,), dtype=torch.uint8, device=DEVICES[0])
        target = torch.empty_like(source, device=DEVICES[-1])

        def move():
            with part("GPU_to_GPU_Transfer"):
                target.copy_(source, non_blocking=True)

        timed(f"device to device, {size} MB", move, rounds, source.numel())
        if not torch.equal(source.cpu(), target.cpu()):
            raise SystemExit(f"device to device: {size} MB did not arrive as they were sent")


def profile_cpu_gpu_transfer(rounds=20, megabytes=16):
    """Host to device and back, from pageable and from pinned memory."""
    pageable = torch.randint(0, 256, (megabytes * 1000000,), dtype=torch.uint8)
    kinds = {"pageable": pageable}
    if DEVICES[0].type == "cuda":
        kinds["pinned"] = pageable.pin_memory()
    there = torch.empty_like(pageable, device=DEVICES[0])
    for kind, host in kinds.items():
        def up():
            with part("Host_to_Device_Transfer"):
                there.copy_(host, non_blocking=True)

        def down():
            with part("Device_to_Host_Transfer"):
                host.copy_(there, non_blocking=True)

        timed(f"host to device, {kind}", up, rounds, host.numel())
        timed(f"device to host, {kind}", down, rounds, host.numel())


@torch.no_grad()
def profile_complete_workflow(rounds=20, batch=32):
    """Host to expert 0, to expert 1, and back to the host."""
    torch.manual_seed(0)
    first, second = Expert(DEVICES[0]), Expert(DEVICES[-1])
    tokens = torch.randn(batch, HIDDEN)

    def workflow():
        with part("Complete_MoE_Workflow"):
            with part("Host_to_Device_Transfer"):
                x = tokens.to(DEVICES[0])
            x = first(x)
            with part("GPU_to_GPU_Transfer"):
                x = x.to(DEVICES[-1])
            x = second(x)
            with part("Device_to_Host_Transfer"):
                return x.cpu()

    timed(f"workflow, batch {batch}", workflow, rounds)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20, help="of each measurement")
    args = parser.parse_args()
    if args.rounds < 1:
        parser.error("--rounds is at least 1")
    on_cpu = DEVICES[0].type == "cpu"
    if on_cpu:  # without a run the ranges go nowhere
        run = moescope.start()
    profile_expert_computation(args.rounds)
    profile_gpu_to_gpu_transfer(args.rounds)
    profile_cpu_gpu_transfer(args.rounds)
    profile_complete_workflow(args.rounds)
    if on_cpu:
        moescope.stop()
        print(f"next: moescope ops {run}")


if __name__ == "__main__":
    main()
