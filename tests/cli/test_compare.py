# SPDX-License-Identifier: Apache-2.0
"""compare on real runs of the embedded model: text, JSON, CSV, groups, conditions and their status."""

import csv
import io
import json
import os
import shutil

from cli import (TINY, TINYMOE, check, equal, main, moescope, need, one_sentence, record, test)

METRICS = ("run_time", "step_time", "step_time_mean", "tokens_per_s", "phase_time", "ttft", "tpot", "itl",
           "gpu_busy_pct", "idle_time", "kernel_time", "kernel_count", "api_time", "copy_time",
           "copy_bytes", "peak_allocated", "peak_reserved", "peak_device_used", "cv_excess",
           "imbalance")


def record_large(name, steps=30):
    """The same model with sixteen times the tokens a step: slower whatever the machine does."""
    need(TINYMOE)
    larger = [*TINY]
    larger[larger.index("--batch") + 1] = "32"
    r = moescope("run", "-q", "-o", name, "--", TINYMOE, *larger, "--steps", steps)
    equal(r.status, 0, r)


def compared(*args):
    r = moescope("compare", *args, "--json")
    equal(r.status, 0, r)
    return json.loads(r.out)


def figures(document, which=0):
    return {(f["metric"], f.get("of")): f for f in document["comparisons"][which]["figures"]}


@test
def a_run_with_itself_is_noise():
    record("a.mscope", 30)
    document = compared("a.mscope", "a.mscope")
    equal(document["schema"], "moescope/compare/1")
    equal(document["differ"], [])
    rows = document["comparisons"][0]["figures"] + document["comparisons"][0]["host"]
    check(len(rows) > 20, len(rows))
    for row in rows:
        check(row["verdict"] in ("noise", "same"), row)
        equal(row["difference"], 0, row)
    equal(moescope("compare", "a.mscope", "a.mscope", "--fail-if", "step_time > 0%",
                   "--fail-if", "peak_allocated > 0%").status, 0)


@test
def more_work_is_slower_and_fails_a_condition():
    # On a busy machine 30 steps may be worth too few independent ones.
    record("a.mscope", 120)
    record_large("b.mscope", 120)
    document = compared("a", "b")
    rows = figures(document)
    equal(rows["step_time", None]["verdict"], "worse")
    check(rows["step_time", None]["low_pct"] > 5, rows["step_time", None])
    equal(rows["peak_allocated", "host"]["verdict"], "untested")
    differ = {fact["fact"]: fact for fact in document["differ"]}
    check({"command", "tokens_per_step"} <= set(differ), differ)
    equal(differ["tokens_per_step"]["values"], ["32", "512"])
    check(differ["tokens_per_step"]["doubtful"])
    equal(document["groups"][0]["runs"][0]["warmup_steps"], 5)
    equal(document["groups"][0]["runs"][0]["steps"], 115)
    r = moescope("compare", "a", "b", "-f", "step_time > 5%")
    equal(r.status, 1, r)
    equal(r.err, "moescope: the condition 'step_time > 5%' holds for 'b'.\n")
    check("FAILED   step_time > 5% (b)" in r.out, r.out)
    check("slower" in r.out, r.out)
    # The other way round it is an improvement.
    r = moescope("compare", "b", "a", "-f", "step_time > 5%", "-f", "step_time > 10s")
    equal(r.status, 0, r)
    equal(r.err, "")
    r = moescope("compare", "a", "b", "-f", "step_time > 1ns")
    equal(r.status, 1, r)


@test
def conditions_that_cannot_be_judged_fail():
    record("a.mscope", 10)
    r = moescope("compare", "a", "a", "--fail-if", "kernel_time > 5%")
    equal(r.status, 1, r)
    check("cannot be judged for 'a': no run has such a figure" in r.err, r)
    condition = json.loads(moescope("compare", "a", "a", "--json", "--fail-if",
                                    "kernel_time > 5%").out)["conditions"][0]
    equal(condition["result"], "unknown")


@test
def wrong_conditions_are_usage_errors():
    record("a.mscope", 6)
    one_sentence(moescope("compare", "a", "a", "--fail-if", "steptime > 5%"), 2, "steptime", *METRICS)
    one_sentence(moescope("compare", "a", "a", "--fail-if", "step_time > 5kg"), 2, "kg", "ms")
    one_sentence(moescope("compare", "a", "a", "--fail-if", "step_time ~ 5%"), 2, ">=")
    one_sentence(moescope("compare", "a", "a", "--fail-if", "step_time > x%"), 2, "number")
    one_sentence(moescope("compare", "a", "a", "--sort", "colour"), 2, "colour", "difference_pct")
    one_sentence(moescope("compare", "a", "a", "--json", "--csv"), 2, "--json")


