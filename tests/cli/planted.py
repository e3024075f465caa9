# SPDX-License-Identifier: Apache-2.0
"""Traces with one planted cause, as PyTorch's profiler would have recorded them.

A Trace is a small simulation: one host thread that makes calls, and a device that works off a queue
in order. Times are in microseconds, and vary by a few percent with a seed. What the cause costs
follows from the simulation, not from what the tool makes of it.
"""

import json
import os
import pickle
import random

LATENCY = 4  # from the begin of a call to the begin of its work on an idle device
CALL = 5
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
MB = 1 << 20
PAGEABLE, PINNED = "Pageable", "Pinned"


class Trace:
    """`host` and `device` are the clocks: when the host goes on, and when the queue is done."""

    def __init__(self, seed=1, noise=0.03, rank=None):
        self.random = random.Random(seed)
        self.noise = noise
        self.rank = rank
        self.events = []
        self.host = self.device = 1000.0
        self.ids = 0
        self.steps = 0
        self.memory = 0

    def vary(self, us):
        return us * max(0.2, self.random.gauss(1, self.noise)) if us else 0

    def add(self, category, name, start, end, **arguments):
        self.events.append({"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1,
                            "ts": round(start, 3), "dur": round(end - start, 3),
                            "args": arguments})

    def call(self, name, us=CALL, **arguments):
        begin = self.host
        self.host += us
        self.add("cuda_runtime", name, begin, self.host, **arguments)
        return begin

    def think(self, us):
        """The host's own code."""
        self.host += self.vary(us)

    def range(self, name, us, category="user_annotation"):
        begin = self.host
        self.think(us)
        self.add(category, name, begin, self.host)

    def work(self, category, name, us, begin, **arguments):
        start = max(begin + LATENCY, self.device)
        self.device = start + self.vary(us)
        self.add(category, name, start, self.device, device=0, stream=7, **arguments)

    def kernel(self, us, name="gemm_kernel", call=CALL, call_name="cudaLaunchKernel", **arguments):
        self.ids += 1
        begin = self.call(call_name, call, correlation=self.ids)
        self.work("kernel", name, us, begin, correlation=self.ids, **arguments)

    def kernels(self, n, us, think=0.0, **arguments):
        for _ in range(n):
            self.think(think)
            self.kernel(us, **arguments)

    def graph(self, nodes, us, gap=0.0, call=20):
        """One launch of a graph; `gap` between its nodes."""
        self.ids += 1
        begin = self.call("cudaGraphLaunch", call, correlation=self.ids)
        for _ in range(nodes):
            self.work("kernel", "fused_kernel", us, begin, correlation=self.ids)
            self.device += gap

    def capture(self, launches):
        """Launches that run nothing: they are recorded into a graph."""
        self.call("cudaStreamBeginCapture")
        for _ in range(launches):
            self.ids += 1
            self.call("cudaLaunchKernel", correlation=self.ids)
        self.call("cudaStreamEndCapture")
        self.call("cudaGraphInstantiate", 2000)

    def synchronize(self, name="cudaStreamSynchronize"):
        begin = self.host
        self.host = max(self.host + 2, self.device + 2)
        self.add("cuda_runtime", name, begin, self.host)

    def copy(self, size, us, memory=PAGEABLE, direction="HtoD", blocking=False):
        self.ids += 1
        begin = self.host
        ways = {"HtoD": f"{memory} -> Device", "DtoH": f"Device -> {memory}"}
        self.work("gpu_memcpy", f"Memcpy {direction} ({ways[direction]})", us, begin, bytes=size,
                  correlation=self.ids)
        self.host = self.device + 8 if blocking else begin + CALL
        self.add("cuda_runtime", "cudaMemcpy" if blocking else "cudaMemcpyAsync", begin, self.host,
                 correlation=self.ids)

    def load_code(self, us):
        self.think(us)
        self.call("cuModuleLoadData", 500)

    def collective(self, start, end, sequence):
        self.ids += 1
        begin = self.call("cudaLaunchKernel", correlation=self.ids)
        assert start >= begin
        self.add("kernel", NCCL, start, end, device=0, stream=20, correlation=self.ids,
                 **{"Collective name": "allreduce", "In msg nelems": 1000000,
                    "Out msg nelems": 1000000, "Group size": 2, "dtype": "BFloat16",
                    "Process Group Name": "dp", "Seq": sequence})

    def allocate(self, address, size):
        self.memory += size
        self.events.append({"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]",
                            "pid": 1, "tid": 1, "ts": round(self.host, 3),
                            "args": {"Device Type": 1, "Device Id": 0, "Addr": address,
                                     "Bytes": size, "Total Allocated": self.memory,
                                     "Total Reserved": 64 << 30}})

    def step(self, body):
        begin = self.host
        body(self)
        # The host may run ahead by a step, as the queue of the driver lets it.
        self.host = max(self.host, self.device - 2000)
        self.add("user_annotation", f"ProfilerStep#{self.steps}", begin, self.host)
        self.steps += 1

    def write(self, path):
        document = {"schemaVersion": 1, "baseTimeNanoseconds": 0, "traceEvents": self.events}
        if self.rank is not None:
            document["distributedInfo"] = {"backend": "nccl", "rank": self.rank, "world_size": 2}
        with open(path, "w", encoding="utf-8") as file:
            json.dump(document, file)


