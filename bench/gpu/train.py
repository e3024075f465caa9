#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Mixtral-shaped model (795 M parameters, bf16) that trains or decodes; prints step times.

train.py [--mode train|decode] [--batch N] [--context N] [--steps N | --seconds S]
         [--profiler none|torch-cuda|torch-both|torch-full|proton] [--kernels FILE]
  --kernels: with a torch profiler, write its kernel names, counts and time there as JSON.

The last line of the output is one JSON object; each of its steps is
[seconds since the first measured step began, ms of wall time, ms of CPU time of the process].
A step ends with a wait that blocks instead of spinning, so that CPU time is work.
"""
import argparse
import ctypes
import json
import os
import resource
import statistics
import sys
import tempfile
import time

import torch
from transformers import MixtralConfig, MixtralForCausalLM

PROMPT, LONGEST = 32, 512


def build():
    config = MixtralConfig(vocab_size=32000, hidden_size=1024, intermediate_size=3584,
                           num_hidden_layers=8, num_attention_heads=16, num_key_value_heads=8,
                           num_local_experts=8, num_experts_per_tok=2,
                           max_position_embeddings=2048, output_router_logits=False)
    torch.manual_seed(0)
    with torch.device("cuda"):
        model = MixtralForCausalLM(config).to(torch.bfloat16)
    return model, config


def training_step(batch, context):
    """A function that does one step of training."""
    return training(batch, context)[1]


def training(batch, context):
    """The model, and a function that does one step of its training."""
    model, config = build()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    tokens = torch.randint(0, config.vocab_size, (batch, context), device="cuda")

    def step():
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return model, step


def decoding_step(batch):
    """A function that decodes one token of each sequence, with kernels launched one by one. When
    the cache is long it restarts with the prompt, so that steps stay comparable."""
    model, config = build()
    model.eval()
    prompt = torch.randint(0, config.vocab_size, (batch, PROMPT), device="cuda")
    state = {"cache": None, "token": prompt, "length": 0}

    @torch.inference_mode()
    def step():
        if state["length"] >= LONGEST:
            state.update(cache=None, token=prompt, length=0)
        out = model(input_ids=state["token"], past_key_values=state["cache"], use_cache=True)
        state["length"] += state["token"].shape[1]
        state["token"] = out.logits[:, -1:].argmax(-1)
        state["cache"] = out.past_key_values

    return step


class Wait:
    """Blocks until the device is done, without spinning."""

    def __init__(self):
        self.event = torch.cuda.Event(blocking=True)

    def __call__(self):
        self.event.record()
        self.event.synchronize()


def start_profiler(kind):
    """Starts it and returns what stops it: a torch profiler, or None."""
    if kind == "none":
        return None
    if kind == "proton":
        import triton.profiler as proton
        folder = tempfile.mkdtemp()
        proton.start(os.path.join(folder, "proton"))
        return None
    from torch.profiler import ProfilerActivity, profile
    activities = [ProfilerActivity.CUDA]
    if kind != "torch-cuda":
        activities.append(ProfilerActivity.CPU)
    full = kind == "torch-full"
    prof = profile(activities=activities, record_shapes=full, profile_memory=full,
                   with_stack=full, with_flops=full)
    prof.start()
    return prof


def kernels_of(prof):
    found = {}
    for event in prof.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            count, time_us = found.get(event.name, (0, 0))
            found[event.name] = (count + 1, time_us + event.time_range.elapsed_us())
    return found


def step_teller():
    """Reports the end of a step to moescope, which the driver has loaded into the process."""
    library = ctypes.CDLL(os.environ["CUDA_INJECTION64_PATH"])
    library.moescope_step.argtypes = [ctypes.c_uint64]
    return lambda: library.moescope_step(0)


def measure(step, wait, steps, seconds, tell=lambda: None):
    rows = []
    tell()
    begin = time.perf_counter()
    while len(rows) < steps if seconds is None else time.perf_counter() - begin < seconds:
        start, cpu = time.perf_counter(), time.process_time()
        step()
        wait()
        tell()
        end, cpu_end = time.perf_counter(), time.process_time()
        rows.append([round(start - begin, 4), round((end - start) * 1e3, 4),
                     round((cpu_end - cpu) * 1e3, 4)])
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", choices=("train", "decode"), default="train")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--context", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--profiler", default="none", choices=(
        "none", "torch-cuda", "torch-both", "torch-full", "proton"))
    parser.add_argument("--kernels")
    parser.add_argument("--tell-steps", action="store_true", help="under moescope run only")
    args = parser.parse_args()
    step = training_step(args.batch, args.context) if args.mode == "train" \
        else decoding_step(args.batch)
    wait = Wait()
    for _ in range(5 if args.mode == "train" else 30):
        step()
    wait()
    prof = start_profiler(args.profiler)
    rows = measure(step, wait, args.steps, args.seconds,
                   step_teller() if args.tell_steps else lambda: None)
    if prof and args.kernels:
        prof.stop()
        with open(args.kernels, "w") as f:
            json.dump(kernels_of(prof), f)
    use = resource.getrusage(resource.RUSAGE_SELF)
    walls = [row[1] for row in rows] or [0.0]
    print(json.dumps({"median_ms": statistics.median(walls), "mean_ms": statistics.mean(walls),
                      "cpu_s": use.ru_utime + use.ru_stime, "rss_bytes": use.ru_maxrss * 1024,
                      "steps": rows}), flush=True)
    if args.profiler != "none":
        # What these profilers do when they stop (up to half a minute) is not measured here.
        sys.stdout.flush()
        os._exit(0)


if __name__ == "__main__":
    main()
