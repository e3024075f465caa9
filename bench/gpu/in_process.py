#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Profiling switched on and off inside one process: in_process.py WHAT METHODS FOLDER [options]

  pairs METHOD,METHOD… LIBRARIES FOLDER   training in blocks of steps, profiled and not in turn,
                                      method by method; methods: moescope, count (the bare CUPTI
                                      client), count-copies (also of copies and sets), proton,
                                      torch-cuda, torch-both, torch-full
  stop moescope LIBMOESCOPE FOLDER    training and graph replays before, during, after recording

Blocks in turn see the same clocks and neighbours, so that small costs show. The first step of a
block, where attaching and detaching fall, is left out. The last line is one JSON object.
"""
import argparse
import ctypes
import json
import os
import statistics
import time

import torch

from train import Wait, training_step


class Moescope:
    def __init__(self, library, folder):
        self.library = ctypes.CDLL(library)
        self.library.moescope_start.argtypes = [ctypes.c_char_p]
        self.library.moescope_stop.restype = None
        self.folder, self.runs = folder, []

    def on(self):
        name = f"in-process-{os.getpid()}-{len(self.runs)}.mscope"
        self.runs.append(os.path.join(self.folder, name))
        status = self.library.moescope_start(self.runs[-1].encode())
        if status != 0:
            raise SystemExit(f"moescope_start: {os.strerror(-status)}")

    def off(self):
        self.library.moescope_stop()


class Count:
    def __init__(self, library, copies):
        self.library = ctypes.CDLL(library)
        ctypes.c_int.in_dll(self.library, "count_copies").value = copies
        self.library.count_kernels_so_far.restype = ctypes.c_ulonglong
        self.runs = []

    def on(self):
        status = self.library.count_kernels_on()
        if status != 0:
            raise SystemExit(f"count_kernels_on: CUPTI status {status} (-1: no libcupti)")

    def off(self):
        status = self.library.count_kernels_off()
        if status != 0:
            raise SystemExit(f"count_kernels_off: CUPTI status {status}")

    def counted(self):
        return self.library.count_kernels_so_far()


class Torch:
    """torch.profiler; its processing of the records at stop is not timed."""
    runs = []

    def __init__(self, kind):
        from torch.profiler import ProfilerActivity
        self.options = {"activities": [ProfilerActivity.CUDA]}
        if kind != "torch-cuda":
            self.options["activities"].append(ProfilerActivity.CPU)
        if kind == "torch-full":
            self.options.update(record_shapes=True, profile_memory=True, with_stack=True,
                                with_flops=True)

    def on(self):
        self.profiler = torch.profiler.profile(**self.options)
        self.profiler.__enter__()

    def off(self):
        self.profiler.__exit__(None, None, None)
        self.profiler = None


class Proton:
    runs = []

    def __init__(self, folder):
        import triton.profiler
        self.proton, self.folder = triton.profiler, folder

    def on(self):
        self.proton.start(os.path.join(self.folder, f"proton-{os.getpid()}"))

    def off(self):
        self.proton.finalize()


def profiler_of(method, args):
    if method == "moescope":
        return Moescope(args.moescope, args.folder)
    if method in ("count", "count-copies"):
        return Count(args.count, method == "count-copies")
    return Proton(args.folder) if method == "proton" else Torch(method)


def timed(work, wait, n):
    times = []
    for _ in range(n):
        start = time.perf_counter()
        work()
        wait()
        times.append((time.perf_counter() - start) * 1e3)
    return times


def pairs_of(profiler, args, step, wait):
    """Cost of each profiled block in percent of the blocks before and after it."""
    before = statistics.mean(timed(step, wait, args.steps + 1)[1:])
    costs, plain = [], [before]
    for _ in range(args.pairs):
        profiler.on()
        during = statistics.mean(timed(step, wait, args.steps + 1)[1:])
        profiler.off()
        after = statistics.mean(timed(step, wait, args.steps + 1)[1:])
        costs.append(100 * (2 * during / (before + after) - 1))
        plain.append(after)
        before = after
    result = {"costs_pct": costs, "plain_ms": plain, "runs": profiler.runs}
    if isinstance(profiler, Count):
        result["kernels"] = profiler.counted()
    return result


def pairs(args, wait):
    """torch.profiler comes last: it stays attached after it has stopped."""
    step = training_step(args.batch, 1024)
    timed(step, wait, 10)
    results = {}
    for method in args.methods.split(","):
        try:
            results[method] = pairs_of(profiler_of(method, args), args, step, wait)
        except Exception as why:  # one that fails here is no reason to lose the others
            results[method] = {"error": f"{type(why).__name__}: {why}"}
        print(json.dumps({method: results[method]}), flush=True)
    return results


def replays():
    """A CUDA graph of 900 tiny kernels: the most sensitive to an attached profiler."""
    x = torch.zeros(32, device="cuda")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        x.add_(1)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(900):
            x.add_(1)
    return graph.replay


def stop(profiler, args, wait):
    step, replay = training_step(args.batch, 1024), replays()

    def both():
        return {"step_ms": timed(step, wait, args.steps + 1)[1:],
                "replay_ms": timed(replay, torch.cuda.synchronize, 301)[1:]}

    timed(step, wait, 10)
    timed(replay, torch.cuda.synchronize, 50)
    before = both()
    profiler.on()
    during = both()
    profiler.off()
    return {"before": before, "during": during, "after": both(), "runs": profiler.runs}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("pairs", "stop"))
    parser.add_argument("methods")
    parser.add_argument("folder")
    parser.add_argument("--moescope", help="libmoescope.so")
    parser.add_argument("--count", help="libcount_kernels.so")
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--batch", type=int, default=32)
    args = parser.parse_args()
    torch.zeros(1, device="cuda")
    if args.what == "pairs":
        result = pairs(args, Wait())
    else:
        result = stop(profiler_of(args.methods, args), args, Wait())
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
