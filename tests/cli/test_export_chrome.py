# SPDX-License-Identifier: Apache-2.0
"""Chrome traces: the rules of the format, the names that other tools look for, and the files."""

import gzip
import json
import os
import pathlib
import re
import stat
import subprocess

from cli import check, equal, main, moescope, one_sentence, record, test

RECORDED = str(pathlib.Path(__file__).resolve().parent.parent / "data" / "h200-windows")
# ts and dur must stay exact; a number is a text here.
EXACT = {"parse_float": str}


def load(path):
    opened = gzip.open(path, "rt", encoding="utf-8") if path.endswith(".gz") else open(
        path, encoding="utf-8")
    with opened as file:
        return json.load(file, **EXACT)


def nanoseconds(text):
    check(re.fullmatch(r"-?\d+\.\d{3}", text), f"{text!r} has not three decimals")
    return int(text.replace(".", ""))


def validate(trace):
    """The rules of trace-event files, as far as viewers rely on them."""
    begun, ended, spans = {}, {}, {}
    for event in trace["traceEvents"]:
        phase = event["ph"]
        check(phase in "XiCMsfbe", event)
        check(isinstance(event["pid"], int) and isinstance(event["tid"], int), event)
        check(isinstance(event["name"], str), event)
        if phase == "M":
            continue
        time = nanoseconds(event["ts"])
        if phase == "X":
            check(nanoseconds(event["dur"]) >= 0, event)
        elif phase == "i":
            check(event["s"] in "gpt", event)
        elif phase == "C":
            check(event["args"], event)
            check(all(not isinstance(v, (list, dict)) for v in event["args"].values()), event)
        elif phase in "sf":
            to = begun if phase == "s" else ended
            key = (event["cat"], event["name"], event["id"])
            check(key not in to, "an arrow twice", event)
            to[key] = time
        else:
            key = (event["cat"], event["name"], event["id"])
            spans.setdefault(key, []).append((phase, time))
    equal(set(begun), set(ended), "arrows without their other end")
    for key, ends in spans.items():
        equal([phase for phase, _ in ends], ["b", "e"], key)
        check(ends[0][1] <= ends[1][1], key)


def arrows_end_in_work(trace):
    """An arrow to a kernel begins at its call and ends at its beginning, with its correlation."""
    starts = {}
    for event in trace["traceEvents"]:
        if event["ph"] == "X":
            place = (event["pid"], event["tid"], event["ts"])
            starts.setdefault(place, []).append(event.get("args", {}).get("correlation"))
    begun = {event["id"]: event for event in trace["traceEvents"]
             if event["ph"] == "s" and event["cat"] == "ac2g"}
    for event in trace["traceEvents"]:
        if event["ph"] == "f" and event["cat"] == "ac2g":
            ends = [starts.get((e["pid"], e["tid"], e["ts"]), []) for e in (begun[event["id"]], event)]
            check(set(ends[0]) & set(ends[1]), "no correlation in common", event)


def nested(trace, categories):
    """On a track of a thread, what begins in an event ends in it."""
    tracks = {}
    for event in trace["traceEvents"]:
        if event["ph"] == "X" and event["cat"] in categories:
            start = nanoseconds(event["ts"])
            tracks.setdefault((event["pid"], event["tid"]), []).append(
                (start, -(start + nanoseconds(event["dur"]))))
    for track, events in tracks.items():
        inside = []
        for start, end in sorted(events):
            while inside and -inside[-1] <= start:
                inside.pop()
            check(not inside or -end <= -inside[-1], "half inside of another", track, start)
            inside.append(end)


@test
def a_recording_of_a_gpu():
    done = moescope("export", RECORDED, "-o", "trace.json")
    equal(done.status, 0, done.err)
    trace = load("trace.json")
    validate(trace)
    kernels = [e for e in trace["traceEvents"] if e.get("cat") == "kernel"]
    untimed = [e for e in trace["traceEvents"] if e.get("args", {}).get("record") == "kernel"]
    equal((len(kernels), len(untimed)), (43333 - 1485, 1485))
    for event in kernels[:100]:
        check(event["args"].keys() >= {"device", "context", "stream", "correlation", "grid",
                                       "block", "registers per thread", "shared memory"}, event)
        equal((event["pid"], event["tid"]), (event["args"]["device"], event["args"]["stream"]))
    equal(trace["moescope"]["loss"], {"unfinished": 1})


