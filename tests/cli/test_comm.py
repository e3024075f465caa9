# SPDX-License-Identifier: Apache-2.0
"""comm: traces of two ranks, written here, through the importer and back as a table."""

import json
import os

from cli import check, equal, main, moescope, test

STEP_US = 1000
STEPS = 12
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def event(category, name, start, end, **arguments):
    return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1, "ts": start,
            "dur": end - start, "args": arguments}


def launched(name, start, end, correlation, **arguments):
    step = start // STEP_US * STEP_US
    return [event("cuda_runtime", "cudaLaunchKernel", step + 10, step + 15, correlation=correlation),
            event("kernel", name, start, end, device=0, stream=7, correlation=correlation,
                  **arguments)]


def rank_events(rank):
    """Of each step compute 0..400, an all-reduce 300..700 that the second rank begins at 380, and
    an all-to-all 700..900 whose data nobody describes."""
    events = []
    for step in range(STEPS):
        at, ids = step * STEP_US, 10 * step
        events.append(event("user_annotation", f"ProfilerStep#{step}", at, at + STEP_US))
        events += launched("gemm", at, at + 400, ids + 1)
        events += launched(NCCL, at + 300 + 80 * rank, at + 700, ids + 2, **{
            "Collective name": "allreduce", "In msg nelems": 1000000, "Out msg nelems": 1000000,
            "Group size": 2, "dtype": "BFloat16", "Process Group Name": "dp", "Seq": step})
        events += launched("void deep_ep::intranode::dispatch<8>(int4*)", at + 700, at + 900,
                           ids + 3)
    return events


def write_ranks():
    os.mkdir("ranks")
    for rank in range(2):
        with open(f"ranks/rank{rank}.json", "w", encoding="utf-8") as file:
            json.dump({"schemaVersion": 1, "baseTimeNanoseconds": 0,
                       "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 2},
                       "traceEvents": rank_events(rank)}, file)


def table(*options):
    r = moescope("comm", "ranks", "--json", *options)
    equal((r.status, r.err), (0, ""), r)
    return json.loads(r.out)


@test
def two_ranks():
    write_ranks()
    document = table()
    total = document["total"]
    equal([(d["rank"], d["comm_ns"], d["overlap_ns"], d["exposed_ns"], d["exposed_pct"])
           for d in total["devices"]],
          [(0, 600000 * STEPS, 100000 * STEPS, 500000 * STEPS, 50),
           (1, 520000 * STEPS, 20000 * STEPS, 500000 * STEPS, 50)])
    row = document["rows"][0]
    equal((row["name"], row["transport"], row["group"], row["group_size"], row["type"]),
          ("allreduce", "nccl", "dp", 2, "BFloat16"))
    equal((row["count"], row["collective_bytes"]), (2 * STEPS, 2 * STEPS * 2000000))
    # 2 MB in 360 us on average; with two ranks the bus carries as much.
    check(abs(row["bus_bytes_per_s"] - 2e6 / 360e-6) < 1, row)
    equal((row["matched"], row["skew_mean_ns"], row["late_rank"], row["late_pct"]),
          (STEPS, 80000, 1, 100))
    equal(document["rows"][1]["name"], "deep_ep::intranode::dispatch")
    equal(document["rows"][1]["collective_bytes"], None)
    verdicts = {v["id"]: v for v in json.loads(moescope("report", "ranks", "--json").out)["verdicts"]}
    # The second rank is 80 us late, and one of two waits for it; that is not in two gains.
    equal((verdicts["comm-exposed"]["gain_pct"], verdicts["rank-late"]["gain_pct"]), (46, 4))
    check("rank 1 is the last to start 100%" in verdicts["rank-late"]["title"], verdicts["rank-late"])


@test
def some_steps_and_other_forms():
    write_ranks()
    equal(table("--steps", "0:2")["total"]["matched"], 3)
    equal(table("--steps", "100:")["rows"], [])
    equal([row["name"] for row in table("--sort", "count", "--limit", "1")["rows"]], ["allreduce"])
    r = moescope("comm", "ranks", "--csv")
    equal(r.out.splitlines()[0].split(",")[:3], ["name", "transport", "group"])
    equal(len(r.out.splitlines()), 3)
    r = moescope("comm", "ranks")
    equal(r.status, 0, r)
    check("rank 1 was last in 100% of them" in " ".join(r.out.split()), r.out)
    check("\nCommunication\n" in moescope("report", "ranks").out)


# What a row is about, and counts that say themselves.
PLAIN = set("""name transport group group_size type count rank device devices transports records
without_kernel without_call""".split())


@test
def explain_knows_the_keys():
    write_ranks()
    document = table()
    total = document["total"]
    for item in (total, total["devices"][0], total["transports"][0], document["rows"][0]):
        for key in item:
            if key not in PLAIN and not key.endswith("_reason"):
                equal(moescope("explain", key).status, 0, key)


if __name__ == "__main__":
    main()
