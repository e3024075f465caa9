# SPDX-License-Identifier: Apache-2.0
"""The scripts of the GPU benchmark, the GPU tests and the examples, as far as no GPU is needed."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

from cli import MOESCOPE, PATIENCE_S, check, environment, equal, main, need, test

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench" / "gpu"), str(ROOT / "tests" / "gpu")]
import budget  # noqa: E402
import compare  # noqa: E402
import harness  # noqa: E402
import rows_cost  # noqa: E402
import rows_keep  # noqa: E402
import soak  # noqa: E402

BUILD = os.path.dirname(MOESCOPE)


def script(*words, **env):
    return subprocess.run([str(w) for w in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=PATIENCE_S, env=environment(**env), check=False)


def bench(**changes):
    settings = {"alternations": 2, "quick": True, "time_limit": 100, **changes}
    return harness.Bench(BUILD, os.path.abspath("results.json"), **settings)


@test
def intervals_by_order_statistics():
    # Coverage of (smallest, largest) is 1 - 2/2^n; of (2nd, 2nd last) 1 - 2(n+1)/2^n.
    equal(harness.interval([5, 1, 3]), (3, 1, 5, 0.75))
    equal(harness.interval([6, 1, 2, 3, 4, 5]), (3.5, 1, 6, 1 - 2 / 64))
    equal(harness.interval(range(1, 9)), (4.5, 1, 8, 1 - 2 / 256))
    equal(harness.interval(range(1, 10)), (5, 2, 8, 1 - 2 * 10 / 512))
    equal(harness.spread([1.0, 2.0, 3.0]), "+2.00% (75%: +1.00 to +3.00, n=3)")
    equal(harness.spread([]), "not measured")


@test
def alternations_change_their_order_and_go_on():
    order = []

    def measure(method, i):
        order.append(f"{method}{i}")
        if method == "b" and i == 1 and len(order) < 5:
            raise harness.OutOfTime()
        return 1

    first = bench()
    try:
        first.alternate("row", ["a", "b"], measure, 1)
        check(False, "the time limit was not seen")
    except harness.OutOfTime:
        first.save()
    equal(order, ["a0", "b0", "b1"])
    order[:] = ["x"] * 5
    bench().alternate("row", ["a", "b"], measure, 1)
    equal(order[5:], ["b1", "a1"], "a later call measures what is missing")
    with open("results.json") as f:
        equal(json.load(f)["rows"]["row"]["alternations"], [{"a": 1, "b": 1}] * 2)


@test
def a_method_that_fails_is_named_and_the_others_go_on():
    def measure(method, _i):
        if method == "bad":
            raise harness.Failed("no such thing")
        return {"ms": 2}

    row = bench().alternate("row", ["good", "bad"], measure, 1)
    equal(row["alternations"], [{"good": {"ms": 2}}] * 2)
    equal(row["errors"], ["bad: no such thing"])


@test
def programs_of_the_benchmark_have_a_limit():
    b = bench()
    try:
        b.run(["sh", "-c", "echo begun; exec sleep 60"], 1)
        check(False, "it came back")
    except harness.Failed as why:
        check("not done after 1 s" in str(why) and "begun" in str(why), why)
    try:
        b.run(["sh", "-c", "echo wrong >&2; exit 3"], 10)
        check(False, "the status was not seen")
    except harness.Failed as why:
        check("status 3" in str(why) and "wrong" in str(why), why)


@test
def costs_of_training():
    b = bench()
    b.row("gpu_bound")["alternations"] = [
        {"bare": {"median_ms": 100.0}, "moescope-1%": {"median_ms": 100.0 + cost},
         "torch-cuda": {"median_ms": 108.0}} for cost in (0.4, 0.5, 0.9)]
    lines = {line[0]: line for line in rows_cost.gpu_bound_lines(b)}
    ours = lines["the same, moescope, budget 1%"]
    check(ours[2].startswith("+0.50% (75%: +0.40 to +0.90, n=3)") and ours[3] is True, ours)
    check(lines["the same, torch.profiler, CUDA"][2].startswith("+8.00%"), lines)
    equal(lines["the same, Triton Proton"][2], "not measured")


@test
def the_micro_benchmark_is_of_means_and_medians():
    def kept(rates, device_mb, kernels):
        return {"rates": rates, "device_bytes": device_mb << 20,
                "sums": {"launches": 0, "replays": 10, "nodes": 100, "wrong": 0, "seconds": 9},
                "run": {"kernels": kernels}}

    b = bench()
    b.row("micro_graph")["alternations"] = [
        {"bare": kept([100.0] * 5, 1, 0), "moescope-1%": kept([100.0] * 4 + [90.0], 15, 25)}] * 6
    first, between, memory = rows_cost.ROWS["micro_graph"][1](b)
    check("+2.04%" in first[2] and first[3] is False and "2.50% of the kernels" in first[2], first)
    check("+0.00%" in between[2] and between[3] is True, between)
    check("14 MiB" in memory[2] and memory[3] is True, memory)


@test
def windows_are_compared_with_the_gaps_after_them():
    def steps(*parts):
        return [{"device_covered": covered, "time_ns": ns} for covered, n, ns in parts
                for _ in range(n)]

    # Of each gap the first step has the detaching, the last the attaching in it.
    one = [(True, 2, 110), (False, 1, 120), (False, 5, 100), (False, 1, 130)]
    found = rows_cost.periods(steps((False, 3, 999), *one, *one, (True, 4, 500)))
    equal([round(cost, 3) for cost in found], [round(100 * (970 / 900 - 1), 3)] * 2)
    equal(rows_cost.periods(steps((True, 5, 100))), [])


@test
def thirty_million_kernels_must_add_up():
    b = bench()
    found = {"launched": 1000, "correct": True, "wall_s": 1, "recorded": 990, "untimed": 5,
             "lost": {"dropped_device": 10}, "bare_gpu_bytes": 1 << 30,
             "gpu_bytes": [(1 << 30) + (200 << 20)], "rss_bytes": [100 << 20] * 9 + [300 << 20] * 9,
             "shard_bytes": 1}
    b.row("graph_30m")["alternations"] = [found]
    equal([line[3] for line in rows_keep.graph_30m_lines(b)], [True, False, False])
    found["lost"] = {}
    found["gpu_bytes"], found["rss_bytes"] = [(1 << 30) + (64 << 20)], [100 << 20] * 9
    equal([line[3] for line in rows_keep.graph_30m_lines(b)], [False, True, True])


@test
def steps_are_compared_without_the_set_up():
    whole = {"gemm": (30, 300), "init": (1, 5), "relu": (20, 40)}
    ours = compare.steps_alone(whole, {"gemm": (10, 100), "init": (1, 5)})
    equal(ours, {"gemm": (20, 200), "relu": (20, 40)})
    equal(compare.differences(ours, {"gemm": (20, 199), "relu": (20, 41)}), {})
    equal(compare.differences(ours, {"gemm": (19, 0), "add": (1, 0)}),
          {"gemm": (20, 19), "relu": (20, 0), "add": (0, 1)})
    equal(compare.total_ns(ours), 240)


@test
def the_benchmark_says_what_it_cannot_do():
    run = ROOT / "bench" / "gpu" / "run.py"
    done = script(sys.executable, run, BUILD, "--only", "nothing")
    equal(done.returncode, 2)
    check("there is no row 'nothing'" in done.stderr and "micro_graph" in done.stderr, done.stderr)
    equal(script(sys.executable, run, BUILD, "--list").stdout.split(), list(rows_cost.ROWS) +
          list(rows_keep.ROWS))
    if not os.path.exists("/dev/nvidia0"):
        done = script(sys.executable, run, BUILD, "--json", "r.json")
        equal(done.returncode, 0)
        check("no NVIDIA GPU" in done.stdout, done)
        done = script(sys.executable, ROOT / "tests" / "gpu" / "check.py", BUILD)
        equal(done.stdout.splitlines()[-1], "0 passed, 0 failed")
        check(done.stdout.startswith("skip gpu: no NVIDIA GPU"), done)


@test
def trials_of_the_soak():
    equal(soak.cells(["jax"], None), [("jax", "bare"), ("jax", "default"), ("jax", "shifts")])
    equal(soak.cells(["jax", "cupy"], ["off"]), [("jax", "off"), ("cupy", "off")])
    every = soak.cells(None, None)
    equal(({program for program, _ in every}, {mode for _, mode in every}),
          (set(soak.programs.PROGRAMS), set(soak.MODES)))
    equal(set(soak.MATRIX), set(soak.programs.NEEDS))
    run = ROOT / "tests" / "gpu" / "soak.py"
    for words, why in ((["--only", "train,none"], "there is no 'none'"),
                       (["--modes", ""], "there is no ''"), (["--kills", "2"], "from 0 to 1")):
        done = script(sys.executable, run, BUILD, *words)
        equal(done.returncode, 2)
        check(why in done.stderr, done.stderr)
    if not os.path.exists("/dev/nvidia0"):
        done = script(sys.executable, run, BUILD)
        equal(done.returncode, 0)
        check(done.stdout.startswith("skip gpu-soak: no NVIDIA GPU"), done)


@test
def one_trial_counts_at_a_time():
    trials = soak.Soak(soak.parse(["build"]), "folder")
    cells = trials.shuffled([("exact", "pc"), ("exact", "counted"), ("exact", "bare")])
    for cell in (next(cells) for _ in range(60)):
        if cell != soak.LATER:
            trials.running.append(soak.Trial(*cell, "out", None))
    modes = [trial.mode for trial in trials.running]
    check(modes.count("bare") > 10 and sum(mode in soak.COUNTING for mode in modes) == 1, modes)
    trials.running.clear()
    equal({next(cells) for _ in range(20)} - {soak.LATER}, {("exact", "pc"), ("exact", "counted"), ("exact", "bare")},
          "nobody counts now")


@test
def ends_of_the_soaks_trials():
    def judge(status, said=None, reference=None, killed=False, hung=False):
        return soak.judge(status, killed, hung, said, reference, "first\nfree(): invalid pointer\n")

    good, last = {"result": [1.5, 2.5]}, "free(): invalid pointer"
    equal(judge(0, good, [1.5, 2.5]), ("ended", ""))
    equal(judge(0, good), ("ended", ""))
    equal(judge(signal.SIGABRT), ("deaths", f"SIGABRT: {last}"))
    equal(judge(signal.SIGSEGV, good), ("deaths", f"SIGSEGV after its last step: {last}"))
    equal(judge(1 << 8), ("deaths", f"status 1: {last}"))
    equal(judge(0), ("deaths", f"status 0: {last}"), "an end without a result")
    equal(judge(signal.SIGKILL, killed=True), ("killed", ""))
    equal(judge(signal.SIGSEGV, killed=True)[0], "deaths")
    equal(judge(signal.SIGKILL)[0], "deaths", "killed, but not by the soak")
    equal(judge(signal.SIGKILL, hung=True), ("hangs", last))
    equal(judge(0, {"wrong": "200 replays counted 199"}), ("wrong", "200 replays counted 199"))
    equal(judge(0, good, [1.5, 2.25]),
          ("wrong", "differs from the bare program: value 1 is 2.5, bare 2.25"))
    equal(judge(0, good, [1.5])[0], "wrong")
    equal(judge(0, {"absent": "no GPU"}, [1]), ("absent", "no GPU"))


def ended(program, mode, end="ended", switches=0, counted=0, unreadable=0, words=""):
    return {"program": program, "mode": mode, "end": end, "switches": switches, "counted": counted,
            "detached": switches // 2, "unreadable": unreadable, "words": words}


@test
def the_soaks_table_and_status():
    good = [ended("train", "bare"), ended("train", "shifts", switches=40),
            ended("train", "shifts", "killed", switches=2), ended("jax", "bare", "absent")]
    equal(soak.table(soak.tally(good)),
          ["program  mode    trials  counted  switches  detached  deaths  wrong  hangs  killed  unreadable",
           "train    bare         1        0         0         0       0      0      0       0           0",
           "train    shifts       2        0        42        21       0      0      0       1           0"])
    equal(soak.detached("detached 3 times; 1.0 MB\ndetached 4 times; 2.0 MB"), 7)
    equal(soak.verdict(good),
          (["switches 42, deaths 0, wrong results 0, hangs 0, unreadable runs 0"], 0))
    for end in ("deaths", "wrong", "hangs"):
        lines, status = soak.verdict([*good, *[ended("exact", "off", end, words="why")] * 2])
        equal((status, lines[0]), (1, "exact off: 2 x why"))
    equal(soak.verdict([*good, ended("exact", "off", unreadable=1)])[1], 1)
    lines, status = soak.verdict([ended("train", "default")])
    equal((status, lines[0]), (1, "no switch was recorded and nothing counted: nothing is shown"))
    equal(soak.verdict([ended("train", "pc", counted=1)])[1], 0)
    equal([soak.counted(said) for said in ("0 launches counted", "500 launches counted; not counted: 3 of graphs",
                                           "12 samples, one every 2^17 cycles", "0 samples", "")], [0, 1, 1, 0, 0])
    equal(soak.verdict([ended("train", "bare")])[1], 0)
    equal(soak.switches({"overhead": {"level_changes": None}}), 0)
    equal(soak.switches({"overhead": {"level_changes": [{}, {}]}}), 2)


def soaked(program, trials, kills=0.0):
    """Ends and switches of trials of a program that need no GPU: the driver is the scripted one."""
    tests = os.path.join(BUILD, "tests")
    driver = os.path.join(tests, "libfake_driver.so")
    need(driver)
    before = dict(os.environ), dict(soak.programs.PROGRAMS)
    os.environ.update(MOESCOPE_CUPTI=os.path.join(tests, "libfake_cupti.so"),
                      MOESCOPE_NVML=os.path.join(tests, "libfake_nvml.so"))
    soak.programs.PROGRAMS["train"] = lambda seconds, tell: (
        soak.ctypes.CDLL(driver).cuInit(0), program(tell))[1]
    os.makedirs("soak")
    try:
        options = soak.parse([BUILD, "--lanes", "2", "--kills", str(kills), "--train-seconds", "0"])
        lanes = soak.Soak(options, os.path.abspath("soak"))
        lanes.go_through([("train", mode) for mode in trials])
    finally:
        os.environ.clear()
        os.environ.update(before[0])
        soak.programs.PROGRAMS.update(before[1])
    equal(os.listdir("soak"), [], "files are left")
    os.rmdir("soak")
    return [(r["end"], r["switches"], r["unreadable"]) for r in lanes.results]


@test
def lanes_of_the_soak():
    def steps(tell):
        for _ in range(8):
            tell()
        return [0.5]

    def other_under_moescope(_tell):
        return ["MOESCOPE_RUN" in os.environ]

    def waits(_tell):
        while True:
            signal.pause()

    ends = soaked(steps, ["bare"]) + soaked(steps, ["default", "off"])
    # Attached, and detached at the end.
    equal(ends, [("ended", 0, 0), ("ended", 2, 0), ("ended", 2, 0)])
    equal([end for end, _, _ in soaked(steps, ["schedule"])], ["ended"])
    equal(soaked(lambda tell: 1 // 0, ["bare"]), [("deaths", 0, 0)])
    equal(soaked(lambda tell: os.abort(), ["bare"]), [("deaths", 0, 0)])
    # With two lanes the third begins when one of the others has ended, and is compared with it.
    equal(sorted(end for end, _, _ in soaked(other_under_moescope, ["bare", "bare", "default"])),
          ["ended", "ended", "wrong"])
    equal(soaked(lambda tell: shutil.rmtree(os.environ["MOESCOPE_RUN"]), ["default"]),
          [("ended", 0, 1)])
    equal(soaked(waits, ["default"], kills=1.0)[0][::2], ("killed", 0), "its run opens")
    limit, soak.HANG_SECONDS = soak.HANG_SECONDS, 0
    try:
        equal(soaked(waits, ["bare"]), [("hangs", 0, 0)])
    finally:
        soak.HANG_SECONDS = limit


@test
def the_table_is_made_of_what_there_is():
    with open("r.json", "w") as f:
        json.dump({"machine": {"gpu": "a GPU"}, "rows": {
            "after_stop": {"alternations": [], "errors": ["first line\nsecond line"]},
            "startup": {"alternations": [], "errors": [], "skipped": "no program"}}}, f)
    done = script(sys.executable, ROOT / "bench" / "gpu" / "run.py", BUILD, "--json", "r.json",
                  "--table")
    equal(done.returncode, 0, done)
    check("| startup | | not measured: no program | |" in done.stdout, done.stdout)
    check("| after_stop |  | no result:" in done.stdout and "trouble: first line" in done.stdout,
          done.stdout)


@test
def examples_without_a_compiler():
    # PATH with the shell's own tools and nothing of CUDA.
    os.mkdir("bin")
    for tool in ("sh", "dirname", "mkdir", "cat"):
        os.symlink(f"/bin/{tool}" if os.path.exists(f"/bin/{tool}") else f"/usr/bin/{tool}",
                   f"bin/{tool}")
    done = script("/bin/sh", ROOT / "examples" / "cuda" / "build.sh", os.path.abspath("out"),
                  PATH=os.path.abspath("bin"), CUDA_HOME="/nowhere", NVCC=None)
    equal(done.returncode, 1, done)
    check("there is no CUDA compiler" in done.stderr and "NVCC=" in done.stderr, done)
    done = script("/bin/sh", ROOT / "examples" / "cuda" / "build.sh", os.path.abspath("out"),
                  "none")
    equal(done.returncode, 2, done)


def budget_rounds(*rounds):
    """Mean steps in ms by method; profiled ones have a run that covers as many percent."""
    return [{method: {"mean_ms": ms, "start_s": 5 + ms / 1000,
                      "run": {"overhead": {"coverage_pct": ms - 100, "windows": 3,
                                           "device_estimate_pct": None}}}
             for method, ms in kept.items()} for kept in rounds]


@test
def the_budget_is_of_mean_steps_in_pairs():
    b = bench()
    b.row("launch-10s")["alternations"] = budget_rounds(
        {"bare": 100.0, "budget": 101.0}, {"bare": 200.0, "budget": 203.0},
        {"bare": 100.0, "budget": 101.1}, {"bare": 100.0})
    what, asked, words, met = budget.budget_line(b, "launch-10s", "launch")
    check("launch-bound training" in what and asked == "≤ +1.2%" and met is True, what, asked, met)
    check(words.startswith("+1.10% (75%: +1.00 to +1.50, n=3); bare 100.00 ms a step"), words)
    check("coverage 1.1%, windows 3, cost by the governor's estimate unknown" in words, words)
    equal(budget.budget_line(b, "launch-10s", "gpu")[3], False)
    equal(budget.budget_line(b, "launch-10s", "eager")[3], None)
    equal(budget.budget_line(b, "graph-10s", "graph")[2:], ("not measured", None))


@test
def a_complete_trace_is_compared_by_what_it_adds():
    b = bench()
    b.row("complete-10s")["alternations"] = rounds = budget_rounds(
        {"bare": 100.0, "client": 110.0, "off": 110.5}, {"bare": 100.0, "client": 108.0},
        {"bare": 100.0, "client": 99.0, "off": 110.0}, {"bare": 100.0, "client": 110.0, "off": 111})
    equal(budget.times_the_client(rounds), [1.05, None, 1.1])
    _, asked, words, met = budget.complete_line(b, "complete-10s")
    check(asked == "≤ 1.06 ×" and met is False and words.startswith("+1.08 × (50%"), asked, words)
    check("left out: 1 rounds" in words and "; client +9.00% (" in words, words)


@test
def measured_processes_are_forked_with_their_variables():
    b = bench()
    os.environ["MOESCOPE_LEVEL"] = "full"
    try:
        found = budget.forked(b, {"MOESCOPE_BUDGET": "1"}, lambda: [
            os.environ.get(name) for name in ("MOESCOPE_LEVEL", "MOESCOPE_BUDGET")], 60)
        check("MOESCOPE_BUDGET" not in os.environ, "the child's variables are its own")
    finally:
        del os.environ["MOESCOPE_LEVEL"]
    equal(found, [None, "1"])
    for work, timeout, said in ((lambda: [][0], 60, "IndexError"),
                                (lambda: os.kill(os.getpid(), 9), 60, "status -9"),
                                (signal.pause, 1, "not done after 1 s")):
        try:
            budget.forked(b, {}, work, timeout)
            check(False, "it came back")
        except harness.Failed as why:
            check(said in str(why), why)


@test
def the_budget_says_what_it_cannot_do():
    program = ROOT / "bench" / "gpu" / "budget.py"
    done = script(sys.executable, program, "--build", BUILD, "--only", "gpu,none")
    equal(done.returncode, 2)
    check("there is no workload 'none'" in done.stderr, done.stderr)
    if not os.path.exists("/dev/nvidia0"):
        done = script(sys.executable, program, "--build", BUILD, "--json", "b.json")
        equal((done.returncode, done.stderr), (0, ""))
        check("no NVIDIA GPU" in done.stdout, done)


@test
def frees_are_watched():
    """A library that calls itself CUPTI uses what it has freed, and writes beyond an end."""
    watcher = os.path.join(BUILD, soak.WATCHER)
    need(watcher)  # on x86-64, without sanitizers
    pathlib.Path("bugs.c").write_text(
        "#include <stdlib.h>\n"
        "void late(void) { volatile int *p = malloc(100); free((void *)p); *p = 7; }\n"
        "void beyond(void) { volatile char *p = malloc(96); p[97] = 3; free((void *)p); }\n")
    built = script("gcc", "-w", "-shared", "-fPIC", "-fno-omit-frame-pointer", "-o",
                   os.path.abspath("libcupti.so.99"), "bugs.c")
    equal(built.returncode, 0, built.stderr)
    found = script(sys.executable, "-c",
                   "import ctypes; bugs = ctypes.CDLL('./libcupti.so.99')\n"
                   "assert ctypes.CDLL(None).watch_frees() == 0\n"
                   "bugs.late(); bugs.beyond(); print('goes on')",
                   LD_PRELOAD=watcher, WATCH_FREES=os.path.abspath("uses"))
    equal(found.stdout, "goes on\n", found.stderr)
    uses = pathlib.Path("uses").read_text()
    equal(soak.uses_after_free("uses"), 2)
    check("writes byte 0 of 100" in uses and "writes byte 97 of 96" in uses, uses)
    check("freed by libcupti.so.99+" in uses, uses)


@test
def damage_of_the_heap_is_told():
    """One word between two chunks is overwritten; the next call of malloc finds out."""
    reporter = os.path.join(BUILD, soak.HEAP_REPORT)
    need(reporter)  # on x86-64, without sanitizers
    pathlib.Path("bug.c").write_text(
        "#include <stdlib.h>\n"
        "int main(void) { long *a[40]; for (int i = 0; i < 40; i++) a[i] = malloc(3000);\n"
        "for (int i = 0; i < 40; i += 2) free(a[i]);\n"
        "a[21][-2] = 0x30000002602; for (int i = 0; i < 40; i++) a[i] = malloc(2000 + i); }\n")
    equal(script("gcc", "-w", "-O0", "-o", os.path.abspath("bug"), "bug.c").returncode, 0)
    died = script(os.path.abspath("bug"), LD_PRELOAD=reporter)
    equal(died.returncode, -signal.SIGABRT, died.stderr)
    check("heap: " in died.stderr and "+0:30000002602" in died.stderr, died.stderr)


if __name__ == "__main__":
    main()
