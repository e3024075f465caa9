# SPDX-License-Identifier: Apache-2.0
"""Rows of the GPU benchmark: what is kept, how large it is, what happens at the start and the end.
A row is (measure, lines), as in rows_cost.py."""
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import time

from harness import ROOT, Failed, Skipped, child_of, interval, json_lines, last_json, say, \
    spread
from rows_cost import IN_PROCESS, START_S, TRAIN

sys.path.insert(0, os.path.join(ROOT, "tests", "gpu"))
import compare  # noqa: E402

GRAPH_KERNELS = 30_000_000
ALLOWANCE_BYTES = 128 << 20


def one(bench, name, measured):
    """A row that is measured once per call."""
    bench.row(name)["alternations"] = [measured]
    bench.save()


def measured(bench, name):
    return bench.row(name)["alternations"][0]


def transitions(bench):
    if not bench.knows("doctor", "--stress"):
        raise Skipped("this build's 'doctor' has no --stress")
    bench.need(60)
    done, wall_s = bench.run([bench.moescope, "doctor", "--stress"], 420, check=False)
    one(bench, "transitions", {"status": done.returncode, "wall_s": wall_s,
                               "output": (done.stdout + done.stderr)[-6000:]})


def transitions_lines(bench):
    found = measured(bench, "transitions")
    last = (found["output"].strip().splitlines() or ["no output"])[-1]
    return [("governor shifts under mixed load (doctor --stress)", "2,000, no fault",
             f"status {found['status']} after {found['wall_s']:.0f} s: {last}",
             found["status"] == 0)]


def complete(bench):
    """The same 20 steps by both; the model's set-up subtracted through a run without steps."""
    arguments = ["--batch", "8"]

    def ours(steps, i):
        run = bench.path(f"complete-{steps}-{i}.mscope")
        bench.run([*bench.under(run, "off", "--level", "trace"), *TRAIN, *arguments, "--steps",
                   str(steps)], 150)
        kernels = bench.kernels(run)
        return {"kernels": compare.by_name(kernels), "untimed": kernels["total"]["untimed"],
                "lost": {k: v for k, v in kernels["loss"].items() if v}}

    def theirs():
        path = bench.path("torch-kernels.json")
        bench.run([*TRAIN, *arguments, "--steps", "20", "--profiler", "torch-cuda", "--kernels",
                   path], 200)
        with open(path) as f:
            return {name: (count, us * 1e3) for name, (count, us) in json.load(f).items()
                    if compare.is_kernel(name)}

    bench.need(4 * START_S)
    setup = ours(0, 0)
    rounds = []
    for i in range(1 if bench.quick else 3):
        bench.need(3 * START_S)
        say(f"  complete {i + 1}  ({bench.left():.0f} s left)")
        whole, torch_kernels = ours(20, i), theirs()
        steps = compare.steps_alone(whole["kernels"], setup["kernels"])
        rounds.append({"differences": compare.differences(steps, torch_kernels),
                       "kernels": sum(count for count, _ in torch_kernels.values()),
                       "names": len(torch_kernels), "untimed": whole["untimed"],
                       "lost": whole["lost"],
                       "time_pct": 100 * (compare.total_ns(steps) /
                                          compare.total_ns(torch_kernels) - 1)})
        one(bench, "complete", {"rounds": rounds})


def complete_lines(bench):
    rounds = measured(bench, "complete")["rounds"]
    wrong = [d for r in rounds for d in r["differences"].items()]
    times = [r["time_pct"] for r in rounds]
    words = f"{rounds[0]['kernels']} kernels, {rounds[0]['names']} names; " + \
        (f"{len(wrong)} differ, such as {wrong[0]}" if wrong else "all the same")
    lost = [r["lost"] for r in rounds if r["lost"]]
    return [("the kernels of 20 steps against torch.profiler", "same names and counts",
             words + (f"; lost {lost[0]}" if lost else ""), not wrong),
            ("their total GPU time", "within 0.5%", spread(times),
             abs(statistics.median(times)) <= 0.5)]