@test
def the_embedded_model():
    record("a.mscope", 4)
    done = moescope("export", "a.mscope")
    equal(done.status, 0, done.err)
    check("wrote a.pt.trace.json.gz;" in done.err, done.err)
    trace = load("a.pt.trace.json.gz")
    validate(trace)
    nested(trace, {"cpu_op", "user_annotation"})
    steps = [e["name"] for e in trace["traceEvents"] if e["name"].startswith("ProfilerStep#")]
    equal(steps, [f"ProfilerStep#{i}" for i in range(4)])
    check(any(e["name"] == "[memory]" for e in trace["traceEvents"]), "no allocations")
    kinds = {e["args"]["record"] for e in trace["traceEvents"] if "record" in e.get("args", {})}
    check(kinds >= {"routing", "moe_layer", "fact", "cost"}, kinds)
    equal(trace["schemaVersion"], 1)
    equal(trace["distributedInfo"], {"rank": 0, "world_size": 1})
    check(trace["baseTimeNanoseconds"] > 1_600_000_000 * 10**9, trace["baseTimeNanoseconds"])


@test
def files_by_their_names():
    for options, name, packed in (
            ((), "h200-windows.pt.trace.json.gz", True),
            (("--to", "chrome-json"), "h200-windows.pt.trace.json", False),
            (("-o", "x.json"), "x.json", False),
            (("--to", "chrome-json", "-o", "y.json.gz"), "y.json.gz", True)):
        done = moescope("export", RECORDED, *options)
        equal(done.status, 0, done.err)
        with open(name, "rb") as file:
            equal(file.read(2) == b"\x1f\x8b", packed, name)
    done = moescope("export", RECORDED, "-o", "-")
    with open("x.json", encoding="utf-8") as file:
        plain = file.read()
    equal(done.out == plain, True, "standard output has other bytes than the file")
    with gzip.open("y.json.gz", "rt", encoding="utf-8") as file:
        equal(file.read() == plain, True, "the compressed file holds other bytes")
    equal(sorted(os.listdir(".")), ["h200-windows.pt.trace.json", "h200-windows.pt.trace.json.gz",
                                    "x.json", "y.json.gz"])


@test
def a_file_for_each_rank():
    os.mkdir("two.mscope")
    for rank in range(2):
        os.environ["RANK"] = str(rank)
        one = record(f"{rank}.mscope", 2)
        for path in pathlib.Path(one).iterdir():
            path.rename(pathlib.Path("two.mscope") / path.name)
    del os.environ["RANK"]
    done = moescope("export", "two.mscope", "--per-rank", "-o", "traces")
    equal(done.status, 0, done.err)
    names = [f"two-rank{rank}.pt.trace.json.gz" for rank in range(2)]
    equal(sorted(os.listdir("traces")), names)
    alone = 0
    for rank, name in enumerate(names):
        trace = load(os.path.join("traces", name))
        validate(trace)
        equal(trace["distributedInfo"], {"rank": rank, "world_size": 2})
        alone += sum(event["ph"] == "X" for event in trace["traceEvents"])
    equal(moescope("export", "two.mscope", "-o", "both.json").status, 0)
    trace = load("both.json")
    validate(trace)
    nested(trace, {"cpu_op", "user_annotation"})
    check("distributedInfo" not in trace, "two ranks in it")
    equal(sum(event["ph"] == "X" for event in trace["traceEvents"]), alone)


@test
def what_cannot_be_done_is_said():
    one_sentence(moescope("export", RECORDED, "--per-rank", "-o", "-"), 2, "directory")
    one_sentence(moescope("export", RECORDED, "-o", "no/such/place.json"), 1, "no/such/place.json")
    pathlib.Path("file").write_text("")
    one_sentence(moescope("export", RECORDED, "--per-rank", "-o", "file/x"), 1, "file/x")
    equal(os.listdir("."), ["file"])


def through_a_pipe(to):
    """What an export writes into a pipe, which must still be one then."""
    os.mkfifo("pipe")
    with open("got", "wb") as file, subprocess.Popen(["cat", "pipe"], stdout=file) as reader:
        result = moescope("export", RECORDED, "--to", to, "-o", "pipe")
        if not stat.S_ISFIFO(os.stat("pipe").st_mode):
            reader.kill()
            check(False, "a file is in the place of the pipe", to)
    os.unlink("pipe")
    return pathlib.Path("got").read_bytes(), result


@test
def pipes_and_links_stay_what_they_are():
    for to in ("chrome-json", "perfetto", "folded", "speedscope"):
        equal(moescope("export", RECORDED, "--to", to, "-o", "file").status, 0, to)
        got, result = through_a_pipe(to)
        equal(result.status, 0, result)
        check(got == pathlib.Path("file").read_bytes(), "not what a file gets", to)
    os.mkfifo("pipe")  # that nobody reads
    one_sentence(moescope("export", RECORDED, "--to", "sqlite", "-o", "pipe"), 1, "plain file")
    pathlib.Path("real").write_text("before")
    os.symlink("real", "link")
    for to in ("chrome-json", "sqlite"):
        equal(moescope("export", RECORDED, "--to", to, "-o", "link").status, 0, to)
        equal(os.readlink("link"), "real")
        check(pathlib.Path("real").stat().st_size > 1000, to)


if __name__ == "__main__":
    main()
