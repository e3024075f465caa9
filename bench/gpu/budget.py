#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether the budget holds over whole processes: mean step under moescope, in pairs with bare ones.

budget.py [--build DIR] [--only NAME,NAME] [--complete] [--pairs N] [--seconds S]
          [--time-limit SECONDS] [--json FILE] [--fresh]

Each measurement is one process, alone on the GPU: warm-up, then steps for S seconds, each with a
synchronise. The figure is their mean, so that windows and the switches between them count in full;
a median hides them. What is added by the end of the warm-up is shown next to it ("start").
--complete compares the cost of a complete trace (budget
off) with that of a bare CUPTI client that counts kernels, copies and sets, on the GPU-bound
training.

PyTorch is imported once, and processes are forked from there before anything touches CUDA, so that
none pays for its own import. They are not started by `moescope run`: each sets the variables that
it would set, and the driver loads the library at the first CUDA call. Their runs have no run.json,
which reports do not need.

Results are in the JSON file after every measurement, and a later call resumes where the previous
one stopped (--fresh restarts). The table comes last, on standard output.
"""
import argparse
import ctypes
import importlib.util
import json
import os
import shutil
import signal
import statistics
import sys
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import (Bench, Failed, OutOfTime, Skipped, added_pct, interval, say,  # noqa: E402
                     spread)
from rows_cost import of_run  # noqa: E402

START_S = 12  # the context, the model, warm-up, the report
# What `moescope run` sets or clears, and what makes a library part of the process.
VARIABLES = ["CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"] + [
    "MOESCOPE_" + name for name in ("RUN", "LEVEL", "SCHEDULE", "OVERHEAD_CHECK", "RING_KB",
                                    "BUDGET", "STAY_ATTACHED", "DEVICE_MB", "KERNEL",
                                    "RANKS")]


def training(batch):
    from train import training_step
    return training_step(batch, 1024)


def decoding(by_graph):
    import torch
    from routing_parts import StaticDecode, captured
    torch.manual_seed(0)
    with torch.device("cuda"):
        model = StaticDecode(layers=16).to(torch.bfloat16).eval()
    model()  # kernels are loaded
    graph = captured(model) if by_graph else None

    def step():  # holds the model, whose memory the graph reads
        if by_graph:
            graph.replay()
        else:
            model()

    return step


# name -> (title, most that may be added in percent, steps of warm-up, what makes the step)
WORKLOADS = {
    "gpu": ("GPU-bound training, batch 32×1024", 1.0, 6, lambda: training(32)),
    "launch": ("launch-bound training, batch 8×1024", 1.2, 6, lambda: training(8)),
    "graph": ("decoding by CUDA graph", 1.2, 50, lambda: decoding(True)),
    "eager": ("the same decoding, launch by launch", None, 50, lambda: decoding(False)),
}
MOST_TIMES = 1.06  # the cost of a complete trace, as a multiple of the bare client's


def steps_of(workload, seconds):
    """Runs in the child, from its first CUDA call on."""
    import torch
    from train import measure
    _, _, warm_up, make = WORKLOADS[workload]
    begin = time.perf_counter()
    step = make()
    for _ in range(warm_up):
        step()
    torch.cuda.synchronize()
    ready = time.perf_counter()
    walls = [row[1] for row in measure(step, torch.cuda.synchronize, None, seconds)]
    whole_s = time.perf_counter() - ready
    return {"mean_ms": whole_s * 1e3 / len(walls), "median_ms": statistics.median(walls),
            "longest_ms": sorted(walls)[-5:], "steps": len(walls), "start_s": ready - begin,
            "machine": f"{torch.cuda.get_device_name()}; torch {torch.__version__}"}


def child(env, work, result, log_fd):
    """Never returns. Ends by exit(), as programs do: the library writes its last records there."""
    status = 1
    try:
        os.dup2(log_fd, 1)
        os.dup2(log_fd, 2)
        for name in VARIABLES:
            os.environ.pop(name, None)
        os.environ.update(env)
        found = work()
        with open(result, "w") as f:
            json.dump(found, f)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        if status:
            os._exit(status)
        ctypes.CDLL(None).exit(0)


def forked(bench, env, work, timeout):
    """What work() returns in a separate process with these variables."""
    result, log = bench.path("child.json"), bench.path("child.log")
    limit = max(1.0, min(timeout, bench.left() - 2))
    deadline = time.monotonic() + limit
    sys.stdout.flush()
    sys.stderr.flush()
    with open(log, "w") as f:
        pid = os.fork()
        if pid == 0:
            child(env, work, result, f.fileno())
    ended, status = os.waitpid(pid, os.WNOHANG)
    while not ended and time.monotonic() < deadline:
        time.sleep(0.05)
        ended, status = os.waitpid(pid, os.WNOHANG)
    if not ended:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        if limit < timeout:
            raise OutOfTime()
    if not ended or status:
        with open(log, errors="replace") as f:
            said = f.read()[-4000:]
        why = f"status {os.waitstatus_to_exitcode(status)}" if ended else \
            f"not done after {limit:.0f} s"
        raise Failed(f"the process: {why}\n{said}")
    with open(result) as f:
        return json.load(f)


def measured(bench, workload, method, seconds):
    run, counted = bench.path("run.mscope"), bench.path("count.json")
    shutil.rmtree(run, ignore_errors=True)
    work, env = lambda: steps_of(workload, seconds), {}
    if method == "client":
        client = bench.built("libcount_kernels.so")
        env = {"CUDA_INJECTION64_PATH": client, "COUNT_KERNELS_OUT": counted}

        def work():  # the driver will find it loaded, and use this one
            ctypes.c_int.in_dll(ctypes.CDLL(client), "count_copies").value = 1
            return steps_of(workload, seconds)
    elif method != "bare":
        os.mkdir(run)
        env = {"CUDA_INJECTION64_PATH": bench.library, "NVTX_INJECTION64_PATH": bench.library,
               "MOESCOPE_RUN": run, "MOESCOPE_BUDGET": "off" if method == "off" else "1"}
    kept = forked(bench, env, work, seconds + 150)
    if method == "client":
        if not os.path.exists(counted):
            raise Failed("the driver did not load the bare client")
        with open(counted) as f:
            kept["run"] = json.load(f)
        os.remove(counted)
    elif method != "bare":
        kept["run"] = of_run(bench, run)
    if method != "bare" and not kept["run"]["kernels"]:
        raise Failed("no kernel was recorded: what was timed is not profiling")
    return kept


def mean(kept):
    return kept["mean_ms"]


def coverage(kept):
    """As text, medians over the runs: how much of the time has records."""
    overheads = [k["run"].get("overhead") or {} for k in kept]

    def median(key, form):
        known = [o[key] for o in overheads if isinstance(o.get(key), (int, float))]
        return form.format(statistics.median(known)) if known else "unknown"

    return (f"coverage {median('coverage_pct', '{:.3g}%')}, windows {median('windows', '{:g}')}, "
            f"cost by the governor's estimate {median('device_estimate_pct', '{:.2f}%')}")


def budget_line(bench, row, workload):
    title, most, _, _ = WORKLOADS[workload]
    pairs = bench.pairs(row, "budget")
    costs = added_pct(pairs, mean)
    words = spread(costs)
    if pairs:
        start = statistics.median(b["start_s"] - a["start_s"] for a, b in pairs)
        words += (f"; bare {statistics.median(a['mean_ms'] for a, _ in pairs):.2f} ms a step; "
                  f"{coverage([b for _, b in pairs])}; start {start:+.2f} s")
    return (f"{title}, budget 1%, mean step", f"≤ +{most}%" if most else "", words,
            interval(costs)[0] <= most if costs and most else None)


def times_the_client(rounds):
    """Added by a complete trace over added by the client, round by round. None if the client cost
    nothing: neighbours or clocks were louder."""
    return [(k["off"]["mean_ms"] - k["bare"]["mean_ms"]) / added if added > 0 else None
            for k in rounds if {"bare", "client", "off"} <= set(k)
            for added in [k["client"]["mean_ms"] - k["bare"]["mean_ms"]]]


def complete_line(bench, row):
    every = times_the_client(bench.row(row)["alternations"])
    times = [t for t in every if t is not None]
    words = spread(times, " ×")
    for method in ("client", "off"):
        words += f"; {method} {spread(added_pct(bench.pairs(row, method), mean))}"
    if len(times) < len(every):
        words += f"; left out: {len(every) - len(times)} rounds in which the client cost nothing"
    kept = [b for _, b in bench.pairs(row, "off")]
    return (f"{WORKLOADS['gpu'][0]}, complete trace, cost against the bare client's",
            f"≤ {MOST_TIMES} ×", words + (f"; {coverage(kept)}" if kept else ""),
            interval(times)[0] <= MOST_TIMES if times else None)


def why_not(bench):
    """Why nothing can be measured here, or None."""
    if not os.path.exists("/dev/nvidia0"):
        return "no NVIDIA GPU on this machine (/dev/nvidia0 is not there)"
    for module in ("torch", "transformers"):
        if importlib.util.find_spec(module) is None:
            return f"no Python module '{module}'"
    return None if os.path.exists(bench.library) else f"no {bench.library}; build it with 'make'"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--only", help=f"of {', '.join(WORKLOADS)}, with commas")
    parser.add_argument("--complete", action="store_true", help="the complete trace instead")
    parser.add_argument("--pairs", type=int, default=6, help="of processes (6, for 95%%)")
    parser.add_argument("--seconds", type=float, default=10, help="timed part of a process (10)")
    parser.add_argument("--time-limit", type=float, default=3600, help="seconds for everything")
    parser.add_argument("--json", help="where results are kept (BUILD/gpu-budget.json)")
    parser.add_argument("--fresh", action="store_true", help="forget what is in the JSON file")
    args = parser.parse_args()
    names = args.only.split(",") if args.only else list(WORKLOADS)
    unknown = [name for name in names if name not in WORKLOADS]
    if unknown:
        parser.error(f"there is no workload '{unknown[0]}'; they are {', '.join(WORKLOADS)}")
    path = os.path.abspath(args.json or os.path.join(args.build, "gpu-budget.json"))
    if args.fresh and os.path.exists(path):
        os.remove(path)
    bench = Bench(args.build, path, args.pairs, False, args.time_limit)
    why = why_not(bench)
    if why:
        print(f"gpu-budget: {why}; nothing measured.")
        return
    import routing_parts  # noqa: F401
    import torch._dynamo  # noqa: F401  the optimizer imports it at its first step
    import train  # noqa: F401
    plan = [("complete", "gpu", ["bare", "client", "off"])] if args.complete else \
        [(name, name, ["bare", "budget"]) for name in names]
    lines, machine = [], "no process has ended"
    for name, workload, methods in plan:
        # In shorter processes the first recording is a larger part: they are not mixed.
        row = f"{name}-{args.seconds:g}s"
        bench.row(row)["errors"] = []
        try:
            bench.alternate(row, methods, lambda method, _i, workload=workload: measured(
                bench, workload, method, args.seconds), START_S + args.seconds)
        except (Failed, OutOfTime, Skipped) as error:
            bench.row(row)["errors"].append(str(error) or "the time limit came first")
            bench.save()
        kept = [k for both in bench.row(row)["alternations"] for k in both.values()]
        machine = kept[-1]["machine"] if kept else machine
        lines.append(complete_line(bench, row) if args.complete else
                     budget_line(bench, row, workload))
        lines += [(name, "", f"trouble: {' '.join(error.split())[-300:]}", None)
                  for error in bench.row(row)["errors"]]
    print(f"\n{machine}; {args.seconds:g} s a process\n\n| what | asked | measured | |\n"
          "|---|---|---|---|")
    for what, asked, words, met in lines:
        word = {True: "met", False: "**missed**", None: ""}[met]
        print(f"| {what} | {asked} | {words} | {word} |")
    say(f"Every figure: {path}")


if __name__ == "__main__":
    main()
