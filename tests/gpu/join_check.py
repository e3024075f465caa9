#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A busy PyTorch training that is joined and left again and again: join_check.py [BUILD] [--device cuda|cpu]

The training has a DataLoader with workers, a thread that computes beside it and, on a GPU, its forward and
backward pass in a CUDA graph. It is joined --cycles times (200) for --seconds each, then it stops. It must have lived,
its losses must be those of an undisturbed training beside it bit for bit, every run must have whole steps and, on a
GPU, kernels; on a CPU its threads and descriptors must be those from before. Times are too noisy to tell a thousandth, so the
instructions of --counted steps (8) are counted one by one, by library, before the first cycle and after the last: some
seconds a step. Those of the interpreter and the C library differ by what the heap looks like; in their place the
Python functions that a step calls must be the same. Printed with that are how long it took to get in, and which
threads it has more and what they take.

Ends with 'N passed, N failed'.
"""
import argparse
import collections
import contextlib
import gc
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
QUIET_STEPS = 500  # before the first and after the last cycle
PATIENCE_S = 600
AT_REST_S = 3
# Says to who traces it that a step begins or ends. Nobody else notices.
MARK = signal.SIGURG
BY_THE_HEAP = re.compile(r"libpython|python3|libc\.so|libc-|ld-linux|\[")


# ---- the program that is joined

def train(device, folder):
    """Until there is a file `stop`, and then QUIET_STEPS more."""
    import threading

    import torch
    from torch.utils.data import DataLoader, Dataset

    class Numbers(Dataset):
        def __len__(self):
            return 10**9

        def __getitem__(self, i):
            g = torch.Generator().manual_seed(i)
            return torch.randn(64, generator=g), torch.randint(0, 10, (), generator=g)

    gc.disable()  # it would come in some of the counted steps
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, capturable=device == "cuda")
    ended, may_run = threading.Event(), threading.Event()
    may_run.set()

    def beside():
        a = torch.randn(64, 64)
        while not ended.wait(0.01):
            may_run.wait()  # else it takes the GIL some hundred times in a counted step
            a = torch.tanh(a @ a)

    threading.Thread(target=beside).start()
    static_x = torch.zeros(32, 64, device=device)
    static_y = torch.zeros(32, dtype=torch.long, device=device)

    def forward_backward():
        loss = torch.nn.functional.cross_entropy(model(static_x), static_y)
        loss.backward()
        return loss

    graph, static_loss = None, None
    if device == "cuda":
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                optimizer.zero_grad(set_to_none=False)
                forward_backward()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        optimizer.zero_grad(set_to_none=False)
        with torch.cuda.graph(graph):
            static_loss = forward_backward()

    def step(x, y):
        static_x.copy_(x)
        static_y.copy_(y)
        optimizer.zero_grad(set_to_none=False)
        if graph is not None:
            graph.replay()
            loss = static_loss
        else:
            loss = forward_backward()
        optimizer.step()
        return loss.item().hex()

    def called(x, y):
        """Also the names of all functions that it calls."""
        names = []
        sys.setprofile(lambda frame, event, arg: names.append(
            arg.__qualname__ if event == "c_call" else f"{frame.f_code.co_filename}:{frame.f_code.co_name}")
            if event in ("call", "c_call") else None)
        loss = step(x, y)
        sys.setprofile(None)
        calls.append(names)
        return loss

    losses, calls, last = [], [], None
    for x, y in DataLoader(Numbers(), batch_size=32, num_workers=2):
        counted = os.path.exists(os.path.join(folder, "count"))
        if counted:
            may_run.clear()
            os.kill(os.getpid(), MARK)
        losses.append(called(x, y) if len(losses) + 1 in (QUIET_STEPS, last) else step(x, y))
        if counted:
            os.kill(os.getpid(), MARK)
            may_run.set()
        if len(losses) == QUIET_STEPS:
            open(os.path.join(folder, "ready"), "w").close()
        if last is None and os.path.exists(os.path.join(folder, "stop")):
            last = len(losses) + QUIET_STEPS
        if len(losses) == last:
            break
    ended.set()
    with open(os.path.join(folder, "told.json"), "w", encoding="utf-8") as file:
        json.dump({"losses": losses, "calls": calls}, file)


# ---- the check

class Program:
    def __init__(self, args, folder):
        self.folder = folder
        os.mkdir(folder)
        self.process = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--program", folder, "--device", args.device],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def is_ready(self):
        return os.path.exists(os.path.join(self.folder, "ready")) or self.process.poll() is not None

    def stop(self):
        with open(os.path.join(self.folder, "stop"), "w", encoding="utf-8"):
            pass

    def told(self):
        out, err = self.process.communicate(timeout=PATIENCE_S)
        if (self.process.returncode, out, err) != (0, "", ""):
            raise AssertionError(f"the program ended with {self.process.returncode}, and said {out!r} {err!r}")
        with open(os.path.join(self.folder, "told.json"), encoding="utf-8") as file:
            return json.load(file)


def count_instructions(args, program, n):
    """Of n steps, by library. The same processor for both makes it faster."""
    flag, process = os.path.join(program.folder, "count"), program.process.pid
    its, one = os.sched_getaffinity(process), {min(os.sched_getaffinity(0))}
    with subprocess.Popen([os.path.join(args.build, "tests", "count-steps"), str(process), str(int(MARK)), str(n)], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as tracer:
        if tracer.stdout.readline() != "ready\n":
            raise AssertionError("the program cannot be traced")
        os.sched_setaffinity(process, one)
        os.sched_setaffinity(tracer.pid, one)
        with open(flag, "w", encoding="utf-8"):
            pass
        counts = [collections.Counter(json.loads(tracer.stdout.readline() or "null") or {}) for _ in range(n)]
        os.remove(flag)
        os.sched_setaffinity(process, its)
        tracer.stdin.close()
    if not all(counts):
        raise AssertionError("it ended while it was traced")
    return counts


def compare(before, after):
    """What a step takes more, as a share of it, without what differs by the heap; prints it by library."""
    whole = statistics.median(sum(step.values()) for step in before)
    more = 0
    print(f"instructions of a step: {whole:.0f} before, {statistics.median(sum(step.values()) for step in after):.0f} after; by library:")
    for name in sorted(set().union(*before, *after)):
        first, last = ([step[name] for step in steps] for steps in (before, after))
        change = statistics.median(last) - statistics.median(first)
        if not BY_THE_HEAP.match(name):
            more += change
        if first != last:
            print(f"  {name}: {' '.join(map(str, first))} before, {' '.join(map(str, last))} after, {change / whole:+.3%} of all")
    return more / whole


def read(path):
    with contextlib.suppress(OSError), open(path, encoding="utf-8") as file:
        return file.read().strip()
    return ""


def threads(pid):
    """Names, and nanoseconds on a processor."""
    found = {}
    for thread in os.listdir(f"/proc/{pid}/task"):
        folder = f"/proc/{pid}/task/{thread}"
        name, times = read(f"{folder}/comm"), read(f"{folder}/schedstat").split()
        if name and times:
            found[thread] = (name, int(times[0]))
    return found


def descriptors(pid):
    """By name, without the numbers in it: loaders open a new file for each batch."""
    return collections.Counter(re.sub(r"\d+", "N", os.readlink(entry)) for entry in (f"/proc/{pid}/fd/{fd}" for fd in os.listdir(f"/proc/{pid}/fd"))
                               if os.path.lexists(entry))


def held(pid):
    return threads(pid), descriptors(pid)


def no_more(now, before):
    return len(now[0]) <= len(before[0]) and now[1].total() <= before[1].total()


def left_behind(pid, before):
    """Threads that were not there before, with their share of a processor, and descriptors; in words."""
    first, begin = threads(pid), time.monotonic_ns()
    time.sleep(AT_REST_S)
    now, files = held(pid)
    words = [f"thread {name}, {(cpu - first[thread][1]) / (time.monotonic_ns() - begin):.3%} of a processor"
             for thread, (name, cpu) in now.items() if thread not in before[0] and thread in first]
    return words + [f"descriptor of {name}" for name in (files - before[1]).elements()]


def wait_until(condition, what):
    until = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > until:
            raise AssertionError(f"in {PATIENCE_S} s there was no {what}")
        time.sleep(0.005)


def rows(args, table, run):
    r = subprocess.run([args.tool, table, run, "--json"], capture_output=True, text=True, check=False)
    if r.returncode != 0:
        raise AssertionError(r.stderr)
    return json.loads(r.stdout)["rows"]


def cycle(args, process, run):
    """Seconds until it was inside; None: it did not get there in time."""
    begin = time.monotonic()
    looking = subprocess.Popen([args.tool, "attach", "--inside", "-q", "-d", f"{args.seconds}s", "-o", run,
                                str(process.pid)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    state, inside = os.path.join(run, "join.state"), None
    while looking.poll() is None and inside is None:
        if os.path.exists(state) and os.path.getsize(state) > len("starting\n"):
            inside = time.monotonic() - begin
        time.sleep(0.002)
    out, err = looking.communicate()
    if (looking.returncode, out, err) != (0, "", ""):
        raise AssertionError(f"attach: {looking.returncode} {out!r} {err!r}")
    return inside


def least_and_most(counts):
    return f"{min(counts)} to {max(counts)}" if counts else "no"


def check(args, folder):
    both = [Program(args, os.path.join(folder, name)) for name in ("joined", "undisturbed")]
    process, run = both[0].process, os.path.join(folder, "a.mscope")
    entries, steps, kernels, facts, late = [], [], [], "", 0
    begin = time.monotonic()
    try:
        wait_until(lambda: all(program.is_ready() for program in both), "start")
        counts = [count_instructions(args, both[0], args.counted)]
        before = held(process.pid)
        for i in range(args.cycles):
            if time.monotonic() - begin > args.time_limit:
                break
            entered = cycle(args, process, run)
            if entered is None:
                late += 1
                shutil.rmtree(run)
                continue
            entries.append(entered)
            steps.append(len(rows(args, "steps", run)))
            if args.device == "cuda":
                kernels.append(sum(row["count"] for row in rows(args, "kernels", run)))
                facts = subprocess.run([args.tool, "sql", run, "select value from facts where key like '%CUPTI%'"],
                                       capture_output=True, text=True, check=True).stdout
            if process.poll() is not None:
                raise AssertionError(f"it died in cycle {i}: {process.communicate()}")
            shutil.rmtree(run)
        wait_until(lambda: args.device == "cuda" or no_more(held(process.pid), before), f"{before}, but {held(process.pid)}")
        left = left_behind(process.pid, before)
        counts.append(count_instructions(args, both[0], args.counted))
        for program in both:
            program.stop()
        joined, bare = (program.told() for program in both)
    finally:
        for program in both:
            if program.process.poll() is None:
                program.process.kill()
    print(f"in after: median {statistics.median(entries):.3f} s, worst {max(entries):.3f} s, {late} times not in time")
    print("left behind:", "; ".join(left) or "nothing")
    print("of the last run:", *facts.splitlines()[1:])
    residue = compare(*counts)
    first, last = (collections.Counter(calls) for calls in joined["calls"])
    print(f"residue {residue:+.3%}; functions that a step calls {first.total()} times before, {last.total()} times after; "
          f"more: {', '.join(last - first) or 'none'}")
    results = {
        "in": late <= args.cycles // 20,
        "losses": all(a == b for a, b in zip(joined["losses"], bare["losses"])),
        "steps": bool(steps) and min(steps) > 0,
        "kernels": args.device != "cuda" or (bool(kernels) and min(kernels) > 0),
        "residue": residue <= 0.001 and not last - first,
    }
    print(f"{late + len(entries)} cycles, {len(joined['losses'])} steps; in a run {least_and_most(steps)} steps, "
          f"{least_and_most(kernels)} kernels")
    return results


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", nargs="?", default=os.path.join(ROOT, "build"))
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--cycles", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--counted", type=int, default=8)
    parser.add_argument("--time-limit", type=float, default=float("inf"), help="no cycle begins after so many seconds")
    parser.add_argument("--program")
    args = parser.parse_args()
    if args.program:
        train(args.device, args.program)
        return
    args.build = os.path.abspath(args.build)
    args.tool = os.path.join(args.build, "moescope")
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        try:
            results = check(args, folder)
        except AssertionError as why:
            print(f"FAIL join: {why}")
            results = {"join": False}
    for name, good in results.items():
        print("ok" if good else "FAIL", name)
        failed += not good
    print(f"{len(results) - failed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
