# SPDX-License-Identifier: Apache-2.0
"""Rows of the GPU benchmark: the overhead of profiling. A row is (measure, lines): the first
measures, the second turns results into lines (what, target, measured, met)."""
import os
import statistics
import sys

from harness import HERE, Failed, added_pct, find_keys, interval, json_lines, last_json, spread

SETTLE_S = 5  # until then the governor may still be finding its gear
TRAIN = [sys.executable, os.path.join(HERE, "train.py")]
IN_PROCESS = [sys.executable, os.path.join(HERE, "in_process.py")]
START_S = 25  # PyTorch, the model, warm-up


def steps_summary(result, skip_s):
    rows = [row for row in result["steps"] if row[0] >= skip_s]
    if len(rows) < 3:
        raise Failed(f"only {len(rows)} steps after {skip_s} s")
    walls, cpus = [row[1] for row in rows], [row[2] for row in rows]
    return {"median_ms": statistics.median(walls), "mean_ms": statistics.mean(walls),
            "cpu_ms": statistics.mean(cpus), "cpu_median_ms": statistics.median(cpus),
            "steps": len(rows)}


def of_run(bench, run):
    """What the run itself reports: kernels, coverage, losses."""
    kernels = bench.kernels(run)
    found = {"kernels": kernels["total"]["count"], "untimed": kernels["total"]["untimed"],
             "lost": {k: v for k, v in kernels["loss"].items() if v}}
    try:
        report = bench.table("report", run)
    except Failed as why:
        found["report"] = str(why)
    else:
        found["coverage"] = find_keys(report, "coverage")[:8]
        found["overhead"] = report.get("overhead")
    return found


def train(bench, name, method, i, arguments, seconds, skip_s):
    """One process of training or decoding with one method."""
    command = [*TRAIN, *arguments, "--seconds", str(seconds)]
    run = bench.path(f"{name}-{method}-{i}.mscope")
    env = {}
    if method.startswith("moescope"):
        command = [*bench.under(run, "off" if method.endswith("off") else "1%"), *command]
    elif method == "count":
        env = {"CUDA_INJECTION64_PATH": bench.built("libcount_kernels.so"),
               "COUNT_KERNELS_OUT": bench.path("count.json")}
    elif method != "bare":
        command += ["--profiler", method]
    done, wall_s = bench.run(command, seconds + 150, env)
    kept = steps_summary(last_json(done.stdout), skip_s)
    kept["process_s"] = wall_s
    if method.startswith("moescope"):
        kept["run"] = of_run(bench, run)
        if method.endswith("off") and not kept["run"]["kernels"]:
            raise Failed("moescope recorded no kernel")
    if method == "count":
        with open(bench.path("count.json")) as f:
            kept["counted"] = f.read().strip()
        if '"kernels": 0' in kept["counted"]:
            raise Failed(f"the bare CUPTI client counted nothing: {kept['counted']}")
    return kept


GPU_BOUND = ["bare", "moescope-1%", "moescope-off", "count", "torch-cuda", "torch-both",
             "torch-full", "proton"]
TITLES = {"moescope-1%": "moescope, budget 1%", "moescope-off": "moescope, complete trace",
          "count": "bare CUPTI client that counts kernels",
          "count-copies": "the same with copies and sets", "torch-cuda": "torch.profiler, CUDA",
          "torch-both": "torch.profiler, CPU + CUDA",
          "torch-full": "torch.profiler, shapes, memory, stacks, FLOPs",
          "proton": "Triton Proton"}


def gpu_bound(bench):
    def measure(method, i):
        governed = method in ("bare", "moescope-1%")
        seconds = SETTLE_S + 7 if governed else 6
        return train(bench, "gpu_bound", method, i, ["--batch", "32"], seconds,
                     SETTLE_S if governed else 1)

    bench.alternate("gpu_bound", GPU_BOUND, measure, START_S + 10)


def wall(kept):
    return kept["median_ms"]