def size(bench):
    """Bytes of a complete trace of training, by kind of chunk."""
    bench.need(2 * START_S)
    run = bench.path("size.mscope")
    bench.run([*bench.under(run, "off"), *TRAIN, "--batch", "8", "--steps", "100"], 150)
    kinds, shards, other = {}, 0, 0
    for name in os.listdir(run):
        path = os.path.join(run, name)
        if not name.endswith(".mst"):
            other += os.path.getsize(path)
            continue
        done, _ = bench.run([bench.moescope, "dump", path, "--json"], 60)
        dump = json.loads(done.stdout)
        shards += dump["file_bytes"]
        rows = sorted((r for r in dump["rows"] if not r["salvaged"]), key=lambda r: r["offset"])
        ends = [r["offset"] for r in rows[1:]] + [dump["file_bytes"]]
        for chunk, end in zip(rows, ends):
            kind = kinds.setdefault(chunk["kind"], {"records": 0, "bytes": 0})
            kind["records"] += chunk["records"]
            kind["bytes"] += end - chunk["offset"]
    one(bench, "size", {"kinds": kinds, "shard_bytes": shards, "other_bytes": other,
                        "kernels": bench.kernels(run)["total"]["count"]})


def size_lines(bench):
    found = measured(bench, "size")
    n = found["kernels"]
    kernel = found["kinds"]["kernel"]["bytes"] / n
    whole = (found["shard_bytes"] + found["other_bytes"]) / n
    largest = sorted(found["kinds"].items(), key=lambda item: -item[1]["bytes"])[:5]
    words = ", ".join(f"{kind} {v['bytes'] / n:.2f}" for kind, v in largest)
    return [("file size, kernel records", "≤ 6 bytes a kernel", f"{kernel:.2f} ({n} kernels)",
             kernel <= 6),
            ("file size, everything of the run", "≤ 12 bytes a kernel", f"{whole:.2f}: {words}",
             whole <= 12)]


