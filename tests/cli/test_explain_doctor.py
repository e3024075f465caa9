# SPDX-License-Identifier: Apache-2.0
"""explain and doctor."""

import json
import os
import tempfile

from cli import (MOESCOPE, check, environment, equal, main, moescope, need, one_sentence, record,
                 test)

LIBRARY = os.path.join(os.path.dirname(MOESCOPE), "libmoescope.so")

# Every metric that the project defines; explain must know each.
METRICS = """load utilization_pct imbalance balancedness max_violation cv gini entropy_norm dead
starved overloaded cv_floor imbalance_floor cv_excess k router_confidence router_entropy top1_prob
topk_mass margin drop_rate pad_waste tile_waste coactivation affinity repeat_rate hot_persistence
unique_experts expert_bytes_touched flops_router flops_expert self_check load_balance_score
routing_efficiency kernel_time gpu_busy gpu_idle launch_latency launch_overhead overlap_pct
self_time total_time theoretical_occupancy achieved_occupancy sm_pct tensor_pct dram_pct l2_hit_pct
warp_efficiency dram_bandwidth copy_bandwidth mfu step_time phase_share_pct tokens_per_s ttft tpot
itl allocated_bytes reserved_bytes peak_allocated_bytes device_used_bytes cache_slack
fragmentation_pct leak_suspect expert_memory overhead_pct loss coverage_pct steps_covered staged
device_account_pct device_estimate_pct""".split()


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
experts legacy device series""".split())


@test
def explain_knows_every_key_of_the_tables():
    record()
    for table in ("ops", "steps", "routing", "memory"):
        row = json.loads(moescope(table, "a.mscope", "--json").out)["rows"][0]
        for key in row:
            if key not in IDENTITIES and not key.endswith("_reason"):
                equal(moescope("explain", key).status, 0, table, key)


@test
def explain_unknown_metric_names_near_ones():
    one_sentence(moescope("explain", "imbalanse"), 1, "'imbalance'")
    one_sentence(moescope("explain", "floor"), 1, "'cv_floor'", "'imbalance_floor'")
    one_sentence(moescope("explain", "xyzzy"), 1, "lists all")


@test
def doctor_looks_at_the_machine():
    rows = {row["name"]: row for row in json.loads(moescope("doctor", "--json").out)["rows"]}
    for name in ("version", "processor", "memory", "clock", "disk", "run directory", "library",
                 "tinymoe", "terminal", "GPU", "GPU records", "limits", "shared memory", "self-test"):
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


if __name__ == "__main__":
    main()