def kept_coverage(bench, name, method="moescope-1%"):
    """Coverage as text: what the last run reports, or how many kernels it has."""
    for kept in reversed(bench.row(name)["alternations"]):
        run = kept.get(method, {}).get("run")
        if run:
            said = "; ".join(f"{key} {value:.3g}" for key, value in run.get("coverage") or [])
            return f"{run['kernels']} kernels kept" + (f", {said}" if said else "")
    return "coverage unknown"


def gpu_bound_lines(bench):
    kept = [k["bare"] for k in bench.row("gpu_bound")["alternations"] if "bare" in k]
    lines = [("GPU-bound training, batch 32×1024, bare", "",
              f"{statistics.median(map(wall, kept)):.2f} ms a step", None)]
    for method in GPU_BOUND[1:]:
        costs = added_pct(bench.pairs("gpu_bound", method), wall)
        met, asked, words = None, "", spread(costs)
        if method == "moescope-1%":
            asked, met = "≤ 1.0%", interval(costs)[0] <= 1.0 if costs else None
            words += "; " + kept_coverage(bench, "gpu_bound")
        lines.append((f"the same, {TITLES[method]}", asked, words, met))
    return lines


PEERS = ["count", "count-copies", "moescope", "proton", "torch-cuda", "torch-both", "torch-full"]


def peers(bench):
    """Profilers switched on and off inside one process, on the GPU-bound training."""
    n = 4 if bench.quick else 6
    kept, trouble = {}, ""
    # Proton cannot subscribe to CUPTI after another client: it gets a separate process.
    for methods in ([m for m in PEERS if m != "proton"], ["proton"]):
        bench.need(START_S + 60)
        command = [*IN_PROCESS, "pairs", ",".join(methods), bench.folder, "--moescope",
                   bench.library, "--count", bench.built("libcount_kernels.so"), "--pairs", str(n),
                   "--steps", "5"]
        done, _ = bench.run(command, 300, bench.environment("off"), check=False)
        for line in json_lines(done.stdout):
            kept.update(line)
        trouble += done.stderr[-2000:] if done.returncode else ""
    if not kept:
        raise Failed(trouble)
    for run in kept.get("moescope", {}).get("runs", [])[-1:]:
        kept["moescope"]["kernels"] = bench.kernels(run)["total"]["count"]
    bench.row("peers")["alternations"].append(kept)


def peers_lines(bench):
    rounds = bench.row("peers")["alternations"]
    costs = {m: [c for kept in rounds for c in kept.get(m, {}).get("costs_pct", [])] for m in PEERS}
    titles = dict(TITLES, moescope="moescope, complete trace")
    lines = []
    for method in PEERS:
        error = next((kept[method]["error"] for kept in rounds if "error" in kept.get(method, {})),
                     None)
        words = spread(costs[method]) if costs[method] else f"not measured: {error}"
        asked, met = "", None
        if method == "moescope" and costs["count"] and costs[method]:
            times = statistics.median(costs[method]) / statistics.median(costs["count"])
            asked, met = "≤ 1.15 × the bare client", times <= 1.15
            words += f"; {times:.2f} ×"
        lines.append((f"GPU-bound training, on and off in one process, {titles[method]}", asked,
                      words, met))
    return lines


def periods(steps):
    """Windows and the gaps after them, in steps reported to moescope: for each the cost in percent,
    all of its steps against those of the gap that no switching touches."""
    found, i = [], 0
    covered = [bool(step["device_covered"]) for step in steps]
    while i < len(steps):
        while i < len(steps) and not covered[i]:
            i += 1
        begin = i
        while i < len(steps) and covered[i]:
            i += 1
        gap = i
        while i < len(steps) and not covered[i]:
            i += 1
        if begin == gap or i == len(steps):  # the last one is incomplete
            break
        # Its first step includes the detach, the last the attach of the next window.
        clean = [step["time_ns"] for step in steps[gap + 1:i - 1]]
        if len(clean) >= 3:
            every = [step["time_ns"] for step in steps[begin:i]]
            found.append(100 * (statistics.mean(every) / statistics.mean(clean) - 1))
    return found


