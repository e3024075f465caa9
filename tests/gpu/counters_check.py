#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hardware counters against others who count: counters_check.py [BUILD] [--only timeline,cost,recorder,exact,price,replay,pc]

timeline  'run --counters timeline' while known kernels run, against NVML's readings of the same moments; the times of
          samples against those of the program
cost      a training, with and without sampling every millisecond, NVML's counters, and both, in turns in one process
recorder  'run --counters recorder' of a program one of whose steps is slow: when the seconds before are on disk
exact     'run --counters' of single kernels (with MOESCOPE_TRUST=1) against Nsight Compute and arithmetic: DRAM bytes, tensor
          operations, L2 hit rate and SM use of each of the known kernels; and by their NVTX ranges against arithmetic
price     what counting the set 'basic' costs in a step of a training (with MOESCOPE_TRUST=1), beside Nsight Compute
replay    'run --replay kernel' (with MOESCOPE_TRUST=1): the result of a program whose kernels write what they read, one of
          them the host's memory; throughputs of the known kernels against Nsight Compute; times and clocks beside those of
          one pass; what a replayed launch costs
pc        'run --counters pc' (with MOESCOPE_TRUST=1) of a program whose warps wait at a known line: its result, the line and
          the reason, all samples accounted for, and what it costs

Ends with 'N passed, N failed'."""
import argparse
import contextlib
import csv
import ctypes
import io
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PHASE_S, BREAK_S = 0.6, 0.1
SETTLE_S = 2.5
POINTS = 1.5  # from NVML, in points of a percentage
MS = 1_000_000


def sql(args, run, query):
    r = subprocess.run([args.tool, "sql", run, "--csv", query], capture_output=True, text=True, check=False)
    if r.returncode:
        raise AssertionError(r.stderr)
    return list(csv.DictReader(io.StringIO(r.stdout)))


# ---- over time

def phases(folder):
    """The program: each operation alone, with the times."""
    import known_kernels
    import torch

    told = []
    for name, run in known_kernels.make().items():
        for _ in range(3):
            run()
        torch.cuda.synchronize()
        time.sleep(BREAK_S)
        begin = time.monotonic_ns()
        while time.monotonic_ns() - begin < PHASE_S * 1e9:
            for _ in range(20):
                run()
            torch.cuda.synchronize()
        told.append((name, begin, time.monotonic_ns()))
    with open(os.path.join(folder, "phases.json"), "w", encoding="utf-8") as file:
        json.dump(told, file)


def mean(values, begin, end):
    inside = [value for at, value in values if begin < at <= end]
    return statistics.mean(inside) if inside else None


def timeline(args, folder):
    run = os.path.join(folder, "a.mscope")
    r = subprocess.run([args.tool, "run", "-q", "--counters", "timeline", "-o", run, "--", sys.executable,
                        os.path.abspath(__file__), "--phases", folder], capture_output=True, text=True, check=False)
    if r.returncode or r.stderr:
        raise AssertionError(f"{r.returncode} {r.stderr}")
    with open(os.path.join(folder, "phases.json"), encoding="utf-8") as file:
        return judge(args, run, json.load(file))


def judge(args, run, told):
    """told: names of phases, with their times."""
    series = {}
    for row in sql(args, run, "select time_ns, metric, value from samples order by time_ns"):
        series.setdefault(row["metric"], []).append((int(row["time_ns"]), float(row["value"])))
    looks = {at for at, _ in series["dram_bandwidth_pct"]}
    nvml = {name: {at: value for at, value in values if at in looks} for name, values in series.items()}
    ours = {name: [v for v in values if v[0] not in looks] for name, values in series.items()}
    ours["dram"] = [(at, read + write) for (at, read), (_, write) in zip(ours["dram_read_pct"], ours["dram_write_pct"])]
    worst, edges = {}, []
    for name, begin, end in told:
        for theirs, mine in (("sm_active_pct", "sm_active_pct"), ("tensor_active_pct", "tensor_active_pct"),
                             ("dram_bandwidth_pct", "dram"), ("sm_occupancy_pct", "warps_active_pct")):
            # NVML's are of a tenth of a second that ended up to 0.15 s before the look.
            for at in (at for at in looks if begin + 270 * MS < at < end):
                tenths = [mean(ours[mine], to - 100 * MS, to) for to in range(at - 150 * MS, at + 1, 10 * MS)]
                least, most, their = min(tenths), max(tenths), nvml[theirs][at]
                worst[mine] = max(worst.get(mine, (0, "")), (max(least - their, their - most, 0),
                                                             f"{name}: {least:.1f} to {most:.1f}, NVML {their:.1f}"))
        usual = mean(ours["sm_active_pct"], begin + 100 * MS, end)
        busy = [at for at, value in ours["sm_active_pct"] if value > usual / 2 and begin - 50 * MS < at < end + 50 * MS]
        edges += [(busy[0] - begin) / MS, (busy[-1] - end) / MS] if busy else []
    for mine, (points, words) in worst.items():
        print(f"{mine}: at most {points:.2f} points from NVML ({words})")
    print(f"times: kernels begin {min(edges[::2]):.1f} to {max(edges[::2]):.1f} ms after the program's begin, and end "
          f"{min(edges[1::2]):.1f} to {max(edges[1::2]):.1f} ms after its end")
    return {f"{mine} beside NVML": points <= POINTS for mine, (points, _) in worst.items()} | {
        "phases": bool(worst), "times": min(edges) > -5 and max(edges) < 10}


# ---- cost

def cost(args, folder):
    """Blocks of steps of a training, with everything that 'run --counters recorder' reads and without, in turns. In its first two
    seconds a session records every kernel, to find out what that costs: blocks begin when it has come to rest."""
    sys.path.insert(0, os.path.join(ROOT, "bench", "gpu"))
    import harness
    import train

    library = ctypes.CDLL(os.path.join(args.build, "libmoescope.so"))
    library.moescope_start.argtypes = [ctypes.c_char_p]
    library.moescope_stop.restype = None
    step, wait = train.training_step(32, 1024), train.Wait()

    def block():
        begin = time.perf_counter()
        while time.perf_counter() - begin < SETTLE_S:
            step()
            wait()
        begin = time.perf_counter()
        for _ in range(args.steps):
            step()
            wait()
        return (time.perf_counter() - begin) / args.steps

    def read(i, session, sampled):
        if session and library.moescope_start(os.path.join(folder, f"cost-{i}.mscope").encode()) != 0:
            raise AssertionError("moescope_start")
        counters = subprocess.Popen([os.path.join(args.build, "moescope-counters"), "sample", folder, "1000000", "10000000000"],
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) if sampled else None
        said = counters.stdout.readline() if counters else "ready\n"
        taken = block() if said == "ready\n" else 0
        if counters:
            counters.communicate()
        if session:
            library.moescope_stop()
        if not taken:
            raise AssertionError(f"moescope-counters is not ready: {said}")
        return taken

    for _ in range(5):
        step()
    plain = [block()]
    costs = {"all of them": (True, True, []), "a session with NVML's alone": (True, False, []), "samples of every millisecond alone": (False, True, [])}
    for i in range(args.pairs):
        for name in random.sample(list(costs), len(costs)):
            session, sampled, found = costs[name]
            during = read(f"{name[:4]}-{i}", session, sampled)
            plain.append(block())
            found.append(200 * during / (plain[-2] + plain[-1]) - 100)
    print(f"counters over time beside a training of {1000 * statistics.median(plain):.1f} ms a step; without, neighbouring blocks differ by "
          f"{harness.spread([100 * (b / a - 1) for a, b in zip(plain, plain[1:])])}")
    for name, (_, _, found) in costs.items():
        print(f"{name}: {harness.spread(found)}")
    return {"cost of counters over time": statistics.median(costs["all of them"][2]) <= 1}


# ---- the recorder

SLOW_STEP = """
import ctypes, glob, os, sys, threading, time
import torch
library, run = ctypes.CDLL(sys.argv[1]), sys.argv[2]
library.moescope_step.argtypes = [ctypes.c_uint64]
matrix = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
(shard,) = glob.glob(os.path.join(run, "counters-*"))
grown = []
def watch(size, begin):
    while time.monotonic_ns() < begin + 2_000_000_000:
        now = os.path.getsize(shard)
        if now != size:
            grown.append((time.monotonic_ns() - begin) / 1e6)
        size = now
        time.sleep(0.001)
