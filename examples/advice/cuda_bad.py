#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training loops on a GPU with one planted problem each, and with it fixed.

cuda_bad.py loader|tiny|pageable|sync|clocks [--fixed] [--steps N]

loader    each batch is prepared by the thread that launches; fixed: by four threads, ahead
tiny      hundreds of kernels of a few microseconds; fixed: the same ones in a CUDA graph
pageable  each batch is copied from pageable memory; fixed: from pinned memory, on a stream of its
          own, one step ahead
sync      each layer asks the device for a number (.item()); fixed: once, at the end
clocks    for a device whose clocks are locked low ('nvidia-smi -lgc 345,900', as an administrator);
          fixed: the same with 'nvidia-smi -rgc'

Needs PyTorch with CUDA and the Python package of moescope (PYTHONPATH=python in a checkout):

    moescope run -o bad.mscope -- python3 examples/advice/cuda_bad.py loader
    moescope report bad.mscope
    moescope run -o good.mscope -- python3 examples/advice/cuda_bad.py loader --fixed
"""
import argparse
import queue
import sys
import threading

import torch

import moescope

WARM_UP = 5  # before the first step: libraries load, memory is allocated


class Mlp(torch.nn.Module):
    """Matrix products that keep the device busy for a while."""

    def __init__(self, width, layers, device):
        super().__init__()
        self.layers = torch.nn.ModuleList(
            torch.nn.Linear(width, width, bias=False, device=device, dtype=torch.bfloat16)
            for _ in range(layers))

    def forward(self, x):
        for layer in self.layers:
            x = torch.nn.functional.relu(layer(x))
        return x


def prepare(generator, rows, width, rounds):
    """A data loader's work on one core: sorting and mixing random numbers."""
    batch = torch.rand(rows, width, generator=generator)
    for _ in range(rounds):
        batch = batch.sort(dim=1).values.roll(1, 0)
    return batch


def steps(count, step):
    """Runs step(n) count times, each as a step of the run, after a few unmarked ones."""
    for n in range(-WARM_UP, count):
        if n == 0:
            torch.cuda.synchronize()
            moescope.step()
        step(n)
        if n >= 0:
            if n == count - 1:
                torch.cuda.synchronize()  # queued work belongs to the steps
            moescope.step(1)


def loader(fixed, count, device):
    rows, width, rounds = 128, 1024, 1
    model = Mlp(4096, 24, device)
    torch.set_num_threads(1)
    batches = queue.Queue(maxsize=8)
    done = threading.Event()

    def work(seed):
        generator = torch.Generator().manual_seed(seed)
        while not done.is_set():
            batches.put(prepare(generator, rows, width, rounds).pin_memory())

    generator = torch.Generator().manual_seed(0)
    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(4 if fixed else 0)]
    for worker in workers:
        worker.start()

    def step(_):
        with moescope.range("next batch", phase="data"):
            batch = batches.get() if fixed else prepare(generator, rows, width, rounds).pin_memory()
        with moescope.range("forward", phase="forward"), torch.no_grad():
            x = batch.to(device, non_blocking=True).to(torch.bfloat16)
            model(x.repeat(16, 4))

    try:
        steps(count, step)
    finally:
        done.set()
        while any(worker.is_alive() for worker in workers):
            try:
                batches.get(timeout=0.1)  # room for those waiting to put one more
            except queue.Empty:
                pass


def tiny(fixed, count, device):
    x = torch.randn(4096, device=device)

    def body():
        y = x
        for _ in range(400):
            y = y * 1.0001 + 0.0001
        return y

    graph = None
    if fixed:
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            body()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            body()

    def step(_):
        with moescope.range("forward", phase="forward"), torch.no_grad():
            if graph:
                graph.replay()
            else:
                body()

    steps(count, step)


def pageable(fixed, count, device):
    rows, width = 4096, 4096
    model = Mlp(width, 24, device)
    source = torch.randn(rows, width)
    if fixed:
        source = source.pin_memory()
    stream = torch.cuda.Stream()
    ready = []

    def fetch():
        with torch.cuda.stream(stream):
            batch = source.to(device, non_blocking=True)
        event = torch.cuda.Event()
        event.record(stream)
        ready.append((batch, event))

    def step(_):
        if fixed:
            if not ready:
                fetch()
            batch, event = ready.pop()
            torch.cuda.current_stream().wait_event(event)
            batch.record_stream(torch.cuda.current_stream())
            fetch()
        else:
            batch = source.to(device)
        with moescope.range("forward", phase="forward"), torch.no_grad():
            model(batch.to(torch.bfloat16))

    steps(count, step)


def sync(fixed, count, device):
    # Products of about 100 us on an H200: the host can queue a layer's kernels while one runs, so
    # only waiting for the device leaves it idle.
    model = Mlp(4096, 40, device)
    x = torch.randn(2048, 4096, device=device, dtype=torch.bfloat16)
    seen = []

    def step(_):
        y = x
        norms = []
        with moescope.range("forward", phase="forward"), torch.no_grad():
            for layer in model.layers:
                y = layer(y)
                norms.append(y[0, 0] if fixed else y[0, 0].item())
        seen.append(torch.stack(norms).sum() if fixed else sum(norms))

    steps(count, step)
    print(f"last sum of norms {float(seen[-1]):.4g}")


def clocks(_, count, device):
    """Only products: as fast as the clocks allow. Fixed outside the program."""
    model = Mlp(8192, 6, device)
    x = torch.randn(8192, 8192, device=device, dtype=torch.bfloat16)

    def step(_):
        with moescope.range("forward", phase="forward"), torch.no_grad():
            model(x)

    steps(count, step)


PROBLEMS = {"loader": loader, "tiny": tiny, "pageable": pageable, "sync": sync, "clocks": clocks}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problem", choices=PROBLEMS)
    parser.add_argument("--fixed", action="store_true", help="put it right")
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()
    if args.steps < 1:
        parser.error("--steps is at least 1")
    if not torch.cuda.is_available():
        sys.exit("cuda_bad.py: PyTorch finds no GPU; see 'moescope doctor'")
    PROBLEMS[args.problem](args.fixed, args.steps, torch.device("cuda"))


if __name__ == "__main__":
    main()
