#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A busy PyTorch training that is joined and left again and again: join_check.py [BUILD] [--device cuda|cpu]

The training has a DataLoader with workers, a thread that computes beside it and, on a GPU, its forward and
backward pass in a CUDA graph. It is joined --cycles times (200) for --seconds each, then it stops. It must have lived,
its losses must be those of an undisturbed training beside it bit for bit, every run must have whole steps and, on a
GPU, kernels; its threads and descriptors must be those from before. What a step takes after all that, against before,
is printed for both, with the spread, and so are how long it took to get in and which threads it has more.

Ends with 'N passed, N failed'.
"""
import argparse
import collections
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
QUIET_STEPS = 1500  # before the first and after the last cycle
PATIENCE_S = 600


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

    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, capturable=device == "cuda")
    ended = threading.Event()

    def beside():
        a = torch.randn(64, 64)
        while not ended.wait(0.01):
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
    losses, times, last = [], [], None
    for x, y in DataLoader(Numbers(), batch_size=32, num_workers=2):
        start = time.thread_time()
        static_x.copy_(x)
        static_y.copy_(y)
        optimizer.zero_grad(set_to_none=False)
        if graph is not None:
            graph.replay()
            loss = static_loss
        else:
            loss = forward_backward()
        optimizer.step()
        losses.append(loss.item().hex())
        times.append(time.thread_time() - start)
        if len(losses) == QUIET_STEPS:
            open(os.path.join(folder, "ready"), "w").close()
        if last is None and os.path.exists(os.path.join(folder, "stop")):
            last = len(losses) + QUIET_STEPS
        if len(losses) == last:
            break
    ended.set()
    with open(os.path.join(folder, "told.json"), "w", encoding="utf-8") as file:
        json.dump({"losses": losses, "times": times}, file)


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


def thread_name(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return "ended"


def held(pid):
    """The threads' names, and how many descriptors."""
    return (collections.Counter(thread_name(f"/proc/{pid}/task/{thread}/comm") for thread in os.listdir(f"/proc/{pid}/task")),
            len(os.listdir(f"/proc/{pid}/fd")))


def no_more(now, before):
    return now[0].total() <= before[0].total() and now[1] <= before[1]


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


def middle(times):
    """The median, and how far it may be off, in shares of it."""
    parts = [statistics.median(times[i::5]) for i in range(5)]
    value = statistics.median(times)
    return value, (max(parts) - min(parts)) / value


def least_and_most(counts):
    return f"{min(counts)} to {max(counts)}" if counts else "no"


def check(args, folder):
    both = [Program(args, os.path.join(folder, name)) for name in ("joined", "undisturbed")]
    process, run = both[0].process, os.path.join(folder, "a.mscope")
    entries, steps, kernels, facts, late = [], [], [], "", 0
    try:
        wait_until(lambda: all(program.is_ready() for program in both), "start")
        before = held(process.pid)
        for i in range(args.cycles):
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
        after = held(process.pid)
        for program in both:
            program.stop()
        joined, bare = (program.told() for program in both)
    finally:
        for program in both:
            if program.process.poll() is None:
                program.process.kill()
    print(f"in after: median {statistics.median(entries):.3f} s, worst {max(entries):.3f} s, {late} times not in time; "
          f"threads and descriptors before {before[0].total()} and {before[1]}, after {after[0].total()} and {after[1]}; more threads: "
          f"{', '.join(after[0] - before[0]) or 'none'}")
    print("of the last run:", *facts.splitlines()[1:])
    # What a step takes may change by itself: the residue is what the joined one changed more than the undisturbed one.
    ratios, noise = [], 0.0
    for name, times in (("joined", joined["times"]), ("undisturbed", bare["times"])):
        (first, off), (last, off_too) = (middle(part) for part in (times[20:QUIET_STEPS], times[-QUIET_STEPS:]))
        print(f"CPU time of a step, {name}: before {first * 1e6:.1f} us (+-{off:.1%}), after {last * 1e6:.1f} us "
              f"(+-{off_too:.1%}), that is {last / first - 1:+.2%}")
        ratios.append(last / first)
        noise += off + off_too
    residue = ratios[0] / ratios[1] - 1
    print(f"residue {residue:+.2%} (+-{noise:.1%})")
    results = {
        "in": late <= args.cycles // 20,
        "losses": all(a == b for a, b in zip(joined["losses"], bare["losses"])),
        "steps": bool(steps) and min(steps) > 0,
        "kernels": args.device != "cuda" or (bool(kernels) and min(kernels) > 0),
        "residue": residue <= 0.001 + noise,
    }
    print(f"{args.cycles} cycles, {len(joined['losses'])} steps; in a run {least_and_most(steps)} steps, "
          f"{least_and_most(kernels)} kernels")
    return results


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", nargs="?", default=os.path.join(ROOT, "build"))
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--cycles", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--program")
    args = parser.parse_args()
    if args.program:
        train(args.device, args.program)
        return
    args.tool = os.path.join(os.path.abspath(args.build), "moescope")
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
