#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Mixtral-shaped model (795 M parameters, bf16) trained for a while; prints milliseconds a step.

train.py [--batch N] [--steps N] [--profiler none|torch-cuda|torch-both] [--kernels FILE]
  --kernels: with a torch profiler, write its kernel names, counts and time there as JSON.
"""
import argparse
import json
import statistics
import time

import torch
from transformers import MixtralConfig, MixtralForCausalLM


def build():
    config = MixtralConfig(vocab_size=32000, hidden_size=1024, intermediate_size=3584,
                           num_hidden_layers=8, num_attention_heads=16, num_key_value_heads=8,
                           num_local_experts=8, num_experts_per_tok=2,
                           max_position_embeddings=2048, output_router_logits=False)
    torch.manual_seed(0)
    with torch.device("cuda"):
        model = MixtralForCausalLM(config).to(torch.bfloat16)
    return model, config


def profiler(kind):
    from torch.profiler import ProfilerActivity, profile
    activities = [ProfilerActivity.CUDA]
    if kind == "torch-both":
        activities.append(ProfilerActivity.CPU)
    return profile(activities=activities)


def kernels_of(prof):
    found = {}
    for event in prof.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            count, time_us = found.get(event.name, (0, 0))
            found[event.name] = (count + 1, time_us + event.time_range.elapsed_us())
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--context", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--profiler", default="none")
    parser.add_argument("--kernels")
    args = parser.parse_args()
    model, config = build()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    tokens = torch.randint(0, config.vocab_size, (args.batch, args.context), device="cuda")

    def step():
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    for _ in range(5):
        step()
    torch.cuda.synchronize()
    times = []
    prof = profiler(args.profiler) if args.profiler != "none" else None
    if prof:
        prof.__enter__()
    for _ in range(args.steps):
        start = time.perf_counter()
        step()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) * 1e3)
    if prof:
        prof.__exit__(None, None, None)
        if args.kernels:
            with open(args.kernels, "w") as f:
                json.dump(kernels_of(prof), f)
    parameters = sum(p.numel() for p in model.parameters())
    print(json.dumps({"parameters": parameters, "median_ms": statistics.median(times),
                      "mean_ms": statistics.mean(times), "steps": args.steps}), flush=True)


if __name__ == "__main__":
    main()
