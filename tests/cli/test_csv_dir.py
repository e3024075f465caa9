# SPDX-License-Identifier: Apache-2.0
"""report --csv DIR: the files, what is in them, and what happens when they cannot be written."""

import csv
import json
import os
import pathlib
import re
import shutil

from cli import TINY, TINYMOE, check, environment, equal, main, moescope, one_sentence, test

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def record(name="a.mscope", steps=6):
    r = moescope("run", "-q", "-o", name, "--", TINYMOE, *TINY, "--steps", steps)
    equal(r.status, 0, r)


def rows(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def the(directory, pattern):
    names = [name for name in os.listdir(directory) if re.fullmatch(pattern, name)]
    equal(len(names), 1, pattern, os.listdir(directory))
    return os.path.join(directory, names[0])


@test
def files_of_a_run():
    record()
    r = moescope("report", "a.mscope", "--csv", "t", env=environment(TZ="UTC0"))
    equal((r.status, r.out), (0, ""), r)
    stamp = r"\d{8}_\d{6}"
    steps = json.loads(moescope("steps", "a.mscope", "--json").out)["rows"]
    equal([int(row["step"]) for row in rows("t/steps.csv")], [row["step"] for row in steps])
    routing = json.loads(moescope("routing", "a.mscope", "--json").out)["rows"]
    for row in rows(the("t", f"expert_routing_{stamp}.csv")):
        equal(len([key for key in row if re.fullmatch(r"expert_\d+", key)]), 4)
    for layer in routing:
        mine = [row for row in rows(the("t", f"expert_routing_{stamp}.csv"))
                if (row["layer"], row["phase"]) == (str(layer["layer"]), layer["phase"])]
        equal([sum(int(row[f"expert_{e}"]) for row in mine) for e in range(4)], layer["load"])
    memory = rows(the("t", f"memory_stats_{stamp}.csv"))
    peak = json.loads(moescope("memory", "a.mscope", "--json").out)["rows"][0]
    equal(max(float(row["allocated_mb"]) for row in memory), peak["peak_allocated_bytes"] / 1e6)
    equal({row["reserved_mb"] for row in memory}, {""}, "absent, not zero")
    started = json.loads(pathlib.Path("a.mscope/run.json").read_text(encoding="utf-8"))
    with open(the("t", f"profiler_report_{stamp}.json"), encoding="utf-8") as file:
        report = json.load(file)
    check(started and report["timestamp"].replace("-", "").replace(":", "") in
          the("t", f"profiler_report_{stamp}.json"), report["timestamp"])
    equal(report["stats"]["expert_routing"]["total_routing_decisions"],
          sum(layer["assignments"] for layer in routing))
    equal(moescope("ops", "a.mscope", "--csv").out,
          pathlib.Path("t/ops.csv").read_text(encoding="utf-8"))
    check(not [name for name in os.listdir("t") if name.count(".") > 1], os.listdir("t"))


@test
def files_of_a_gpu():
    shutil.copytree(ROOT / "tests/data/h200-windows", "h.mscope")
    equal(moescope("report", "h.mscope", "--csv", "t").status, 0)
    kernels = json.loads(moescope("kernels", "h.mscope", "--json").out)
    one_by_one = rows(the("t", r"kernel_stats_.*\.csv"))
    equal(len(one_by_one), kernels["total"]["count"])
    timed = [row["execution_time_ms"] for row in one_by_one if row["execution_time_ms"]]
    equal(len(one_by_one) - len(timed), kernels["total"]["untimed"])
    equal(sum(round(float(ms) * 1e6) for ms in timed), kernels["total"]["time_ns"])
    equal({row["occupancy_percent"] + row["memory_bandwidth_gbps"] for row in one_by_one}, {""})
    by_class = {row["class"]: row["count"] for row in json.loads(
        moescope("kernels", "h.mscope", "--by", "class", "--json").out)["rows"]}
    for name, count in by_class.items():
        equal(sum(row["operation_type"] == name for row in one_by_one), count, name)
    # The snippet of those who read a framework's metrics.
    with open("t/nsys_metrics.json", encoding="utf-8") as file:
        top = json.load(file)["summary"]["top_kernels"]
    equal([kernel["name"] for kernel in top], [row["name"] for row in kernels["rows"][:10]])
    check(all(f"{kernel['time_percentage']:.2f}%" for kernel in top[:5]))
    equal(sum(int(row["Total Time (ns)"] or 0) for row in rows("t/nsys_summary.csv")),
          kernels["total"]["time_ns"])


@test
def chosen_steps():
    shutil.copytree(ROOT / "tests/data/h200-windows", "h.mscope")
    equal(moescope("report", "h.mscope", "--csv", "t", "--steps", "10:12").status, 0)
    equal([row["step"] for row in rows("t/steps.csv")], ["10", "11", "12"])


@test
def several_runs_have_a_directory_each():
    record("a.mscope", 2)
    shutil.copytree(ROOT / "tests/data/h200-windows", "h.mscope")
    os.mkdir("other")
    shutil.copytree("h.mscope", "other/h.mscope")
    r = moescope("report", "a.mscope", "h.mscope", "other/h.mscope", "--csv", "t")
    equal(r.status, 0, r)
    equal(sorted(os.listdir("t")), ["a", "h", "h-2", "kernel_comparison.csv"])
    kernels = rows("t/h/kernels.csv")
    compared = {row["Kernel Name"]: row for row in rows("t/kernel_comparison.csv")}
    equal(set(compared), {row["name"] for row in kernels})
    for row in kernels:
        mine = compared[row["name"]]
        equal((mine["a Instances"], mine["h Instances"], mine["h-2 Instances"]),
              ("", row["count"], row["count"]))


@test
def what_cannot_be_written():
    record()
    pathlib.Path("file").write_text("mine", encoding="ascii")
    one_sentence(moescope("report", "a.mscope", "--csv", "file"), 1, "'file'")
    one_sentence(moescope("report", "a.mscope", "--csv", "no/such"), 1, "'no/such'")
    one_sentence(moescope("report", "a.mscope", "--csv", ""), 2, "--csv")
    one_sentence(moescope("report", "a.mscope", "--csv", "t", "--json"), 2, "--json")
    one_sentence(moescope("report", "a.mscope", "--csv", "t", "--dashboard"), 2, "--dashboard")
    one_sentence(moescope("report", "missing.mscope", "--csv", "t"), 1, "missing.mscope")
    os.makedirs("u/ops.csv")
    r = moescope("report", "a.mscope", "--csv", "u")
    equal(r.status, 1, r)
    check("u/ops.csv" in r.err, r)
    check(not [name for name in os.listdir("u") if name.count(".") > 1], os.listdir("u"))


if __name__ == "__main__":
    main()