def steps(body, n=12, seed=1, noise=0.03, before=None, after=None):
    """A file of n steps; `before` and `after` are outside them."""
    def plant(path):
        trace = Trace(seed, noise)
        if before:
            before(trace)
        for _ in range(n):
            trace.step(body)
        trace.synchronize("cudaDeviceSynchronize")
        if after:
            after(trace)
        trace.write(path)
    return plant


def plain(body, seed=1, noise=0.03):
    """A file without steps."""
    def plant(path):
        trace = Trace(seed, noise)
        body(trace)
        trace.write(path)
    return plant


def loader(us, category="user_annotation", work=20, kernel=500.0):
    """The batch is loaded between the kernels of two steps, and nothing is queued meanwhile."""
    def body(trace):
        trace.range("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", us, category)
        trace.kernels(work, kernel)
        trace.synchronize()
    return body


def host_code(us, work=20, kernel=500.0, pieces=1):
    def body(trace):
        for _ in range(pieces):
            # Long enough that the queue has run dry before the next launch.
            trace.host = max(trace.host, trace.device + 1)
            trace.think(us / pieces)
            trace.kernels(work // pieces, kernel)
    return body


def reads(n, think, kernel):
    """n times: a kernel, its result read, host code that needs it."""
    def body(trace):
        for _ in range(n):
            trace.kernels(4, kernel / 4)
            trace.synchronize()
            trace.think(think)
    return body


def small_copies(n, think, kernel, size=380):
    def body(trace):
        for _ in range(n):
            trace.kernels(4, kernel / 4)
            trace.copy(size, 1.5, direction="DtoH", blocking=True)
            trace.think(think)
    return body


def batches(copy, kernel, memory, blocking=False, pieces=1):
    def body(trace):
        for _ in range(pieces):
            trace.copy(50 * MB // pieces, copy / pieces, memory, blocking=blocking)
        trace.kernels(10, kernel / 10)
    return body


def tiny(n, kernel, think, call=CALL):
    def body(trace):
        trace.kernels(n, kernel, think, call=call)
        trace.synchronize()
    return body


def busy(n=20, kernel=500.0, think=0.0):
    def body(trace):
        trace.kernels(n, kernel, think)
    return body


def graphs(n, nodes, us, think=0.0, gap=0.0):
    def body(trace):
        for _ in range(n):
            trace.think(think)
            trace.graph(nodes, us, gap)
    return body


def compiled(first, usual, n_first=2):
    """Steps of which the first ones compile."""
    def body(trace):
        if trace.steps < n_first:
            trace.host = max(trace.host, trace.device)
            trace.load_code(first)
        usual(trace)
    return body


def ranks(compute, wait, transfer, hidden=0.0, n=12):
    """Two ranks. The second computes `wait` longer; the all-reduce ends for both at once."""
    def plant(path):
        os.mkdir(path)
        traces = [Trace(7, 0.02, 0), Trace(7, 0.02, 1)]
        for step in range(n):
            ready = []
            for rank, trace in enumerate(traces):
                begin = trace.host
                trace.kernels(10, (compute + wait * rank) / 10)
                ready.append((begin, trace.device))
            end = max(at for _, at in ready) + transfer - hidden
            for trace, (begin, at) in zip(traces, ready):
                trace.collective(at - hidden, end, step)
                trace.host = trace.device = end
                trace.add("user_annotation", f"ProfilerStep#{step}", begin, end)
        for rank, trace in enumerate(traces):
            trace.write(os.path.join(path, f"rank{rank}.json"))
    return plant


def without_calls(kernel, gap, n=400):
    """Kernels alone: nobody recorded who launched them."""
    def plant(path):
        trace = Trace(3)
        for _ in range(n):
            trace.work("kernel", "gemm_kernel", kernel, trace.device)
            trace.device += trace.vary(gap)
        trace.write(path)
    return plant


def startup(seconds, body, load=0.0, end=0.0):
    """Weights are loaded, code is compiled, a few kernels try it; then the work, then the end."""
    def plan(trace):
        if load:
            trace.copy(500 * MB, load, PAGEABLE)
        for _ in range(3):
            trace.think(seconds * 1e6 / 3)
            trace.kernels(2, 50)
        body(trace)
        if end:
            trace.synchronize("cudaDeviceSynchronize")
            trace.think(end * 1e6)
            trace.kernels(1, 20)
    return plan


def compiles(stages, seconds, body):
    """A function is compiled, runs for a while, then the next one."""
    def plan(trace):
        for _ in range(stages):
            trace.synchronize()
            trace.load_code(seconds * 1e6)
            body(trace)
    return plan


def leak(bytes_a_step, n=20):
    def plant(path):
        trace = Trace(5)
        address = [0x7F0000000000]

        def body(trace):
            trace.kernels(5, 300)
            trace.allocate(address[0], bytes_a_step)
            address[0] += 2 * bytes_a_step
            trace.kernels(5, 300)
        for _ in range(n):
            trace.step(body)
        trace.write(path)
    return plant


def pool(segments, segment, block, every):
    """A snapshot: of each segment every `every`-th block is live, the others are free."""
    def plant(path):
        document = {"segments": [], "device_traces": [[]]}
        trace, time_us = document["device_traces"][0], 1_700_000_000_000_000
        address = 0x7F0000000000
        for _ in range(segments):
            blocks = []
            trace.append({"action": "segment_alloc", "addr": address, "size": segment,
                          "stream": 0, "time_us": time_us, "frames": []})
            for i in range(segment // block):
                live = i % every == 0
                at, time_us = address + i * block, time_us + 10
                blocks.append({"address": at, "size": block, "requested_size": block,
                               "state": "active_allocated" if live else "inactive",
                               "frames": []})
                if live:
                    trace.append({"action": "alloc", "addr": at, "size": block, "stream": 0,
                                  "time_us": time_us, "frames": []})
            live = sum(b["size"] for b in blocks if b["state"] != "inactive")
            document["segments"].append({
                "device": 0, "address": address, "total_size": segment, "allocated_size": live,
                "active_size": live, "requested_size": live, "stream": 0,
                "segment_type": "large", "blocks": blocks, "is_expandable": False, "frames": []})
            address += 2 * segment
        with open(path, "wb") as file:
            pickle.dump(document, file)
    return plant


def mixed(trace):
    trace.range("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 4000)
    for _ in range(4):
        trace.kernels(5, 400)
        trace.synchronize()
        trace.think(300)


def varied(trace):
    """Batches of different size: what takes longer is the kernels."""
    trace.kernels(20, 300 * trace.random.choice([1, 1, 2, 3]))


def optimizer(share):
    def body(trace):
        begin = trace.host
        trace.kernels(10, 800 * (1 - share))
        trace.add("user_annotation", "forward", begin, trace.host)
        begin = trace.host
        trace.kernels(10, 800 * share)
        trace.add("user_annotation", "Optimizer.step#AdamW.step", begin, trace.host)
    return body


def queued(trace):
    """All launched at once; the device begins each long after the one before it."""
    for _ in range(40):
        trace.kernel(100)
        trace.device += trace.vary(250)


def captured(trace):
    trace.capture(400)
    for _ in range(300):
        trace.graph(50, 40)


# (name, what writes it, the verdict that must come first)
PLANTED = [
    ("loader 15%", steps(loader(1800)), "gpu-starved-data"),
    ("loader 35%", steps(loader(5400), seed=2), "gpu-starved-data"),
    ("loader 65%", steps(loader(19000), seed=3), "gpu-starved-data"),
    ("loader as an operation", steps(loader(5000, "Operator"), seed=4), "gpu-starved-data"),
    ("loader just over 5%", steps(loader(650, kernel=500), noise=0.01), "gpu-starved-data"),
    ("loader under 4%", steps(loader(300, kernel=500), noise=0.01), "gpu-busy"),
    ("loader and reads", steps(mixed, seed=6), "gpu-starved-data"),
    ("host code 9%", steps(host_code(1000)), "gpu-starved-host"),
    ("host code 30%", steps(host_code(4500), seed=2), "gpu-starved-host"),
    ("host code 80%", steps(host_code(40000), seed=3), "gpu-starved-host"),
    ("host code in pieces", steps(host_code(6000, pieces=10), seed=4), "gpu-starved-host"),
    ("host code without steps", plain(lambda t: [host_code(4000)(t) for _ in range(20)]),
     "gpu-starved-host"),
    ("reads 10%", steps(reads(10, 120, 1000)), "gpu-starved-sync"),
    ("reads 40%", steps(reads(10, 600, 800), seed=2), "gpu-starved-sync"),
    ("reads 70%", steps(reads(40, 200, 80), seed=3), "gpu-starved-sync"),
    ("copies of 380 bytes 10%", steps(small_copies(10, 110, 1000)), "gpu-starved-sync"),
    ("copies of 380 bytes 50%", steps(small_copies(30, 90, 100), seed=2), "gpu-starved-sync"),
    ("copies of 8 bytes, no host code", steps(small_copies(100, 5, 12, 8), seed=3, n=8),
     "gpu-starved-sync"),
    ("pageable copies 40%", steps(batches(4000, 6000, PAGEABLE)), "transfer-bound"),
    ("pageable copies 15%", steps(batches(1800, 10000, PAGEABLE), seed=2), "transfer-bound"),
    ("pinned copies 30%", steps(batches(3000, 7000, PINNED), seed=3), "transfer-bound"),
    ("pinned copies, many pieces", steps(batches(3000, 7000, PINNED, pieces=64), seed=4),
     "transfer-bound"),
    ("blocking copies of a batch", steps(batches(5000, 8000, PAGEABLE, True), seed=5),
     "transfer-bound"),
    ("tiny kernels", steps(tiny(500, 3, 4)), "gpu-starved-launch"),
    ("tiny kernels, slow host", steps(tiny(400, 4, 25), seed=2), "gpu-starved-launch"),
    ("kernels of 52 us, 7 us calls", steps(tiny(200, 52, 62, call=7), seed=3),
     "gpu-starved-launch"),
    ("kernels of 10 us just behind", steps(tiny(500, 10, 7), seed=4), "gpu-starved-launch"),
    ("busy", steps(busy()), "gpu-busy"),
    ("busy, short kernels queued", steps(busy(400, 20, 2), seed=2), "gpu-busy"),
    ("busy without steps", plain(lambda t: [busy()(t) for _ in range(20)], seed=3), "gpu-busy"),
    ("all-reduce 30%", ranks(6000, 0, 3000), "comm-exposed"),
    ("all-reduce 9%", ranks(9000, 0, 900), "comm-exposed"),
    ("all-reduce hidden", ranks(9000, 0, 3000, hidden=2900), "gpu-busy"),
    ("late rank 30%", ranks(6000, 4000, 200), "rank-late"),
    ("late rank 12%", ranks(8000, 2400, 150), "rank-late"),
    ("late rank, slow link", ranks(6000, 800, 4000), "comm-exposed"),
    ("start-up, then busy", plain(startup(5, lambda t: t.kernels(1000, 1000), load=30000)),
     "slow-start"),
    ("start-up and end, then busy", plain(startup(2, lambda t: t.kernels(300, 2000), end=3)),
     "slow-start"),
    ("three functions compiled", plain(compiles(3, 1, lambda t: t.kernels(200, 500))),
     "slow-start"),
    ("five functions compiled", plain(compiles(5, 0.4, lambda t: t.kernels(100, 1000)), seed=2),
     "slow-start"),
    ("start-up, then reads", plain(startup(3, lambda t: [reads(10, 600, 800)(t)
                                                         for _ in range(20)])),
     "gpu-starved-sync"),
    ("start-up, then host code", plain(startup(3, lambda t: [host_code(5000)(t)
                                                             for _ in range(20)])),
     "gpu-starved-host"),
    ("first steps compile", steps(compiled(3e6, busy()), n=20), "slow-start"),
    ("first steps compile, then a loader", steps(compiled(3e6, loader(5000)), n=20),
     "gpu-starved-data"),
    ("loading before the steps", steps(busy(), before=lambda t: (t.kernels(1, 20), t.think(4e6))),
     "gpu-busy"),
    ("ending after the steps", steps(busy(), after=lambda t: (t.think(4e6), t.kernels(1, 20))),
     "gpu-busy"),
    ("graphs, busy", steps(graphs(10, 200, 10)), "gpu-busy"),
    ("graphs, host between them", steps(graphs(200, 5, 4, think=25), seed=2),
     "gpu-starved-launch"),
    ("graphs captured, then busy", plain(captured), "gpu-busy"),
    ("graphs with gaps in them", steps(graphs(10, 200, 3, gap=3), seed=3), "gpu-idle"),
    ("queued, not begun", steps(queued), "gpu-idle"),
    ("nobody knows", without_calls(100, 150), "gpu-idle"),
    ("nobody knows, busy", without_calls(100, 5), "gpu-busy"),
    ("leak of 1 MB", leak(MB), "memory-leak"),
    ("leak of 64 MB", leak(64 * MB), "memory-leak"),
    ("pool of 6.2 GB in pieces", pool(31, 200 * MB, 20 * MB, 2), "fragmentation"),
    ("pool of 1 GB in pieces", pool(8, 128 * MB, 2 * MB, 4), "fragmentation"),
    ("pool with one hole", pool(1, 1024 * MB, 512 * MB, 2), None),
    ("steps of different size", steps(varied, n=40, noise=0.01), "step-variation"),
    ("optimizer 40%", steps(optimizer(0.4)), "optimizer-share"),
]
