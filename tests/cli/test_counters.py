# SPDX-License-Identifier: Apache-2.0
"""Hardware counters over time: a scripted driver and CUPTI (tests/fake/fake_counters.c), and the metrics of real chips."""

import csv
import io
import json
import os
import pathlib
import subprocess
import sys

from cli import MOESCOPE, TINY, TINYMOE, Skip, check, environment, equal, main, moescope, one_sentence, test

BUILD = os.path.dirname(MOESCOPE)
FAKE = os.path.join(BUILD, "tests", "libfake_counters.so")
PROGRAM = os.path.join(BUILD, "moescope-counters")
AHEAD_NS = 5_000_000_000  # as in the fake
TENTH_NS = 100_000_000
MS = 1_000_000


def needs_build():
    if not os.path.exists(PROGRAM):
        raise Skip("built without the CUDA headers")


def fakes(**changes):
    needs_build()
    return environment(MOESCOPE_CUPTI=FAKE, MOESCOPE_CUDA=FAKE, **changes)


def rows(*arguments):
    r = moescope(*arguments, "--csv")
    equal(r.status, 0, r.err)
    return list(csv.DictReader(io.StringIO(r.out)))


def samples(run, counter):
    return [(int(row["time_ns"]), float(row["value"])) for row in rows(
        "sql", run, f"select time_ns, value from samples where metric = '{counter}' order by 1")]