def graph_30m(bench):
    program = bench.example("decode_graph")
    total = GRAPH_KERNELS // (10 if bench.quick else 1)
    replays = -(-total // 900)
    bench.need(60 if bench.quick else 180)
    bare, _ = bench.run([program, "--seconds", "4"], 60)
    run = bench.path("graph.mscope")
    done, wall_s = bench.run([*bench.under(run, "off"), program, "--replays", str(replays)], 400)
    rows = [r for r in json_lines(done.stdout) if "second" in r]
    kernels = bench.kernels(run, timeout=240)
    bare_rows = [r for r in json_lines(bare.stdout) if "second" in r]
    one(bench, "graph_30m", {
        "launched": last_json(done.stdout)["launched_kernels"],
        "correct": last_json(done.stdout)["correct"], "wall_s": wall_s,
        "recorded": kernels["total"]["count"], "untimed": kernels["total"]["untimed"],
        "lost": {k: v for k, v in kernels["loss"].items() if v},
        "bare_gpu_bytes": max(r["gpu_used_bytes"] for r in bare_rows),
        "gpu_bytes": [r["gpu_used_bytes"] for r in rows],
        "rss_bytes": [r["rss_bytes"] for r in rows],
        "shard_bytes": sum(os.path.getsize(os.path.join(run, f)) for f in os.listdir(run))})


def graph_30m_lines(bench):
    f = measured(bench, "graph_30m")
    dropped = f["lost"].get("dropped_device", 0) + f["lost"].get("dropped_ring_full", 0)
    extra = max(f["gpu_bytes"]) - f["bare_gpu_bytes"]
    rss = f["rss_bytes"]
    early, late = statistics.median(rss[2:7] or rss), statistics.median(rss[-5:])
    return [(f"{f['launched'] / 1e6:.0f} million graph kernels", "all counted",
             f"launched {f['launched']}, recorded {f['recorded']} (untimed {f['untimed']}), "
             f"dropped {dropped}; {f['wall_s']:.0f} s, {f['shard_bytes'] / 1e6:.0f} MB",
             f["recorded"] + dropped == f["launched"] and f["correct"]),
            ("GPU memory of the profiler meanwhile", "≤ 128 MB", f"{extra / 2**20:.0f} MiB at most",
             extra <= ALLOWANCE_BYTES),
            ("host memory meanwhile", "flat",
             f"{early / 2**20:.0f} MiB in the first seconds, {late / 2**20:.0f} MiB in the last, "
             f"{max(rss) / 2**20:.0f} MiB at most", late - early <= max(0.05 * early, 16 << 20))]


def read_progress(path):
    try:
        with open(path, "rb") as f:
            return int.from_bytes(f.read(8), sys.byteorder)
    except OSError:
        return 0


def kill_once(bench, program, run, wait_s):
    """Kills the program at a random moment; what a reader saw just before must still be there."""
    progress = bench.path("progress")
    if os.path.exists(progress):
        os.remove(progress)
    command = [*bench.under(run, "off"), program, "--eager", "--seconds", "60", "--progress",
               progress]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                          errors="replace") as child:
        try:
            limit = time.monotonic() + 30
            while not read_progress(progress):
                if child.poll() is not None or time.monotonic() > limit:
                    raise Failed(f"no kernel ran: {child.communicate(timeout=5)[1][-2000:]}")
                time.sleep(0.005)
            time.sleep(wait_s)  # the random moment, not a wait for something
            before = bench.run([bench.moescope, "kernels", run, "--json", "--limit", "1"], 30,
                               check=False)[0]
            victim = child_of(child.pid)
            if victim is None:
                raise Failed("the program is not there any more")
            done = read_progress(progress)
            os.kill(victim, signal.SIGKILL)
            status = child.wait(timeout=30)
        finally:
            if child.poll() is None:
                child.kill()
    after = bench.run([bench.moescope, "kernels", run, "--json", "--limit", "1"], 60,
                      check=False)[0]
    counts = [json.loads(r.stdout)["total"]["count"] or 0 if r.returncode == 0 else None
              for r in (before, after)]
    return {"wait_s": wait_s, "status": status, "finished_kernels": done, "before": counts[0],
            "after": counts[1], "error": after.stderr[-500:] if after.returncode else ""}


def sigkill(bench):
    program = bench.example("decode_graph")
    rng = random.Random(1)
    kills = []
    for i in range(10 if bench.quick else 50):
        bench.need(15)
        if i % 10 == 0:
            say(f"  sigkill {i}  ({bench.left():.0f} s left)")
        kills.append(kill_once(bench, program, bench.path("kill.mscope"), rng.uniform(0.05, 2.5)))
        one(bench, "sigkill", {"kills": kills})


def sigkill_lines(bench):
    kills = measured(bench, "sigkill")["kills"]
    opened = [k for k in kills if k["after"] is not None]
    kept = [k for k in opened if k["after"] >= (k["before"] or 0)]
    some = [k for k in opened if k["after"]]
    late = [k for k in kills if k["wait_s"] >= 2 and not k["after"]]
    missing = [k["finished_kernels"] - k["after"] for k in some]
    return [(f"SIGKILL at random, {len(kills)} times", "every run opens, delivered records kept",
             f"{len(opened)} open, {len(kept)} hold what a reader saw just before, {len(some)} "
             f"have kernels; not yet delivered at the kill: median "
             f"{statistics.median(missing) if missing else 'unknown'} kernels",
             len(opened) == len(kept) == len(kills) and not late)]


