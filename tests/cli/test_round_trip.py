# SPDX-License-Identifier: Apache-2.0
"""A run, exported as a Chrome trace and imported again, answers as it did before."""

import collections
import json
import os
import pathlib

from cli import MOESCOPE, Skip, check, equal, main, moescope, need, record, test

HERE = pathlib.Path(__file__).resolve().parent
RECORDED = str(HERE.parent / "data" / "h200-windows")
FIXTURES = HERE.parent.parent.parent / "shared" / "fixtures"
MAKE_RUN = os.path.join(os.path.dirname(MOESCOPE), "bench", "bench-make-run")
COMMANDS = ("kernels", "api", "transfers", "ops", "steps", "memory", "routing", "report")
# What differs in the head of a run that was imported: it says for how long its program ran only
# when it ran, the files of several ranks have a word on their clocks, and the version is the one that
# wrote the run.
HEAD = ("name", "version", "source", "duration_ns", "duration_ns_reason", "started_realtime_ns", "notes")


def differences(one, other, path=""):
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(one.keys() | other.keys()):
            if path == ".run" and key in HEAD:
                continue
            yield from differences(one.get(key), other.get(key), f"{path}.{key}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for i, (a, b) in enumerate(zip(one, other)):
            yield from differences(a, b, f"{path}[{i}]")
    elif one != other:
        yield f"{path}: {str(one)[:80]} became {str(other)[:80]}"


def answers(run, command):
    done = moescope(command, run, "--json", "--limit", "0")
    equal(done.status, 0, done.err)
    return json.loads(done.out)


def same(run, again, commands=COMMANDS):
    for command in commands:
        wrong = list(differences(answers(run, command), answers(again, command)))
        check(not wrong, f"{command}: {len(wrong)} differ, such as", *wrong[:5])


def events(run):
    """What a trace of the run holds, but for the names of its tracks."""
    done = moescope("export", run, "-o", "-")
    equal(done.status, 0, done.err)
    return collections.Counter(json.dumps(event, sort_keys=True)
                               for event in json.loads(done.out)["traceEvents"]
                               if event["ph"] != "M")


def round_trip(run, *options):
    done = moescope("export", run, *options)
    equal(done.status, 0, done.err)
    name = options[options.index("-o") + 1]
    again = name.split(".")[0] + "-again.mscope"
    done = moescope("import", name, "-o", again)
    equal(done.status, 0, done.err)
    wrong = list(((events(run) - events(again)) + (events(again) - events(run))).elements())
    check(not wrong, f"{len(wrong)} events differ, such as", *wrong[:4])
    return again


@test
def the_embedded_model():
    run = record("a.mscope", 6, "--level", "full")
    same(run, round_trip(run, "-o", "a.json.gz"))


@test
def a_recording_of_a_gpu():
    same(RECORDED, round_trip(RECORDED, "-o", "a.json"))


@test
def calls_graphs_and_layers():
    need(MAKE_RUN)
    equal(os.spawnl(os.P_WAIT, MAKE_RUN, MAKE_RUN, str(HERE.parent.parent / "bench" / "data"),
                    "made.mscope", "10000"), 0)
    same("made.mscope", round_trip("made.mscope", "-o", "a.json.gz"))


@test
def two_ranks():
    os.mkdir("two.mscope")
    for rank in range(2):
        os.environ["RANK"] = str(rank)
        one = record(f"{rank}.mscope", 3)
        for path in pathlib.Path(one).iterdir():
            path.rename(pathlib.Path("two.mscope") / path.name)
    del os.environ["RANK"]
    same("two.mscope", round_trip("two.mscope", "--per-rank", "-o", "traces"))
    same("two.mscope", round_trip("two.mscope", "-o", "one.json"))


@test
def a_trace_of_another_profiler():
    trace = FIXTURES / "h200-torch2.11-mixtral-train.pt.trace.json.gz"
    if not trace.exists():
        raise Skip(f"{trace} is not there")
    equal(moescope("import", str(trace), "-o", "once.mscope").status, 0)
    same("once.mscope", round_trip("once.mscope", "-o", "a.json.gz"))


@test
def a_trace_in_place_of_a_run():
    equal(moescope("export", RECORDED, "-o", "a.json.gz").status, 0)
    same(RECORDED, "a.json.gz", ("kernels", "report"))


if __name__ == "__main__":
    main()