def whole_cost_pct(steps):
    """All steps against those that no window and no switching touches; None without any."""
    covered = [bool(step["device_covered"]) for step in steps]
    clean = [step["time_ns"] for i, step in enumerate(steps)
             if not any(covered[max(i - 1, 0):i + 2])]
    if len(clean) < 20:
        return None
    return 100 * (statistics.mean(step["time_ns"] for step in steps) / statistics.mean(clean) - 1)


def governed_of(name, arguments, seconds, program=None):
    """Budget 1% for a while: what the windows cost, against the time between them."""
    def measure_row(bench):
        bench.need(START_S + seconds)
        run = bench.path(f"{name}.mscope")
        words = [os.path.join(bench.build, program)] if program else TRAIN
        bench.run([*bench.under(run, "1%"), *words, *arguments, "--seconds", str(seconds),
                   "--tell-steps"], seconds + 120)
        rows = bench.table("steps", run, "--limit", "0")["rows"]
        begin = rows[0]["start_ns"]
        late = [row for row in rows if row["start_ns"] - begin >= SETTLE_S * 1e9]
        kept = {"steps": len(late), "covered": sum(bool(row["device_covered"]) for row in late),
                "mean_ms": statistics.mean(row["time_ns"] for row in late) / 1e6,
                "costs_pct": periods(late), "whole_pct": whole_cost_pct(late),
                "run": of_run(bench, run)}
        bench.row(name)["alternations"].append(kept)
    return measure_row


def governed_lines_of(name, title, bound):
    def lines(bench):
        rounds = bench.row(name)["alternations"]
        costs = [c for kept in rounds for c in kept["costs_pct"]]
        covered = 100 * sum(k["covered"] for k in rounds) / sum(k["steps"] for k in rounds)
        whole = [k["whole_pct"] for k in rounds if k.get("whole_pct") is not None]
        return [(f"{title}, budget 1%, windows against the time between them", f"≤ {bound}%",
                 f"window by window {spread(costs)}; the whole run {spread(whole)}; {covered:.1f}% "
                 f"of the steps covered, {rounds[-1]['mean_ms']:.2f} ms a step",
                 interval(costs or whole)[0] <= bound if costs or whole else None)]
    return lines


def launch_bound_of(name, arguments):
    def measure_row(bench):
        seconds = SETTLE_S + (6 if bench.quick else 12)
        bench.alternate(name, ["bare", "moescope-1%"],
                        lambda method, i: train(bench, name, method, i, arguments, seconds,
                                                SETTLE_S), START_S + seconds)
    return measure_row


def launch_bound_lines_of(name, title):
    def lines(bench):
        pairs = bench.pairs(name, "moescope-1%")
        walls, cpus = added_pct(pairs, wall), added_pct(pairs, lambda k: k["cpu_ms"])
        base = statistics.median(a["median_ms"] for a, _ in pairs)
        added_us = [(b["cpu_ms"] - a["cpu_ms"]) * 1e3 for a, b in pairs]
        # Added CPU time against the time of a step: the cost if all of it were waited for.
        share = [100 * us / 1e3 / base for us in added_us]
        met = min(interval(walls)[0], interval(share)[0]) <= 1.5 if walls else None
        return [(f"{title}, budget 1%", "≤ 1.5% of wall time, or by added CPU time",
                 f"bare {base:.2f} ms; wall {spread(walls)}; CPU {spread(added_us, ' µs', 0)} a "
                 f"step = {spread(share)} of the step ({spread(cpus)} of its CPU time); "
                 f"{kept_coverage(bench, name)}", met)]
    return lines


