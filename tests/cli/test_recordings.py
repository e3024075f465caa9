# SPDX-License-Identifier: Apache-2.0
"""Runs recorded on a GPU, read again: tests/data/h200-windows is PyTorch training on an H200 with
collection attached and detached 200 times. What is expected was counted where it was recorded."""

import csv
import io
import json
import pathlib

from cli import check, equal, main, moescope, test

RUN = str(pathlib.Path(__file__).resolve().parent.parent / "data" / "h200-windows")


def table(command, *options):
    done = moescope(command, RUN, "--json", "--limit", "0", *options)
    equal(done.status, 0, done.err)
    return json.loads(done.out)


@test
def every_kernel_is_there():
    found = table("kernels")
    equal(found["total"]["count"], 43333)
    equal(found["total"]["untimed"], 1485)
    equal(sum(row["count"] for row in found["rows"]), 43333)
    equal(found["sampled"]["windows"], 200)
    check(10 < found["sampled"]["coverage_pct"] < 25, found["sampled"])


@test
def kernels_of_a_mixture_of_experts_have_their_classes():
    found = {row["class"]: row for row in table("kernels", "--by", "class")["rows"]}
    for name in ("gemm", "grouped_gemm", "attention", "routing", "permute", "normalisation"):
        check(found[name]["count"] > 400, (name, found))
    check(found["other"]["share_pct"] < 1, found["other"])


@test
def names_are_for_people():
    done = moescope("kernels", RUN, "--limit", "0", "--width", "200")
    check("cutlass::gemm::kernel::GemmUniversal" in done.out and "_ZN" not in done.out, done.out[:2000])


@test
def the_report_says_what_it_rests_on():
    report = table("report")
    equal(report["overhead"]["windows"], 200)
    equal(len(report["overhead"]["level_changes"]), 400)
    device = report["timeline"]["devices"][0]
    check(0 < device["busy_ns"] < report["run"]["duration_ns"], device)
    causes = device["idle_by_cause"]
    equal(sum(v for v in causes.values() if isinstance(v, int)), device["idle_ns"])
    done = moescope("report", RUN)
    check("sampled: 200 windows" in done.out, done.out[:3000])
    check(all(len(line) <= 80 for line in done.out.splitlines()), "wider than 80 columns")


@test
def copies_and_readings_are_there():
    rows = {row["kind"]: row for row in table("transfers")["rows"]}
    check(rows["DtoD"]["bytes"] > 100e9 and rows["memset"]["count"] == 5259, rows)
    done = moescope("smi", RUN)
    lines = list(csv.reader(io.StringIO(done.out)))
    check(len(lines) > 10 and all(len(line) == 7 for line in lines), done.out[:500])


@test
def it_opens_elsewhere():
    done = moescope("export", RUN, "--to", "chrome", "-o", "trace.json")
    equal(done.status, 0, done.err)
    with open("trace.json") as f:
        trace = json.load(f)
    drawn = sum(event.get("cat") == "kernel" for event in trace["traceEvents"])
    untimed = sum(e.get("args", {}).get("record") == "kernel" for e in trace["traceEvents"])
    equal(drawn + untimed, 43333)


if __name__ == "__main__":
    main()