@test
def arguments_are_runs_groups_or_directories():
    for i in (1, 2, 3):
        record(f"a{i}.mscope", 20)
    os.mkdir("old")
    for i in (1, 2, 3):
        shutil.copytree(f"a{i}.mscope", f"old/r{i}.mscope")
    document = compared("-g", "base=a1,a2,a3", "-g", "new=old")
    equal([g["name"] for g in document["groups"]], ["base", "new"])
    equal([len(g["runs"]) for g in document["groups"]], [3, 3])
    row = figures(document)["step_time", None]
    equal((row["compared"], row["n"], row["difference"]), ("runs", 3, 0))
    # Equal in all three runs of both sides: nothing varies.
    equal(figures(document)["peak_allocated", "host"]["verdict"], "same")
    document = compared("a1", "old/")
    equal([g["name"] for g in document["groups"]], ["a1", "old"])
    equal(figures(document)["step_time", None]["compared"], "steps")
    equal([g["name"] for g in compared("a1", "a1", "a2")["groups"]], ["a1", "a1", "a2"])
    one_sentence(moescope("compare", "a1"), 2, "two")
    one_sentence(moescope("compare", "-g", "base=a1"), 2, "two")
    one_sentence(moescope("compare", "-g", "base=a1", "-g", "a2"), 2, "NAME=RUN")
    one_sentence(moescope("compare", "-g", "base=a1", "a2", "a3"), 2, "not both")
    one_sentence(moescope("compare", "a1", "nowhere"), 1, "nowhere")
    one_sentence(moescope("compare", "a1", "-g", "base=,"), 2, "not both")
    one_sentence(moescope("compare", "-g", "base=,", "-g", "new=a1"), 2, "no run")


@test
def steps_choose_and_leave_no_warmup_out():
    record("a.mscope", 30)
    runs = compared("a", "a", "--steps", "2:11")["groups"][0]["runs"][0]
    equal((runs["steps"], runs["warmup_steps"]), (10, 0))
    r = moescope("compare", "a", "a", "--steps", "2:4")
    equal(r.status, 0, r)
    check("untested" in r.out, r.out)


@test
def text_fits_and_csv_has_every_row():
    record("a.mscope", 20)
    record("a-run-with-a-rather-long-name.mscope", 20)
    record("c.mscope", 20)
    for runs in (("a", "a-run-with-a-rather-long-name"), ("a", "c", "a-run-with-a-rather-long-name")):
        r = moescope("compare", *runs)
        equal(r.status, 0, r)
        equal(r.err, "")
        check(max(map(len, r.out.splitlines())) <= 80, r.out)
        check("\033" not in r.out)
    check("nan" not in r.out.lower() and "inf%" not in r.out.lower(), r.out)
    r = moescope("compare", "a", "c", "--markdown", "--color", "always", "--limit", "3")
    equal((r.status, r.err), (0, ""), r)
    check("\033" not in r.out, "colour in Markdown")
    tables = [line for line in r.out.splitlines() if line[:1] == "|"]
    check("| figure | a | c | diff | 95% interval | p | verdict |" in tables, r.out)
    check("### c against a" in r.out.splitlines(), r.out)
    rows = list(csv.DictReader(io.StringIO(moescope("compare", "a", "c", "--csv").out)))
    document = compared("a", "c")["comparisons"][0]
    equal(len(rows), len(document["figures"]) + len(document["host"]))
    equal({row["table"] for row in rows}, {"figures", "operations", "ranges"})
    explained = json.loads(moescope("explain", "compare_row", "--json").out)["fields"]
    equal([field["name"] for field in explained if field["name"].partition(".")[2] in rows[0]],
          ["compare_row." + key for key in rows[0]])
    limited = compared("a", "c", "--limit", "3", "--sort", "baseline")["comparisons"][0]
    equal(len(limited["host"]), 3)
    equal(limited["host"][0]["baseline"], max(row["baseline"] for row in document["host"]))


def stepless(path, gemm_us, calls, attention):
    """A trace in which nothing repeats as steps do: gemm in `mlp`, attention and an all-reduce."""
    events = []

    def add(category, name, start, duration, thread, **args):
        events.append({"ph": "X", "cat": category, "name": name, "pid": 1, "tid": thread,
                       "ts": start, "dur": duration, "args": args})

    for i in range(calls):
        add("user_annotation", "mlp", 1000 * i, 400, 1)
        add("cuda_runtime", "cudaLaunchKernel", 1000 * i + 100, 10, 1, correlation=i + 1)
        add("kernel", "gemm_kernel", 1000 * i + 500, gemm_us + i % 3, 7, stream=7, device=0,
            correlation=i + 1)
    end = 1000 * calls
    add("kernel", attention, end, 90, 7, stream=7, device=0)
    add("kernel", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(a)", end + 100, gemm_us, 7, stream=7,
        device=0, **{"Collective name": "allreduce"})
    with open(path, "w", encoding="utf-8") as out:
        json.dump({"schemaVersion": 1, "traceEvents": events}, out)
    return events