for step in range(400):
    for _ in range(1000 if step == 200 else 50):
        matrix @ matrix
    torch.cuda.synchronize()
    library.moescope_step(1)
    if step == 200:
        watcher = threading.Thread(target=watch, args=(os.path.getsize(shard), time.monotonic_ns()))
        watcher.start()
watcher.join()
print(grown[0], grown[-1])
"""


def recorder(args, folder):
    run = os.path.join(folder, "recorder.mscope")
    r = subprocess.run([args.tool, "run", "-q", "--no-auto", "--counters", "recorder", "-o", run, "--", sys.executable, "-c", SLOW_STEP,
                        os.path.join(args.build, "libmoescope.so"), run], capture_output=True, text=True, check=False, timeout=120)
    if r.returncode:
        raise AssertionError(f"{r.returncode} {r.stderr}")
    first, last = map(float, r.stdout.split())
    samples = sql(args, run, "select min(time_ns) first, max(time_ns) last, count(*) n from samples where metric = 'sm_active_pct'")
    print(f"a slow step: written {first:.0f} to {last:.0f} ms after its end;", samples,
          sql(args, run, "select text from marks"))
    return {"a slow step on disk": last <= 200 and int(samples[0]["n"]) > 500}


# ---- single kernels

# Ours, of which some are counted beside the SMs, and what they are called there.
ACTIVE, ELAPSED = ".avg.pct_of_peak_sustained_active", ".avg.pct_of_peak_sustained_elapsed"
SHARES = {"TPC.TriageCompute.sm__cycles_active" + ELAPSED: "sm__cycles_active" + ELAPSED,
          "TPC.TriageCompute.tpc__warps_active_shader_cs_realtime" + ACTIVE: "sm__warps_active" + ACTIVE,
          "TPC.TriageCompute.sm__pipe_tensor_cycles_active_realtime" + ELAPSED: "sm__pipe_tensor_cycles_active" + ELAPSED,
          "TPC.TriageCompute.sm__inst_executed_realtime" + ELAPSED: "sm__inst_executed" + ELAPSED}
METRICS = ("gpu__time_duration.sum", "dram__bytes_read.sum", "dram__bytes_write.sum", "lts__t_sectors_lookup_hit.sum",
           "lts__t_sectors_lookup_miss.sum", "sm__ops_path_tensor_src_bf16_dst_fp32.sum", "sm__ops_path_tensor_src_fp8.sum")
OPERATIONS = ("copy", "sum", "add", "gemm_bf16", "gemm_fp32", "gemm_fp8", "grouped_gemm", "attention", "gather", "softmax",
              "layernorm", "transpose")
ROUNDS, NSIGHT_ROUNDS = 12, 6
TENSOR_ROUNDS = 48  # six groups of metrics take turns
NSIGHT = ("ncu", "--clock-control", "none", "--cache-control", "none", "--profile-from-start", "off", "--csv", "--page", "raw")


def program_of(*command, env=None):
    """What it printed; it must end well."""
    r = subprocess.run(command, env=dict(os.environ, **(env or {})), capture_output=True, text=True, check=False, timeout=500)
    if r.returncode:
        raise AssertionError(f"{command}: {r.returncode} {r.stdout[-1000:]} {r.stderr[-2000:]}")
    return r


def by_nsight(args, folder, metrics, *options, rounds=1):
    """The launches of known_kernels.py, in their order: means over the rounds."""
    log = os.path.join(folder, "ncu.csv")
    program_of(*NSIGHT, *options, "--metrics", ",".join(metrics), "--log-file", log, sys.executable,
               os.path.join(HERE, "known_kernels.py"), env={"ROUNDS": str(rounds)})
    with open(log, encoding="utf-8") as file:
        lines = [line for line in file if not line.startswith("==")]
    rows = list(csv.DictReader(lines))[1:]  # the first has the units
    each, left = divmod(len(rows), rounds)
    if left:
        raise AssertionError(f"Nsight Compute has {len(rows)} launches in {rounds} rounds")
    return [{"name": rows[i]["Kernel Name"]} | {m: statistics.mean(float(row[m].replace(",", "")) for row in rows[i::each]) for m in metrics}
            for i in range(each)]


def by_moescope(args, run, where):
    """Of each operation its launches, in their order: means over the rounds, by metric."""
    rounds = {}
    for row in sql(args, run, "select r.name operation, r.start_ns, c.profile, m.name, m.value, m.kernel_name kernel from ranges r "
                   "join counted_launches c on c.time_ns between r.start_ns and r.end_ns join metrics m on m.profile = c.profile "
                   f"where {where} order by r.start_ns, c.profile"):
        launches = rounds.setdefault(row["operation"], {}).setdefault(row["start_ns"], {})
        launches.setdefault(row["profile"], {"name": row["kernel"]})[row["name"]] = float(row["value"])
    found = {}
    for operation, instances in rounds.items():
        most = max(map(len, instances.values()))
        whole = [list(launches.values()) for launches in instances.values() if len(launches) == most]
        found[operation] = [{name: statistics.mean(launches[i][name] for launches in whole if name in launches[i])
                             for name in set().union(*(launches[i] for launches in whole)) - {"name"}}
                            | {"name": whole[0][i]["name"]} for i in range(most)]
    return found


def longest(launches):
    return max(launches, key=lambda launch: launch["gpu__time_duration.sum"])


def beside_nsight(ours, theirs):
    """(operation, our longest launch, theirs): by the order of operations, and of launches in them."""
    at = 0
    for operation in OPERATIONS:
        n = len(ours.get(operation, ()))
        if not n:
            print(f"{operation} was not counted")
            continue
        yield operation, longest(ours[operation]), longest(theirs[at:at + n])
        at += n
    if at != len(theirs):
        raise AssertionError(f"{at} launches here, Nsight Compute has {[row['name'][:40] for row in theirs]}, "
                             f"here {[(name, [l['name'][:40] for l in launches]) for name, launches in ours.items()]}")


def hit_rate(values):
    hits, misses = (values.get(f"lts__t_sectors_lookup_{which}.sum", 0) for which in ("hit", "miss"))
    return hits / (hits + misses) if hits + misses else 0


def dram(values):
    return values["dram__bytes_read.sum"] + values["dram__bytes_write.sum"]


def exact(args, folder):
    if not os.environ.get("MOESCOPE_TRUST"):
        print("skip exact: it wants MOESCOPE_TRUST=1")
        return {}
    import known_kernels

    run = os.path.join(folder, "exact.mscope")
    program_of(args.tool, "run", "-q", "--no-auto", "--counters", ",".join(("basic", *METRICS)), "--launch-count", "100000", "-o",
               run, "--", sys.executable, os.path.join(HERE, "known_kernels.py"), env={"ROUNDS": str(ROUNDS)})
    ours, results = by_moescope(args, run, "1"), {}
    # The program runs again for each pass: a kernel that runs again alone finds another cache.
    for name, mine, theirs in beside_nsight(ours, by_nsight(args, folder, (*METRICS, *SHARES.values()), "--replay-mode",
                                                            "application", rounds=NSIGHT_ROUNDS)):
        shares = {their: (mine.get(our, float("inf")), theirs[their]) for our, their in SHARES.items()}
        # Ours is of all cycles, as src/subjects/counters/kernel_limits.c knows.
        warps, (active, _) = shares["sm__warps_active" + ACTIVE], shares["sm__cycles_active" + ELAPSED]
        shares["sm__warps_active" + ACTIVE] = 100 * warps[0] / active, warps[1]
        off = {metric: mine.get(metric, 0) / theirs[metric] - 1 for metric in METRICS if theirs[metric] > 0}
        traffic, hits, their_hits = dram(mine) / dram(theirs) - 1, hit_rate(mine), hit_rate(theirs)
        print(f"{name}: " + ", ".join(f"{metric.split('.')[0]} {value:+.1%}" for metric, value in off.items()) + "; " +
              ", ".join(f"{metric.split('.')[0]} {ours_pct:.2f}% ({their_pct:.2f}%)" for metric, (ours_pct, their_pct) in shares.items()))
        print(f"{name}: DRAM bytes {traffic:+.2%} ({dram(theirs):.3g}), L2 hits {hits:.1%}, Nsight Compute {their_hits:.1%}; "
              f"{mine['name'][:40]}, {theirs['name'][:40]}")
        results[f"{name} beside Nsight Compute"] = abs(traffic) <= 0.03 and abs(hits - their_hits) <= 0.03 and all(
            abs(value) <= 0.03 for m, value in off.items() if m.startswith("sm__")) and all(
            abs(ours_pct - their_pct) <= max(0.03 * their_pct, 0.1) for ours_pct, their_pct in shares.values())
        if name in known_kernels.TENSOR:
            metric, known = known_kernels.TENSOR[name]
            results[f"{name} by arithmetic"] = abs(mine.get(metric, 0) / known - 1) <= 0.03
        if name in known_kernels.BYTES:
            print(f"{name}: DRAM bytes {dram(mine) / known_kernels.BYTES[name] - 1:+.2%} from arithmetic")
            results[f"{name}: DRAM bytes by arithmetic"] = abs(dram(mine) / known_kernels.BYTES[name] - 1) <= 0.05
    results["all operations"] = len(ours) == len(OPERATIONS)
    places = {row["range"]: row for row in sql(args, run, "select * from range_counters")}
    amounts = [(name, "tensor_ops", known, 0.03) for name, (_, known) in known_kernels.TENSOR.items()]
    for name, amount, known, most in amounts + [(name, "dram_bytes", n, 0.05) for name, n in known_kernels.BYTES.items()]:
        found = float(places.get(name, {}).get(amount) or 0) / ROUNDS
        print(f"range {name}: {amount} {found / known - 1:+.2%} from arithmetic")
        results[f"range {name} by arithmetic"] = abs(found / known - 1) <= most
    return results | tensor(args, folder) | streams(args, folder)


def tensor(args, folder):
    """The set 'tensor', whose metrics are chosen by their names: all operations of each type, by arithmetic."""
    import known_kernels

    run = os.path.join(folder, "tensor.mscope")
    program_of(args.tool, "run", "-q", "--no-auto", "--counters", "tensor", "--launch-count", "100000", "-o", run, "--", sys.executable,
               os.path.join(HERE, "known_kernels.py"), env={"ROUNDS": str(TENSOR_ROUNDS)})
    places, results = {row["range"]: row for row in sql(args, run, "select * from range_counters")}, {}
    for name, (_, known) in known_kernels.TENSOR.items():
        found = float(places.get(name, {}).get("tensor_ops") or 0) / TENSOR_ROUNDS
        print(f"set tensor, {name}: {found / known - 1:+.2%} operations from arithmetic")
        results[f"set tensor: {name} by arithmetic"] = abs(found / known - 1) <= 0.03
    return results


STREAMS = """
import sys
sys.path.insert(0, sys.argv[1])
import known_kernels, torch
pairs = [(torch.randn(n, device="cuda"), torch.empty(n, device="cuda"), torch.cuda.Stream()) for n in (1 << 26, 1 << 27, 1 << 25)]
torch.cuda.synchronize()
for _ in range(60):
    for source, target, stream in pairs:
        with torch.cuda.stream(stream):
            known_kernels.copy_kernel[(source.numel() // 4096,)](source, target, 4096)
torch.cuda.synchronize()
"""


def streams(args, folder):
    """Kernels that would run at the same time: each has its own bytes."""
    run = os.path.join(folder, "streams.mscope")
    program_of(args.tool, "run", "-q", "--no-auto", "--counters", "basic", "--launch-count", "100000", "-o", run, "--", sys.executable,
               "-c", STREAMS, HERE)
    rows = sql(args, run, "select grid_x, value from metrics join counted_launches using (profile) where kernel_name = "
               "'copy_kernel' and name = 'dram__bytes_read.sum'")
    off = [float(row["value"]) / (4 * 4096 * int(row["grid_x"])) - 1 for row in rows]
    print(f"three streams: {len(off)} copies, bytes read {min(off):+.2%} to {max(off):+.2%} from arithmetic")
    return {"kernels of three streams": len(off) == 180 and max(map(abs, off)) <= 0.05}


PRICED = """
import json, sys, time
sys.path.insert(0, sys.argv[1])
import torch, train
step = train.training_step(32, 1024)
for _ in range(int(sys.argv[2])):
    step()
torch.cuda.synchronize()
torch.cuda.cudart().cudaProfilerStart()
begin = time.monotonic_ns()
for _ in range(int(sys.argv[3])):
    step()
torch.cuda.synchronize()
print(json.dumps([begin, time.monotonic_ns()]))
"""


def price(args, folder):
    """What counting the set 'basic' costs in steps of a training, beside Nsight Compute with the same metrics in one."""
    if not os.environ.get("MOESCOPE_TRUST"):
        print("skip price: it wants MOESCOPE_TRUST=1")
        return {}
    program = (sys.executable, "-c", PRICED, os.path.join(ROOT, "bench", "gpu"))
    run, log, launches, steps = os.path.join(folder, "price.mscope"), os.path.join(folder, "price.csv"), 60, 8

    def measured(*command):
        """When the steps began and ended."""
        return json.loads(next(line for line in program_of(*command).stdout.splitlines() if line.startswith("[")))

    def seconds(times):
        return (times[1] - times[0]) / 1e9

    def counted_steps(run, *options):
        """Seconds of a step, and of each kernel how often it was counted in a step, and the seconds of one."""
        times = measured(args.tool, "run", "-q", "--no-auto", "--counters", "basic", "--launch-count", "100000", *options, "-o", run,
                         "--", *program, "1", str(steps))
        kernels = {row["kernel_name"]: (int(row["n"]) / steps, float(row["ns"]) / 1e9) for row in sql(
            args, run, "select m.kernel_name, count(*) n, avg(m.value) ns from metrics m join counted_launches c on c.profile = m.profile "
            f"where m.name = 'gpu__time_duration.sum' and c.time_ns between {times[0]} and {times[1]} group by 1")}
        facts = {row["key"]: row["value"] for row in sql(args, run, "select key, value from facts")}
        print(f"{' '.join(options) or 'all'}, with the step before them: {facts.get('kernels counted')}; {facts.get('time for counting')}")
        return seconds(times) / steps, kernels

    bare = seconds(measured(*program, "3", str(steps))) / steps
    counted, kernels = counted_steps(run)
    chosen, same = counted_steps(os.path.join(folder, "by-name.mscope"), "--kernel", "gemm|nvjet|cutlass")
    metrics = [row["name"] for row in sql(args, run, "select distinct name from metrics")]
    theirs = seconds(measured(*NSIGHT, "--launch-count", str(launches), "--metrics", ",".join(metrics), "--log-file", log, *program, "1", "1"))
    n, kernel_s = sum(n for n, _ in kernels.values()), sum(n * one for n, one in kernels.values())
    ours_ms, theirs_ms = 1000 * (counted - bare) / n, 1000 * (theirs - bare) / launches
    print(f"a step, of {steps}: {bare:.3f} s bare, {counted:.3f} s with {n:.0f} launches counted, whose kernels took {kernel_s:.3f} s: "
          f"{counted / kernel_s:.2f} times that, {ours_ms:.2f} ms more a launch; Nsight Compute {theirs_ms:.1f} ms")
    few = sum(n for n, _ in same.values())
    beside = sum(n * one for n, one in same.values()) / sum(n * kernels.get(name, (0, 0))[1] for name, (n, _) in same.items())
    few_ms = 1000 * (chosen - bare) / few
    print(f"chosen by name: {chosen:.3f} s with {few:.0f} launches, {few_ms:.2f} ms more each; their times {100 * beside - 100:+.2f}%")
    return {"exact basic at most 2.5 times the kernels' time": counted <= 2.5 * kernel_s, "cheaper than Nsight Compute": ours_ms < theirs_ms,
            "chosen by name: all of them": abs(few - sum(n for name, (n, _) in kernels.items() if name in same)) < 1,
            "chosen by name: a tenth of 20 ms each": few_ms < 2, "chosen by name: the same times": abs(beside - 1) < 0.03}


THROUGHPUTS = tuple(f"{unit}__throughput.avg.pct_of_peak_sustained_elapsed" for unit in ("sm", "lts"))


def replay(args, folder):
    if not os.environ.get("MOESCOPE_TRUST"):
        print("skip replay: it wants MOESCOPE_TRUST=1")
        return {}

    def told(run, program, *command, env=None):
        r = subprocess.run([*command, sys.executable, os.path.join(HERE, program)], env=env, capture_output=True, text=True,
                           check=False, timeout=500)
        if r.returncode:
            raise AssertionError(f"{r.returncode} {r.stderr}")
        if run:
            facts = {row["key"]: row["value"] for row in sql(args, run, "select key, value from facts")}
            print(r.stderr.strip(), "|", facts.get("kernels counted"), "|", facts.get("counters of kernels"))
        return r.stdout, facts.get("kernels counted") or "" if run else ""

    def counted(run, *more):
        return (args.tool, "run", "--no-auto", "--counters", ",".join(THROUGHPUTS), "--replay", "kernel", "--launch-count", "100000",
                *more, "-o", run, "--")

    results, run = {}, os.path.join(folder, "in-place.mscope")
    bare = json.loads(told(None, "in_place.py")[0].splitlines()[-1])
    again = json.loads(told(None, "in_place.py")[0].splitlines()[-1])
    out, words = told(run, "in_place.py", *counted(run))
    ours = json.loads(out.splitlines()[-1])
    kinds = {row["replayed"]: int(row["n"]) for row in sql(
        args, run, "select section is not null replayed, count(distinct profile) n from metrics group by 1")}
    print(f"in place: {kinds.get('1', 0)} launches replayed, {kinds.get('0', 0)} counted in one pass; {bare['seconds']:.2f} s bare, "
          f"{ours['seconds']:.2f} s counted")
    # What differs from run to run by itself says nothing.
    for key in ("total", "weighted", "product", "host"):
        if bare[key] == again[key]:
            results[f"replay: the same {key}"] = ours[key] == bare[key]
        else:
            print(f"in place: {key} differs without moescope, too")
    results["replay: the result can be compared"] = bare["total"] == again["total"] and bare["host"] == again["host"]
    results["replay: kernels were replayed"] = kinds.get("1", 0) > 20
    results["replay: memory of the host left alone"] = "that have memory of the host" in words

    run = os.path.join(folder, "replay.mscope")
    begin = time.monotonic()
    os.environ["WARM"] = "1"
    told(run, "known_kernels.py", *counted(run), env=dict(os.environ, ROUNDS=str(ROUNDS)))
    print(f"known kernels: {time.monotonic() - begin:.1f} s in all")
    replayed = {}
    for row in sql(args, run, "select r.name operation, m.kernel_name kernel, m.name, avg(m.value) value from ranges r join counted_launches c "
                   "on c.time_ns between r.start_ns and r.end_ns join metrics m on m.profile = c.profile where m.section is not null "
                   "group by 1, 2, 3"):
        replayed.setdefault((row["operation"], row["kernel"]), {})[row["name"]] = float(row["value"])
    compared = 0
    every = by_moescope(args, run, "m.name = 'gpu__time_duration.sum'")
    for name, ours_once, theirs in beside_nsight(every, by_nsight(args, folder, (*THROUGHPUTS, "gpu__time_duration.sum"))):
        mine = replayed.get((name, ours_once["name"]))
        if not mine:
            print(f"{name} was not replayed")
            continue
        compared += 1
        print(f"{name}: " + ", ".join(f"{metric.split('.')[0]} {mine.get(metric, float('nan')):.1f}% "
                                      f"(Nsight Compute {theirs[metric]:.1f}%)" for metric in THROUGHPUTS))
        results[f"replay: {name} beside Nsight Compute"] = all(
            abs(mine.get(metric, float("inf")) - theirs[metric]) <= 3 for metric in THROUGHPUTS)
    results["replay: known kernels were replayed"] = compared >= 5
    r = subprocess.run([args.tool, "counters", run, "--json", "--limit", "0"], capture_output=True, text=True, check=False)
    doubts = {(row["short_name"], row["doubt"]) for row in json.loads(r.stdout)["rows"] if row["doubt"]}
    for doubt in sorted(doubts):
        print("doubt:", *doubt)
    results["replay: no share beyond 100%"] = not any("100%" in doubt for _, doubt in doubts)
    return results


def pc(args, folder):
    if not os.environ.get("MOESCOPE_TRUST"):
        print("skip pc: it wants MOESCOPE_TRUST=1")
        return {}
    program, run = os.path.join(HERE, "chase.py"), os.path.join(folder, "pc.mscope")

    def told(*command):
        r = subprocess.run([*command, sys.executable, program], capture_output=True, text=True, check=False, timeout=120)
        if r.returncode:
            raise AssertionError(f"{r.returncode} {r.stderr}")
        return json.loads(r.stdout.splitlines()[-1])

    bare, ours = told(), told(args.tool, "run", "-q", "--no-auto", "--counters", "pc", "-o", run, "--")
    facts = {row["key"]: row["value"] for row in sql(args, run, "select key, value from facts")}
    print(facts.get("instructions sampled"), facts.get("samples of instructions"))
    lines = sql(args, run, "select * from line_stalls order by samples desc")
    for row in lines[:12]:
        print({key: row[key] for key in ("short_name", "source", "samples", "kernel_pct", "not_issued", "stall", "stall_pct")})
    reasons = sql(args, run, "select reason, sum(samples) n from pc_samples group by 1 order by 2 desc")
    print({row["reason"]: row["n"] for row in reasons})
    seen = {row["short_name"]: float(row["n"]) for row in sql(
        args, run, "select short_name, sum(samples) n from kernel_stalls group by 1 order by 2 desc")}
    print("samples by kernel:", dict(list(seen.items())[:8]), "seconds by part:", ours["parts"])
    print(f"300 products: {ours['fixed_s'] / bare['fixed_s'] - 1:+.2%} with PC sampling")
    total = int((facts.get("instructions sampled") or "0").split()[0])
    accounted = sum(seen.values()) + sum(float(row["n"]) for row in reasons if row["reason"] in ("dropped", "driver", "unnamed"))
    with open(program, encoding="utf-8") as file:
        line = next(i for i, text in enumerate(file, 1) if "# the line" in text)
    # A sample of each SM every so many cycles: the same for equal times, but for the clock.
    equal_times = [n / ours["parts"][part] for part, names in (("chase", ("chase",)), ("product", ("nvjet", "gemm", "cutlass")))
                   for n in [sum(n for name, n in seen.items() if any(one in name for one in names))]]
    hottest = next((row for row in lines if row["short_name"] == "chase"), None)
    return {"pc: the same result": bare["checksum"] == ours["checksum"],
            "pc: every sample is accounted for": total > 0 and abs(accounted / total - 1) < 0.01,
            "pc: nothing lost for want of room": "full" not in facts.get("instructions sampled", "full"),
            "pc: shares as of times": 0.75 * equal_times[0] < equal_times[1] < 1.33 * equal_times[0],
            "pc: the line": bool(hottest) and hottest["source"] == f"chase.py:{line}",
            "pc: the reason": bool(hottest) and hottest["stall"] == "long_scoreboard"}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", nargs="?", default=os.path.join(ROOT, "build"))
    parser.add_argument("--only", default="timeline,cost,recorder,exact,price,replay,pc")
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--steps", type=int, default=8, help="of a block of 'cost'")
    parser.add_argument("--keep", metavar="FOLDER", help="the runs are written there, and stay")
    parser.add_argument("--phases", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.phases:
        phases(args.phases)
        return
    if not os.path.exists("/dev/nvidia0"):
        print("skip counters_check: no NVIDIA GPU on this machine (/dev/nvidia0 is not there)")
        print("0 passed, 0 failed")
        return
    args.build = os.path.abspath(args.build)
    args.tool = os.path.join(args.build, "moescope")
    results = {}
    with contextlib.nullcontext(args.keep) if args.keep else tempfile.TemporaryDirectory() as folder:
        for part in args.only.split(","):
            try:
                results.update({"timeline": timeline, "cost": cost, "recorder": recorder, "exact": exact, "price": price, "replay": replay,
                                "pc": pc}[part](args, folder))
            except (AssertionError, KeyError, ValueError, subprocess.SubprocessError) as why:
                print(f"FAIL {part}: {why!r}")
                results[part] = False
    for name, good in results.items():
        print("ok" if good else "FAIL", name)
    failed = sum(not good for good in results.values())
    print(f"{len(results) - failed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
