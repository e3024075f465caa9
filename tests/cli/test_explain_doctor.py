# SPDX-License-Identifier: Apache-2.0
"""explain and doctor."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from cli import (MOESCOPE, PATIENCE_S, check, environment, equal, main, moescope, need,
                 one_sentence, record, test)

LIBRARY = os.path.join(os.path.dirname(MOESCOPE), "libmoescope.so")
NVML, CUPTI = (os.path.join(os.path.dirname(MOESCOPE), "tests", f"libfake_{name}.so")
               for name in ("nvml", "cupti"))

# Every metric that the project defines; explain must know each.
METRICS = """load utilization_pct imbalance balancedness max_violation cv gini entropy_norm dead
starved overloaded cv_floor imbalance_floor cv_excess k router_confidence router_confidence_k
router_entropy top1_prob topk_mass margin drop_rate pad_waste tile_waste coactivation affinity repeat_rate hot_persistence
unique_experts expert_bytes_touched flops_router flops_expert self_check load_balance_score
routing_efficiency kernel_time kernel_class gpu_busy gpu_idle launch_latency launch_overhead overlap_pct
self_time total_time theoretical_occupancy achieved_occupancy sm_pct tensor_pct dram_pct l2_hit_pct
warp_efficiency dram_bandwidth copy_bandwidth mfu step_time phase_share_pct tokens_per_s ttft tpot
itl allocated_bytes reserved_bytes peak_allocated_bytes device_used_bytes cache_slack
fragmentation_pct leak_suspect expert_memory overhead_pct loss coverage_pct steps_covered staged
device_account_pct device_estimate_pct copy_limit peak_flops_per_s flops_per_byte roof_pct
covered_pct prefill decode headroom_bytes outside_allocator oom_steps live_at_peak
sm_active_pct sm_occupancy_pct tensor_active_pct comm_time compute_time comm_overlap
exposed_comm collective_bytes algorithm_bandwidth bus_bandwidth skew wait late_rank
launch_metric moe_part moe_layer moe_notify moe_beside moe_cost inference_time tokens_per_second
estimated_bytes measured_to_estimated throughput_per_gpu request_latency peak_memory token_cost
scaling_efficiency scaling_exponent pareto""".split()


@test
def explain_knows_every_metric():
    listed = moescope("explain").out
    rows = {row["name"]: row for row in json.loads(moescope("explain", "--json").out)["rows"]}
    for name in METRICS:
        check(f"\n  {name} " in listed, name)
        row = rows[name]
        for key in ("group", "unit", "definition", "source"):
            check(row[key], name, key)
        r = moescope("explain", name)
        equal(r.status, 0, r)
        check(r.out.startswith(name + "\n") and "definition" in r.out, r)
        equal(json.loads(moescope("explain", name, "--json").out)["rows"], [row])


# Keys of rows that say what a row is about, not how much of something there is.
IDENTITIES = set("""name kind count shapes step rank start_ns tokens recorded probe layer phase steps
experts legacy device series timestamp memory_mb expert""".split())


@test
def explain_knows_every_key_of_the_tables():
    record()
    for table in (["ops"], ["steps"], ["routing"], ["routing", "--layer", "0"], ["memory"],
                  ["efficiency"], ["routing", "--columns", "steps"], ["routing", "--columns", "experts"]):
        row = json.loads(moescope(*table, "a.mscope", "--json").out)["rows"][0]
        for key in row:
            if key not in IDENTITIES and not key.endswith("_reason"):
                equal(moescope("explain", key).status, 0, table, key)


@test
def explain_knows_keys_by_their_table():
    r = moescope("explain", "kernels.time_ns")
    equal(r.status, 0, r)
    for words in ("kernels.time_ns\n", "unit        ns\n", "in JSON     integer or null\n",
                  "column      time\n", "metric      kernel_time\n", "definition  end - start"):
        check(words in r.out, words, r)
    # The same key elsewhere means something else.
    check("metric" not in moescope("explain", "api.time_ns").out)
    check("metric      step_time" in moescope("explain", "step_times.mean_ns").out)
    # The words of a metric that is the key stand once.
    out = moescope("explain", "routing.cv").out
    check("meaning" not in out and "definition  population" in out and "symbols" in out, out)
    # Names that are made when they are read.
    check("nothing queued" in moescope("explain", "idle_by_cause.host_ns").out)


@test
def explain_lists_keys():
    out = moescope("explain", "steps").out
    check(out.startswith("steps\n  step ") and "\n  tokens_per_s " in out, out)
    out = moescope("explain", "short_name").out
    check("\n  kernels.short_name " in out and "\n  counters.short_name " in out, out)
    document = json.loads(moescope("explain", "kernels.p95_ns", "--json").out)
    equal([row["name"] for row in document["rows"]], ["kernel_time"])
    equal(document["fields"], [{"name": "kernels.p95_ns", "meaning": "95th percentile of the times",
                                "unit": "ns", "type": "number", "nullable": True,
                                "metric": "kernel_time"}])
    for words in ("kernels.nonsense", "nonsense.time_ns", ".", "kernels."):
        one_sentence(moescope("explain", words), 1, "there is no metric")


@test
def explain_unknown_metric_names_near_ones():
    one_sentence(moescope("explain", "imbalanse"), 1, "'imbalance'")
    one_sentence(moescope("explain", "floor"), 1, "'cv_floor'", "'imbalance_floor'")
    one_sentence(moescope("explain", "xyzzy"), 1, "lists all")
    one_sentence(moescope("explain", "dead-expert"), 1, "'dead-experts'")


@test
def explain_says_where_the_evidence_of_a_verdict_is():
    text = moescope("explain", "dead-experts").out
    check("no token reached" in text and "routing.dead" in text and "n_e = 0" in text, text)
    check("evidence" not in moescope("explain", "program-failed").out)


@test
def doctor_looks_at_the_machine():
    rows = {row["name"]: row for row in json.loads(moescope("doctor", "--json").out)["rows"]}
    for name in ("version", "processor", "memory", "clock", "disk", "run directory", "library",
                 "tinymoe", "terminal", "GPU", "CUDA toolkit", "CUPTI", "GPU records", "counters",
                 "profilers", "level counts", "level steps", "level trace", "level full", "limits",
                 "shared memory", "self-test"):
        check(rows[name]["text"], name)
    check(rows["GPU records"]["text"].startswith(("built in", "off: this build")),
          rows["GPU records"])
    equal(rows["processor"]["cores"], os.cpu_count())
    equal(os.listdir("."), [])


@test
def doctor_records_for_real():
    need(LIBRARY)
    before = set(os.listdir(tempfile.gettempdir()))
    r = moescope("doctor", "--json")
    row = json.loads(r.out)["rows"][-1]
    equal((r.status, row["state"]), (0, "ok"), row)
    check("4096 ranges" in row["text"] and 0 < row["range_ns"] < 1e6, row)
    left = {n for n in set(os.listdir(tempfile.gettempdir())) - before if "doctor" in n}
    equal(left, set())


@test
def doctor_fails_when_nothing_can_be_recorded():
    r = moescope("doctor", env=environment(TMPDIR="/proc"))
    equal(r.status, 1, r)
    check("failed  self-test" in r.out, r)
    r = moescope("doctor", cwd="/proc")
    equal(r.status, 1, r)
    check("failed  run directory" in r.out and "-o DIR" in r.out, r)


def proc(**files):
    """A folder in place of /proc; names have __ for /."""
    for name, text in {"driver__nvidia__version": "NVRM version: NVIDIA UNIX 580.65.06\n",
                       "driver__nvidia__params": "RmProfilingAdminOnly: 0\n",
                       "self__status": "CapEff:\t0000000000000000\n", **files}.items():
        path = pathlib.Path("proc", *name.split("__"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return os.path.abspath("proc")


def doctor(files=None, **env):
    """The rows of doctor on a machine with the scripted libraries."""
    need(NVML)
    r = moescope("doctor", "--json",
                 env=environment(**{"MOESCOPE_NVML": NVML, "MOESCOPE_CUPTI": CUPTI,
                                    "MOESCOPE_PROC": proc(**(files or {})), **env}))
    equal(r.status, 0, r)
    return {row["name"]: row for row in json.loads(r.out)["rows"]}


@test
def doctor_says_the_same_in_text_and_json():
    need(NVML)
    env = environment(MOESCOPE_NVML=NVML, MOESCOPE_CUPTI=CUPTI, MOESCOPE_PROC=proc(),
                      CUDA_INJECTION64_PATH="/opt/other.so", COLUMNS="80")
    data = json.loads(moescope("doctor", "--json", env=env).out)
    equal(data["schema"], "moescope/doctor/1")
    text = moescope("doctor", env=env).out
    heads = re.findall(r"^(ok|note|failed) +(\S.{12}) (?=\S)", text, re.M)
    equal([(state, name.strip()) for state, name in heads],
          [(row["state"], row["name"]) for row in data["rows"]])
    flat = re.sub(r"\s+", " ", text)
    numbers = {"cores", "free_bytes", "devices", "memory_bytes", "api_version", "range_ns"}
    for row in data["rows"]:
        equal(set(row) - numbers, {"name", "state", "text", "fix"}, row)
        check(row["fix"] is None or row["fix"], row)
        if row["name"] not in ("disk", "memory", "shared memory", "self-test"):  # these change
            check(re.sub(r"\s+", " ", row["text"]) in flat, row)
            check(re.sub(r"\s+", " ", row["fix"] or "") in flat, row)


@test
def doctor_knows_the_devices():
    rows = doctor(FAKE_NVML_MIG=1)
    equal((rows["GPU"]["text"], rows["GPU"]["devices"]),
          ("driver 580.65.06 (CUDA 13.0), 2 devices", 2))
    equal(rows["GPU 0"]["text"], "Scripted GPU, 80.6 GB, no MIG, GPM counters, "
                                 "GPU-a0a0a0a0-a0a0-a0a0-a0a0-a0a0a0a0a0a0")
    equal(rows["GPU 0"]["memory_bytes"], 80600000000)
    check("MIG on (readings are of the whole device), no GPM" in rows["GPU 1"]["text"], rows)
    for level in ("counts", "steps", "trace", "full"):
        row = rows[f"level {level}"]
        equal(row["state"], "ok", row)
        check("device readings with GPM counters" in row["text"], row)
        equal("kernels" in row["text"], level in ("trace", "full"), row)
    check("allocations" in rows["level full"]["text"], rows)


@test
def doctor_without_a_driver_says_what_is_left():
    os.mkdir("empty")
    rows = doctor(FAKE_NVML_INIT=9, MOESCOPE_PROC=os.path.abspath("empty"), MOESCOPE_CUPTI=None)
    check("no NVIDIA driver here; everything on the host works" in rows["GPU"]["text"], rows["GPU"])
    check("Driver Not Loaded" in rows["GPU"]["text"], rows["GPU"])
    check("GPU 0" not in rows, rows)
    check("nothing on GPUs" in rows["level trace"]["text"], rows["level trace"])
    rows = doctor(FAKE_NVML_INIT=9)
    check("driver is loaded" in rows["GPU"]["text"] and "cannot list its devices" in rows["GPU"]["text"],
          rows["GPU"])
    equal((rows["GPU"]["state"], rows["level counts"]["state"]), ("note", "note"))
    check("no device readings" in rows["level counts"]["text"], rows["level counts"])
    rows = doctor(FAKE_NVML_COUNT=0)
    check("--gpus all" in rows["GPU"]["fix"], rows["GPU"])


@test
def doctor_says_which_libcupti():
    row = doctor()["CUPTI"]
    check(os.path.realpath(CUPTI) in row["text"] and "named by MOESCOPE_CUPTI" in row["text"], row)
    equal((row["state"], row["api_version"]), ("ok", 130001))
    row = doctor(FAKE_NVML_CUDA=12040)["CUPTI"]
    equal(row["state"], "note", row)
    check("for CUDA 13, but the driver supports CUDA 12.4" in row["fix"] and
          "nvidia-cuda-cupti-cu12" in row["fix"], row)
    for wrong, why in (("/nonexistent/libcupti.so", "No such file"), (NVML, "cuptiGetVersion")):
        rows = doctor(MOESCOPE_CUPTI=wrong)
        check(f"'{wrong}'" in rows["CUPTI"]["text"] and why in rows["CUPTI"]["text"] and
              "no other is tried" in rows["CUPTI"]["text"], rows["CUPTI"])
        check("Unset MOESCOPE_CUPTI" in rows["CUPTI"]["fix"], rows["CUPTI"])
        equal([rows[f"level {level}"]["state"] for level in ("counts", "steps", "trace", "full")],
              ["ok", "ok", "note", "note"])


@test
def doctor_says_who_may_read_counters():
    row = doctor()["counters"]
    equal((row["state"], row["fix"]), ("ok", None), row)
    row = doctor({"driver__nvidia__params": "RmProfilingAdminOnly: 1\n"})["counters"]
    equal(row["state"], "note", row)
    for word in ("options nvidia NVreg_RestrictProfilingToAdminUsers=0", "/etc/modprobe.d/",
                 "update-initramfs -u", "reboot", "--cap-add=SYS_ADMIN"):
        check(word in row["fix"], word, row)
    row = doctor({"driver__nvidia__params": "RmProfilingAdminOnly: 1\n",
                  "self__status": "CapEff:\t000001ffffffffff\n"})["counters"]
    equal((row["state"], row["fix"]), ("ok", None), row)
    row = doctor({"driver__nvidia__params": "Other: 1\n"})["counters"]
    equal(row["state"], "note", row)


@test
def doctor_sees_other_profilers():
    equal(doctor()["profilers"]["state"], "ok")
    equal(doctor(CUDA_INJECTION64_PATH=os.path.realpath(LIBRARY))["profilers"]["state"], "ok")
    row = doctor(NVTX_INJECTION64_PATH="/opt/other.so")["profilers"]
    check("NVTX_INJECTION64_PATH is set to '/opt/other.so'" in row["text"], row)
    check("Unset" in row["fix"] and "nsys" not in row["fix"], row)
    row = doctor({"812__comm": "nv-hostengine\n", "9__comm": "python3\n",
                  "77__comm": "nsys-launcher\n"})["profilers"]
    equal(row["state"], "note", row)
    check("nv-hostengine is running as process 812" in row["text"] and
          "nsys-launcher is running as process 77" in row["text"] and "python3" not in row["text"], row)
    check("dcgmi profmod --pause" in row["fix"], row)


@test
def doctor_finds_the_toolkit():
    os.makedirs("cuda")
    pathlib.Path("cuda/version.json").write_text(
        '{"cuda": {"name": "CUDA SDK", "version": "13.0.1"}}', encoding="utf-8")
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        row = doctor(**{"CUDA_HOME": None, "CUDA_PATH": None,
                        variable: os.path.abspath("cuda")})["CUDA toolkit"]
        equal(row["text"], f"13.0.1 in {os.path.abspath('cuda')}")
    os.makedirs("cuda/bin")
    pathlib.Path("cuda/bin/nvcc").write_text("#!/bin/sh\n", encoding="utf-8")
    os.chmod("cuda/bin/nvcc", 0o755)
    row = doctor(CUDA_HOME=None, CUDA_PATH=None,
                 PATH=f"/nonexistent:{os.path.abspath('cuda/bin')}")["CUDA toolkit"]
    equal(row["text"], f"13.0.1 in {os.path.realpath('cuda')}")


# In place of moescope-load: tells what it was started with, and ends well once all four have begun.
LOAD = '''#!{python}
import ctypes, json, os, pathlib, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)  # told so once it has shifted; it ends by itself
begun = pathlib.Path("{folder}")
words = " ".join(sys.argv[1:])
if os.environ.get("MOESCOPE_SHIFTS") == "2":
    ctypes.CDLL("{driver}").cuInit(0)
    (begun / str(os.getpid())).write_text(json.dumps(
        [words, os.environ["MOESCOPE_RUN"], os.environ.get("GLIBC_TUNABLES")]))
    end = time.monotonic() + {patience}
    while len(list(begun.iterdir())) < 4:
        if time.monotonic() > end:
            sys.exit("the others have not begun")
        time.sleep(0.01)
    if "{broken}" and words.startswith("{broken}"):
        os.kill(os.getpid(), signal.SIGSEGV)
print(json.dumps(dict(launches=5, replays=0, nodes=0, wrong={wrong}, seconds=1,
                      free_bytes_before=2, free_bytes_after=1)))
'''


def stress(broken="", wrong=0):
    """doctor --stress with a load that attaches and, as the session ends, detaches: two shifts."""
    driver = os.path.join(os.path.dirname(NVML), "libfake_driver.so")
    need(driver)
    for name in ("moescope", "libmoescope.so"):
        shutil.copy(os.path.join(os.path.dirname(MOESCOPE), name), name)
    os.makedirs("begun")
    pathlib.Path("moescope-load").write_text(LOAD.format(
        python=sys.executable, folder=os.path.abspath("begun"), driver=driver, broken=broken,
        wrong=wrong, patience=PATIENCE_S), encoding="utf-8")
    os.chmod("moescope-load", 0o755)
    r = subprocess.run(["./moescope", "doctor", "--stress", "--shifts", "8", "--json"],
                       stdout=subprocess.PIPE, text=True, timeout=PATIENCE_S, check=False,
                       env=environment(MOESCOPE_NVML=NVML, MOESCOPE_CUPTI=CUPTI, TMPDIR=os.getcwd(),
                                       MOESCOPE_CACHE=os.path.abspath("cache")))
    equal(list(pathlib.Path().glob("moescope-stress-*")), [], "files are left")
    begun = [json.loads(path.read_text()) for path in pathlib.Path("begun").iterdir()]
    return r.returncode, json.loads(r.stdout)["rows"], begun


@test
def doctor_stresses_four_programs_at_once():
    status, rows, begun = stress()
    stressed = [row for row in rows if row["name"] == "stress"]
    equal([row["state"] for row in stressed], ["ok"] * 4, stressed)
    check(all(row["shifts"] >= 2 and "5 kernels, every result right" in row["text"]
              for row in stressed), stressed)
    equal(status, 0)
    equal(len({words for words, _, _ in begun}), 4, begun)
    equal(len({run for _, run, _ in begun}), 4, "each has a run of its own")
    equal({tunables for _, _, tunables in begun}, {"glibc.malloc.perturb=165"})


@test
def doctor_tells_which_load_broke():
    status, rows, _ = stress(broken="--graphs 2")
    stressed = [row for row in rows if row["name"] == "stress"]
    equal((status, [row["state"] for row in stressed]), (1, ["ok"] * 3 + ["failed"]), stressed)
    check("signal 11" in stressed[3]["text"], stressed)
    check(all(row["name"] not in ("cost", "proof") for row in rows), rows)


@test
def doctor_sees_wrong_results():
    status, rows, _ = stress(wrong=1)
    stressed = [row for row in rows if row["name"] == "stress"]
    equal((status, [row["state"] for row in stressed]), (1, ["failed"] * 4), stressed)


if __name__ == "__main__":
    main()