def startup(bench):
    """The first CUDA call of a program, and processes that never make one."""
    program = bench.built("first_call")
    loop = "i=0; while [ $i -lt %d ]; do %s; i=$((i+1)); done"
    cases = {"first_call": ([program], 1),
             "true": (["sh", "-c", loop % (200, "/bin/true")], 200),
             "python": (["sh", "-c", loop % (10, f"{sys.executable} -c pass")], 10)}
    rounds = 4 if bench.quick else 10
    kept = []
    bench.run([program], 60)  # from here on the driver's files are in memory
    for i in range(rounds):
        bench.need(20)
        say(f"  startup {i + 1}/{rounds}  ({bench.left():.0f} s left)")
        pair = {}
        for method in ("bare", "moescope") if i % 2 == 0 else ("moescope", "bare"):
            for case, (command, n) in cases.items():
                words = command if method == "bare" else \
                    [*bench.under(bench.path("start.mscope"), "1%" if
                                  bench.knows("run", "--budget") else "off"), *command]
                if case == "first_call":
                    done, _ = bench.run(words, 60)
                    pair[f"{method} {case}"] = last_json(done.stdout)["total_us"] / 1e3
                else:
                    timed = ["sh", "-c", f'a=$(date +%s%N); {command[2]}; '
                             'b=$(date +%s%N); echo "{\\"ns\\": $((b-a))}"']
                    done, _ = bench.run([*words[:len(words) - len(command)], *timed], 60)
                    pair[f"{method} {case}"] = last_json(done.stdout)["ns"] / 1e6 / n
        kept.append(pair)
        one(bench, "startup", {"rounds": kept})


def startup_lines(bench):
    rounds = measured(bench, "startup")["rounds"]

    def added(case):
        return [r[f"moescope {case}"] - r[f"bare {case}"] for r in rounds]

    bare = {case: statistics.median(r[f"bare {case}"] for r in rounds)
            for case in ("first_call", "true", "python")}
    lines = [("first CUDA call (driver, context, allocation)", "≤ 150 ms added",
              f"bare {bare['first_call']:.0f} ms, {spread(added('first_call'), ' ms', 1)}",
              interval(added("first_call"))[0] <= 150)]
    for case, title in (("true", "/bin/true"), ("python", "python3 -c pass")):
        values = added(case)
        _, low, _, _ = interval(values)
        lines.append((f"process without CUDA, {title}", "nothing added",
                      f"bare {bare[case]:.2f} ms, {spread(values, ' ms', 3)}",
                      low <= 0.02 * bare[case]))
    return lines


def after_stop(bench):
    env = bench.environment("off")
    rounds = []
    for i in range(1 if bench.quick else 3):
        bench.need(START_S + 40)
        say(f"  after_stop {i + 1}  ({bench.left():.0f} s left)")
        done, _ = bench.run([*IN_PROCESS, "stop", "moescope", bench.folder, "--moescope",
                             bench.library, "--steps", "24"], 200, env)
        found = last_json(done.stdout)
        found["kernels"] = bench.kernels(found["runs"][0])["total"]["count"]
        rounds.append(found)
        one(bench, "after_stop", {"rounds": rounds})


def after_stop_lines(bench):
    rounds = measured(bench, "after_stop")["rounds"]
    lines = []
    for key, title, bound in (("step_ms", "training step", 0.5), ("replay_ms", "graph replay", 2)):
        def added(phase):
            return [100 * (statistics.median(r[phase][key]) / statistics.median(r["before"][key]) -
                           1) for r in rounds]
        after = added("after")
        lines.append((f"{title} after stop, against before start", "within noise",
                      f"{spread(after)}; while recording {spread(added('during'))}, "
                      f"{rounds[0]['kernels']} kernels", statistics.median(after) <= bound))
    return lines


ROWS = {
    "transitions": (transitions, transitions_lines),
    "complete": (complete, complete_lines),
    "size": (size, size_lines),
    "graph_30m": (graph_30m, graph_30m_lines),
    "sigkill": (sigkill, sigkill_lines),
    "startup": (startup, startup_lines),
    "after_stop": (after_stop, after_stop_lines),
}