def micro_of(name, options, rate):
    def measure_row(bench):
        program = os.path.join(bench.build, "moescope-load")
        seconds = 10 if bench.quick else 25

        def measure(method, i):
            command = [program, "--every", "--seconds", str(seconds), *options]
            run = bench.path(f"{name}-{i}.mscope")
            if method != "bare":
                command = [*bench.under(run, "1%"), *command]
            done, _ = bench.run(command, seconds + 60)
            rows = json_lines(done.stdout)
            kept = {"rates": [r[rate] for r in rows if r.get("second", 0) > SETTLE_S],
                    "device_bytes": rows[-1]["free_bytes_before"] - rows[-1]["free_bytes_after"],
                    "sums": rows[-1]}
            if method != "bare":
                kept["run"] = of_run(bench, run)
            return kept

        bench.alternate(name, ["bare", "moescope-1%"], measure, seconds + 8)
    return measure_row


def mean_us(kept):
    return 1e6 / statistics.mean(kept["rates"])


def typical_us(kept):
    """Windows are shorter than half a second and rare, so the median second has none."""
    return 1e6 / statistics.median(kept["rates"])


def micro_lines_of(name, title):
    def lines(bench):
        pairs = bench.pairs(name, "moescope-1%")
        mean, between = added_pct(pairs, mean_us), added_pct(pairs, typical_us)
        base = statistics.median(mean_us(a) for a, _ in pairs)
        launched = sum(b["sums"]["launches"] + b["sums"]["replays"] * b["sums"]["nodes"]
                       for _, b in pairs)
        seen = sum(b["run"]["kernels"] for _, b in pairs)
        wrong = any(k["sums"]["wrong"] for pair in pairs for k in pair)
        device = [(b["device_bytes"] - a["device_bytes"]) / 2**20 for a, b in pairs]
        return [(f"{title}, budget 1%, from the fifth second on", "≤ 1.5%",
                 f"bare {base:.2f} µs; {spread(mean)}; coverage {100 * seen / launched:.2f}% of the "
                 "kernels", interval(mean)[0] <= 1.5 and not wrong),
                ("the same, between windows", "not measurable", spread(between),
                 interval(between)[0] <= 0.5),
                ("the same, GPU memory of the profiler", "≤ 128 MB",
                 f"{max(device):.0f} MiB at most after {pairs[0][1]['sums']['seconds']:.0f} s",
                 max(device) <= 128)]
    return lines


ROWS = {
    "gpu_bound": (gpu_bound, gpu_bound_lines),
    "peers": (peers, peers_lines),
    "governed_gpu_bound": (governed_of("governed_gpu_bound", ["--batch", "32"], 90),
                           governed_lines_of("governed_gpu_bound", "GPU-bound training", 1.0)),
    "governed_launch_bound": (governed_of("governed_launch_bound", ["--batch", "8"], 60),
                              governed_lines_of("governed_launch_bound",
                                                "launch-bound training, batch 8×1024", 1.5)),
    "governed_decode": (governed_of("governed_decode", ["--mode", "decode", "--batch", "1"], 60),
                        governed_lines_of("governed_decode", "eager decode, batch 1", 1.5)),
    "governed_eager": (governed_of("governed_eager", ["--eager", "1"], 60, "moescope-load"),
                       governed_lines_of("governed_eager", "tiny kernels launched one by one",
                                         1.5)),
    "launch_bound": (launch_bound_of("launch_bound", ["--batch", "8"]),
                     launch_bound_lines_of("launch_bound", "launch-bound training, batch 8×1024")),
    "decode": (launch_bound_of("decode", ["--mode", "decode", "--batch", "1"]),
               launch_bound_lines_of("decode", "eager decode, batch 1")),
    "micro_eager": (micro_of("micro_eager", ["--eager", "1"], "launches_per_s"),
                    micro_lines_of("micro_eager", "tiny kernels launched one by one")),
    "micro_graph": (micro_of("micro_graph", ["--graphs", "1"], "replays_per_s"),
                    micro_lines_of("micro_graph", "CUDA graph of 900 tiny kernels")),
}