def sums(events):
    """Count and nanoseconds by kernel."""
    found = {}
    for event in events:
        if event["cat"] == "kernel":
            count, time = found.get(event["name"], (0, 0))
            found[event["name"]] = (count + 1, time + 1000 * event["dur"])
    return found


@test
def whole_runs_where_there_are_no_steps():
    a = sums(stepless("a.json", 100, 20, "flash_fwd"))
    b = sums(stepless("b.json", 130, 15, "flash_v3"))
    document = compared("a.json", "b.json")["comparisons"][0]
    equal(document["compared"], "whole runs")
    rows = {row["of"]: row for row in document["kernels"]}
    equal(set(rows), set(a) | set(b))
    for name, row in rows.items():
        for side, sum_key, count_key in ((a, "baseline", "count_baseline"), (b, "value", "count")):
            count, time = side.get(name, (0, 0))
            equal((row[count_key], row[sum_key]), (count, time), name)
        equal(row["state"], "both" if name in a and name in b else "new" if name in b else "gone")
        equal((row["verdict"] in ("untested", "same"), row["difference_low"]), (True, None), row)
    # By the size of the change, and the parts are the whole.
    changes = [abs(row["difference"]) for row in document["kernels"]]
    equal(changes, sorted(changes, reverse=True))
    total = sum(t for _, t in b.values()) - sum(t for _, t in a.values())
    for table in ("kernels", "classes", "launch_ranges"):
        equal(sum(row["difference"] for row in document[table]), total, table)
    check(abs(sum(row["explains_pct"] for row in document["kernels"]) - 100) < 1e-3)
    values = figures({"comparisons": [document]})
    equal(values["kernel_time", None]["difference"], total)
    equal(values["kernel_count", None]["value"], sum(c for c, _ in b.values()))
    # The time of one call has its test, since there are many of them.
    gemm = rows["gemm_kernel"]
    equal((gemm["call_baseline_ns"], gemm["call_verdict"]),
          (round(a["gemm_kernel"][1] / 20, 1), "worse"))
    check(gemm["call_low_pct"] > 25 and gemm["call_high_pct"] < 35, gemm)
    equal([(row["of"], row["difference"]) for row in document["collectives"]], [("allreduce", 30000)])
    equal({row["of"]: row["count"] for row in document["launch_ranges"]},
          {"mlp": 15, "(outside all ranges)": 2})
    text = moescope("compare", "a.json", "b.json").out
    for words in ("1 run as a whole", "a.json has no steps, so whole runs are compared", "20>15",
                  "One run has no interval", "slower", "gone", "new", "collectives: time"):
        check(words in " ".join(text.split()), words, text)
    check(max(map(len, text.splitlines())) <= 80, text)


@test
def one_run_without_steps_makes_the_others_whole():
    stepless("a.json", 100, 20, "flash_fwd")
    with open("a.json", encoding="utf-8") as file:
        marked = json.load(file)
    marked["traceEvents"] += [{"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{i}",
                               "pid": 1, "tid": 1, "ts": 1000 * i, "dur": 1000} for i in range(20)]
    with open("b.json", "w", encoding="utf-8") as file:
        json.dump(marked, file)
    equal(compared("b.json", "b.json")["comparisons"][0]["compared"], "steps")
    document = compared("a.json", "b.json")["comparisons"][0]
    equal(document["compared"], "whole runs")
    equal({row["difference"] for row in document["kernels"]}, {0})
    # Three runs of each side have an interval.
    document = compared("-g", "x=a.json,a.json,a.json", "-g", "y=b.json,a.json,b.json")
    row = document["comparisons"][0]["kernels"][0]
    equal((row["compared"], row["n"], row["difference_low"]), ("runs", 3, 0))


@test
def runs_without_steps_or_with_one():
    moescope("run", "-q", "-o", "none.mscope", "--", "true")
    record("one.mscope", 1)
    record("a.mscope", 20)
    for other in ("none", "one"):
        for runs in (("a", other), (other, "a"), (other, other)):
            r = moescope("compare", *runs)
            equal(r.status, 0, r)
            json.loads(moescope("compare", *runs, "--json").out)
    r = moescope("compare", "a", "none")
    check("no steps were recorded" in r.out, r.out)
    equal(moescope("compare", "a", "none", "-f", "step_time > 5%").status, 1)


if __name__ == "__main__":
    main()