@test
def all_of_a_run():
    """Every millisecond has its sample, at the host's time, with the value that the device had then."""
    r = moescope("run", "-q", "--counters", "timeline", "-o", "a.mscope", "--", "sleep", "1", env=fakes())
    equal((r.status, r.err), (0, r.err if "nothing was recorded but" in r.err else ""))
    active = samples("a.mscope", "sm_active_pct")
    times = [t for t, _ in active]
    check(len(active) >= 900, len(active))
    error_ms = float(fact("a.mscope", "counters over time").split("within ")[1].split(" ms")[0])
    gaps = [b - a for a, b in zip(times, times[1:]) if abs(b - a - MS) > error_ms * MS + 1000]
    check(not gaps, f"samples are missing: {gaps[:10]} ns from one to the next, {error_ms} ms")
    wrong = [t for t, value in active
             if near_no_edge(t, error_ms * MS + MS) and value != (80 if odd_tenth(t - MS // 2) else 0)]
    check(not wrong, f"{len(wrong)} of {len(active)} at another time than the device's, {error_ms} ms")
    (row,) = [row for row in rows("hardware", "a.mscope") if row["counter"] == "sm_active_pct"]
    equal(int(row["samples"]), len(active))
    check(abs(float(row["mean"]) - sum(v for _, v in active) / len(active)) < 1e-6, row)
    equal((float(row["min"]), float(row["max"])), (0, 80))


def odd_tenth(time_ns):
    return (time_ns + AHEAD_NS) // TENTH_NS % 2 == 1


def near_no_edge(time_ns, distance_ns):
    at = (time_ns + AHEAD_NS) % TENTH_NS
    return distance_ns < at < TENTH_NS - distance_ns


def fact(run, key):
    return rows("sql", run, f"select value from facts where key = '{key}'")[0]["value"]


@test
def those_of_nvml():
    """Readings of a run on an H200, without --counters, against a recount."""
    run = str(pathlib.Path(__file__).parents[1] / "data" / "h200-windows")
    shown = rows("hardware", run)
    equal({row["source"] for row in shown}, {"nvml"})
    for row in shown:
        values = [value for _, value in samples(run, row["counter"])]
        equal(int(row["samples"]), len(values), row)
        check(abs(float(row["mean"]) - sum(values) / len(values)) <= 1e-6 * max(values), row)


@test
def what_the_chip_lacks_is_not_there():
    """No value, no row: a counter that does not fit into the pass, and one that the device does not count."""
    moescope("run", "-q", "--counters", "timeline", "-o", "a.mscope", "--", "sleep", "0.2", env=fakes())
    equal({row["counter"] for row in rows("hardware", "a.mscope")}, {"sm_active_pct", "dram_read_pct"})


@test
def by_step():
    r = moescope("run", "-q", "--counters", "timeline", "-o", "a.mscope", "--", TINYMOE, *TINY, "--steps", "40",
                 env=fakes())
    equal(r.status, 0, r.err)
    steps = {int(row["step"]): (int(row["start_ns"]), int(row["duration_ns"]))
             for row in rows("sql", "a.mscope", "select step, start_ns, duration_ns from steps")}
    active = samples("a.mscope", "sm_active_pct")
    seen = [row for row in rows("hardware", "a.mscope", "--by-step")
            if row["counter"] == "sm_active_pct" and row["step"]]
    check(seen, "no step has a sample")
    outside = [row for row in rows("hardware", "a.mscope", "--by-step") if row["counter"] == "sm_active_pct" and not row["step"]]
    equal([int(row["samples"]) for row in outside],
          [sum(not any(start <= t < start + duration for start, duration in steps.values()) for t, _ in active)])
    for row in seen:
        start, duration = steps[int(float(row["step"]))]
        equal(int(row["samples"]), sum(start <= t < start + duration for t, _ in active))
    first = int(float(seen[0]["step"]))
    one = [row for row in rows("hardware", "a.mscope", "--steps", f"{first}:{first}")
           if row["counter"] == "sm_active_pct"]
    equal(one[0]["samples"], seen[0]["samples"])


# Sets a mark; prints when that was, and when something was kept.
MARKED = """
import glob, os, subprocess, sys, time
end = time.monotonic() + 0.5
while time.monotonic() < end:
    time.sleep(0.01)
(shard,) = glob.glob("b.mscope/counters-*")
size = os.path.getsize(shard)
print(time.monotonic_ns())
subprocess.run([sys.argv[1], "mark", "b.mscope", "slow"], check=True)
while os.path.getsize(shard) == size:
    time.sleep(0.01)
print(time.monotonic_ns())
end = time.monotonic() + 0.5
while time.monotonic() < end:
    time.sleep(0.01)
"""


@test
def the_last_seconds_before_a_mark():
    """A recorder writes nothing by itself; a mark keeps what came before it, and nothing that came after."""
    moescope("run", "-q", "--counters", "recorder", "-o", "a.mscope", "--", "sleep", "0.3", env=fakes())
    equal(rows("hardware", "a.mscope"), [])
    check("no sample was kept" in fact("a.mscope", "counters over time"), "an error of times that nobody knows")
    shown = " ".join(moescope("hardware", "a.mscope").out.split())
    check("no sample was kept: no step was slow, and nobody asked" in shown, shown)
    r = moescope("run", "-q", "--counters", "recorder", "-o", "b.mscope", "--", sys.executable, "-c", MARKED, MOESCOPE,
                 env=fakes())
    equal(r.status, 0, r.err)
    before, after = map(int, r.out.split())
    times = [t for t, _ in samples("b.mscope", "sm_active_pct")]
    check(len(times) >= 400, len(times))
    check(times[0] < before - 400 * MS and times[-1] < after, (times[0] - before, times[-1] - after))


SLOW = """
import ctypes, sys, time
library = ctypes.CDLL(sys.argv[1])
library.moescope_step.argtypes = [ctypes.c_uint64]
for step in range(60):
    end = time.monotonic() + (0.5 if step == 45 else 0.02)
    while time.monotonic() < end:
        time.sleep(0.001)
    library.moescope_step(1)
    if step == 45:
        print(time.monotonic_ns(), flush=True)
time.sleep(0.5)
"""


@test
def the_last_seconds_before_a_slow_step():
    """Soon after it has ended they are in the file; a mark says which step it was."""
    library = os.path.join(BUILD, "libmoescope.so")
    env = fakes()
    with subprocess.Popen([MOESCOPE, "run", "-q", "--counters", "recorder", "-o", "a.mscope", "--", sys.executable,
                           "-c", SLOW, library], env=env, stdout=subprocess.PIPE, text=True) as process:
        process.communicate(timeout=600)
    equal(process.returncode, 0)
    slow = [row for row in rows("sql", "a.mscope", "select time_ns, text from marks order by 1")
            if "instead of" in row["text"]]
    steps = {int(row["step"]): (int(row["start_ns"]), int(row["duration_ns"]))
             for row in rows("sql", "a.mscope", "select step, start_ns, duration_ns from steps")}
    # Not among the first, which nothing is known of; on a busy machine others may be slow, too.
    longest = max((step for step in steps if step > 20), key=lambda step: steps[step][1])
    end = sum(steps[longest])
    check(any(int(row["time_ns"]) >= end for row in slow), (slow, end))
    times = [t for t, _ in samples("a.mscope", "sm_active_pct")]
    check(times[0] < steps[longest][0] and times[-1] >= end - 60 * MS, (times[0], times[-1], steps[longest]))


@test
def the_program_is_not_touched():
    """Its output, status and environment are those without; signals to its group reach it alone."""
    program = [sys.executable, "-c", "import os, signal, sys; print(os.getpgrp() == os.getppid() or 'group'); "
               "os.write(2, b'err'); signal.signal(signal.SIGTERM, lambda *_: os._exit(7)); "
               "os.killpg(os.getpgrp(), signal.SIGTERM); signal.pause()"]
    r = subprocess.run([MOESCOPE, "run", "-q", "--counters", "timeline", "-o", "a.mscope", "--", *program],
                       env=fakes(), capture_output=True, text=True, check=False, timeout=600,
                       start_new_session=True)
    equal(r.returncode, 7, r.stderr)
    check("err" in r.stderr, r.stderr)
    check(samples("a.mscope", "sm_active_pct"), "nothing was sampled")


@test
def trouble_is_told_before_the_program_runs():
    for trouble, words in (("denied", "only administrators may read counters"),
                           ("held", "another profiler may hold the counters")):
        r = moescope("run", "-q", "-f", "--counters", "timeline", "-o", "a.mscope", "--", "sh", "-c", "echo runs >&2; exit 3",
                     env=fakes(MOESCOPE_FAKE_COUNTERS=trouble))
        equal(r.status, 3)
        first, *rest = r.err.splitlines()
        check(first.startswith("moescope: '--counters' is left out: ") and words in first, r.err)
        check("runs" in rest, r.err)
    r = moescope("run", "-q", "-f", "--counters", "timeline", "-o", "a.mscope", "--", "sh", "-c", "exit 4",
                 env=environment(MOESCOPE_CUPTI="/nonexistent", MOESCOPE_CUDA=FAKE))
    equal(r.status, 4)
    check("left out" in r.err, r.err)


@test
def losses_are_told():
    moescope("run", "-q", "--counters", "timeline", "-o", "a.mscope", "--", "sleep", "1.5",
             env=fakes(MOESCOPE_FAKE_COUNTERS="full"))
    check("no room" in fact("a.mscope", "counters lost"), "")
    check("counters lost" in moescope("hardware", "a.mscope").out, "")


@test
def a_dead_reader_harms_nobody():
    program = "sleep 0.2; pkill -9 -f '[m]oescope-counters sample .*/dead.mscope'; sleep 0.2; exit 5"
    r = moescope("run", "-q", "--counters", "timeline", "-o", "dead.mscope", "--", "sh", "-c", program, env=fakes())
    equal(r.status, 5, r.err)


@test
def wrong_words():
    needs_build()
    one_sentence(moescope("run", "--counters", "timeline", "--counters-interval", "1ns", "--", "true"), 2, "10us")
    one_sentence(moescope("run", "--counters-interval", "1ms", "--", "true"), 2, "--counters")


@test
def known_kernels():
    """Nsight Compute on an H200, of tests/gpu/known_kernels.py: what bounds them, and figures that arithmetic knows."""
    path = pathlib.Path(__file__).parent.parent / "data/ncu-h200/known-kernels.csv"
    found = {row["short_name"]: row for row in rows("counters", str(path), "--by", "kernel")}
    bound = {name: row["bound_by"] for name, row in found.items()}
    for name, word in (("at::reduce_kernel", "memory"), ("at::CUDAFunctorOnSelf_add", "memory"),
                       ("at::vectorized_gather_kernel", "memory"), ("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT", "tensor"),
                       ("nvjet_sm90_qqtst_128x128_128x6_2x1_v_bz_coopA_algo2_TNT", "tensor"), ("softmax_warp_forward", "")):
        equal(bound[name], word, name)
    check(abs(float(found["at::reduce_kernel"]["dram_read_bytes"]) / 2**28 - 1) < 0.01, "the sum of 2^26 floats")
    fp8 = found["nvjet_sm90_qqtst_128x128_128x6_2x1_v_bz_coopA_algo2_TNT"]
    equal(float(fp8["tensor_ops"]), 2.0 * 4096**3)
    check(abs(float(fp8["tensor_ops_per_s"]) - 2 * 4096**3 / 102016e-9) < 1e9, fp8)


def groups_of(words, chip, cupti):
    """How many passes these metrics take; each of a group fits into one."""
    r = subprocess.run([PROGRAM, "plan", words, chip], env=environment(MOESCOPE_CUPTI=cupti), capture_output=True, text=True,
                       check=False, timeout=600)
    groups = [line.removeprefix("group ") for line in r.stdout.splitlines() if line.startswith("group ")]
    equal(r.returncode, 0, r.stdout)
    for group in groups if words == "full" else ():
        if groups_of(group, chip, cupti) != 1:
            raise AssertionError(f"{chip}: {group}")
    return len(groups)


NSIGHT = ('"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC",'
          '"Section Name","Metric Name","Metric Unit","Metric Value"\n')
PARTS = "sm__ops_path_tensor_"


def by_kernel(*metrics):
    """The row of a kernel with these metrics, as Nsight Compute would have counted them."""
    lines = [f'"0","1","p","h","k","1","7","(32,32,1)","(64,64,1)","0","12.0","s","{name}","{unit}","{value}"\n'
             for name, unit, value in (("gpu__time_duration.sum", "ns", "1,000"), *metrics)]
    pathlib.Path("ncu.csv").write_text(NSIGHT + "".join(lines), encoding="utf-8")
    r = moescope("counters", "ncu.csv", "--by", "kernel", "--json")
    equal(r.status, 0, r.err)
    return json.loads(r.out)["rows"][0]


@test
def names_of_other_chips():
    """GB20x has other names for bytes of DRAM; and what nobody counted is not zero."""
    row = by_kernel(("dram__bytes_op_read.sum", "Kbyte", "4"), ("dram__bytes_op_write.sum", "byte", "1,000"))
    equal((row["dram_read_bytes"], row["dram_write_bytes"], row["dram_bytes"], row["dram_bytes_per_s"]), (4000, 1000, 5000, 5e9))
    worked = ("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed", "%", "70")
    row = by_kernel(worked, (PARTS + "src_bf16_dst_fp32.sum", "", "0"))
    equal((row["tensor_ops"], row["tensor_ops_per_s"], row["ops_per_byte"]), (None, None, None))
    check("worked, but on no type that was counted" in row["tensor_ops_reason"], row)
    row = by_kernel((PARTS + "src_bf16_dst_fp32.sum", "", "0"))
    check(row["tensor_ops"] is None and "was not counted" in row["tensor_ops_reason"], row)
    row = by_kernel((worked[0], "%", "0.9"), (PARTS + "src_bf16_dst_fp32.sum", "", "0"))
    equal(row["tensor_ops"], 0)
    # By sparsity, which is a part of neither; and the rate of fp8 for what reads it beside smaller ones.
    row = by_kernel(worked, *((PARTS + f"op_utcqmma_src_fp4_fp6_fp8_dst_fp32_sparsity_{way}.sum", "", n) for way, n in (("off", 9), ("on", 3))))
    equal((row["tensor_ops"], row["tensor_type"]), (12, "fp8"))


def tensor_metrics(chip, cupti):
    """What the set has of the tensor cores' operations; each needs one pass."""
    r = subprocess.run([PROGRAM, "plan", "tensor", chip], env=environment(MOESCOPE_CUPTI=cupti), capture_output=True, text=True,
                       check=False, timeout=600)
    equal((r.returncode, "left out" in r.stdout), (0, False), r.stdout)
    return {name[len(PARTS):-len(".sum")] for line in r.stdout.splitlines() if line.startswith("group ")
            for name in line[len("group "):].split(",") if name.startswith(PARTS)}


# All that each chip's tensor cores read, once: by NVIDIA's names, where one pass cannot count all of them in parts.
TENSOR = {
    "GH100": "src_bf16_dst_fp32 op_hgmma_src_fp16 op_hmma_src_fp16_dst_fp16 op_hmma_src_fp16_dst_fp32 src_tf32_dst_fp32 src_fp8 "
             "op_igmma_src_int8 op_imma_src_int8_sparsity_off op_imma_src_int8_sparsity_on src_fp64",
    "GB100": "src_bf16_dst_fp32 src_fp16_dst_fp32 op_hmma_src_fp16_dst_fp16 op_utchmma_src_fp16_dst_fp16_sparsity_off "
             "op_utchmma_src_fp16_dst_fp16_sparsity_on op_hmma_src_tf32_dst_fp32 op_utchmma_src_tf32_dst_fp32_sparsity_off "
             "op_utchmma_src_tf32_dst_fp32_sparsity_on src_fp4_fp6_fp8_dst_fp16 op_utcqmma_src_fp4_fp6_fp8_dst_fp32_sparsity_off "
             "op_utcqmma_src_fp4_fp6_fp8_dst_fp32_sparsity_on src_fp4_dst_fp32 op_imma_src_int8 op_utcimma_src_int8_sparsity_off "
             "op_utcimma_src_int8_sparsity_on src_fp64",
    "GA100": "src_bf16_dst_fp32 src_fp16_dst_fp16 src_fp16_dst_fp32 src_tf32_dst_fp32 src_int8_sparsity_off src_int8_sparsity_on src_fp64",
    "AD102": "src_bf16_dst_fp32 src_fp16_dst_fp16 src_fp16_dst_fp32 src_tf32_dst_fp32 src_fp8 src_int8_sparsity_off "
             "src_int8_sparsity_on src_fp64",
    "GB202": "src_bf16_dst_fp32 src_fp16_dst_fp16 src_fp16_dst_fp32 src_tf32_dst_fp32 src_fp8_dst_fp16 src_fp8_dst_fp32 "
             "src_fp4_fp6_dst_fp16 src_fp4_fp6_dst_fp32 src_fp4_dst_fp32 src_int8 src_fp64",
}


@test
def real_chips():
    """With a real libcupti, which needs no GPU for it: what each chip can count over time fits into one pass."""
    needs_build()
    found = sorted(pathlib.Path(os.environ.get("MOESCOPE_CACHE") or pathlib.Path.home() / ".cache/moescope")
                   .glob("cuda-*/nvidia/cu13/lib/libcupti.so.1[0-9]"))
    if not found:
        raise Skip("no libcupti in the cache: tools/cuda_headers.sh --fetch")
    for chip, least in (("GH100", 16), ("GB100", 14), ("GA100", 8), ("AD102", 8), ("GB202", 8)):
        r = subprocess.run([PROGRAM, "chip", chip], env=environment(MOESCOPE_CUPTI=found[-1]),
                           capture_output=True, text=True, check=False, timeout=600)
        equal(r.returncode, 0, r.stdout + r.stderr)
        lines = [line.split() for line in r.stdout.splitlines()]
        timed = {line[2] for line in lines if line[0] == "over"}
        check(len(timed) >= least and {"sm_active_pct", "tensor_active_pct", "dram_read_pct"} <= timed, (chip, timed))
        passes = {line[1]: int(line[-1]) for line in lines if line[0] == "set"}
        equal(passes["basic"], 1, chip)
        check(passes["full"] >= max(passes[s] for s in ("memory", "compute", "tensor", "stalls")), passes)
        check(len(timed) == len([line for line in lines if line[0] == "over"]), "a name twice")
        equal("l2_hit_pct" in timed, chip == "GH100", "compared with Nsight Compute on that chip alone")
        check(groups_of("basic", chip, found[-1]) == 1 < groups_of("full", chip, found[-1]), chip)
        equal(tensor_metrics(chip, found[-1]), set(TENSOR[chip].split()), chip)
        equal([line for line in lines if line[:2] == ["set", "basic"]], ["set basic metrics 10 of 10 passes 1".split()], chip)
    r = subprocess.run([PROGRAM, "chip", "XX100"], env=environment(MOESCOPE_CUPTI=found[-1]),
                       capture_output=True, text=True, check=False, timeout=600)
    equal((r.returncode, r.stdout.count("\n")), (1, 1), r.stdout)


if __name__ == "__main__":
    main()
