# SPDX-License-Identifier: Apache-2.0
"""Loops that people train with, under the real `moescope run`, in one process and as two ranks: steps,
tokens of each expert and phases equal what the program itself has counted (session_loops.py), or what
a plain sweep over the recorded ranges gives."""
import json
import os
import subprocess
import sys
from collections import defaultdict

import pytest

from moescope import _library

for package in ("torch", "transformers", "accelerate", "lightning"):
    pytest.importorskip(package)

HERE = os.path.dirname(os.path.abspath(__file__))
LOOPS = ("plain_manual", "plain_noticed", "plain_auto", "trainer_manual", "trainer_auto",
         "lightning_manual", "lightning_auto", "accelerate_manual", "accelerate_auto")
PHASED = ("plain_manual", "trainer_auto", "lightning_auto", "accelerate_auto")


@pytest.fixture(scope="module", params=[1, 2], ids=["one process", "two ranks"])
def ranks(request, tmp_path_factory):
    """What each rank wrote, and the run."""
    folder = tmp_path_factory.mktemp("sessions")
    program = [os.path.join(HERE, "session_loops.py"), str(folder)]
    launcher = [sys.executable] if request.param == 1 else [
        sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(request.param),
        "--master-port", "0", "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]
    done = subprocess.run(
        [_library.tool_path(), "run", "-o", str(folder / "run.mscope"), "--", *launcher, *program],
        capture_output=True, text=True, env=dict(os.environ, CUDA_VISIBLE_DEVICES=""), timeout=600)
    assert done.returncode == 0, done.stderr[-4000:]
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(request.param)]


@pytest.mark.parametrize("loop", LOOPS)
def test_what_the_program_sees_of_itself(ranks, loop):
    """Right behind the loop, of its own process, while other ranks write into the same run."""
    for rank in ranks:
        true = rank[loop]
        assert true["loads"] == true["counts"]
        assert true["shown_steps"] == [true["steps"]] * len(true["counts"])
        assert true["series"] == [[true["tokens"]] * true["steps"]] * len(true["counts"])
    if len(ranks) > 1:
        assert ranks[0][loop]["counts"] != ranks[1][loop]["counts"]


@pytest.mark.parametrize("loop", LOOPS)
def test_what_the_run_has(ranks, loop):
    for rank in ranks:
        true = rank[loop]
        document = _library.table("steps", true["shard"])
        # Steps that the profiler makes go on from its session before.
        first = document["rows"][0]["step"] if loop == "plain_auto" else 0
        assert [row["step"] for row in document["rows"]] == list(range(first,
                                                                       first + true["steps"]))
        assert not any(row["unfinished"] for row in document["rows"])
        assert {row["rank"] for row in document["rows"]} == {true["rank"]}
        assert [row["tokens"] for row in document["rows"]] == [true["tokens"]] * true["steps"]
        for layer, counts in enumerate(true["counts"]):
            rows = _library.table("routing", true["shard"], "--layer",
                                  str(true["first_layer"] + layer))["rows"]
            loads = [sum(n) for n in zip(*(one["load"] for row in rows for one in row["series"]))]
            assert loads == counts


def select(shard, what):
    found = json.loads(_library.run_tool("sql", shard, what, "--json"))
    return [dict(zip(found["columns"], row)) for row in found["rows"]]


def innermost(shard):
    """[(start, end, phase)] of each thread, its moments once: a sweep over the ranges."""
    rows = select(shard, "SELECT start_ns, duration_ns, phase, thread, depth FROM ranges "
                         "WHERE phase != ''")
    found = []
    for thread in {row["thread"] for row in rows}:
        spans = [row for row in rows if row["thread"] == thread]
        moments = sorted({t for row in spans for t in (row["start_ns"],
                                                       row["start_ns"] + row["duration_ns"])})
        for a, b in zip(moments, moments[1:]):
            over = [row for row in spans
                    if row["start_ns"] <= a and b <= row["start_ns"] + row["duration_ns"]]
            if over:
                found.append((a, b, max(over, key=lambda row: row["depth"])["phase"]))
    return found


@pytest.mark.parametrize("loop", PHASED)
def test_phases(ranks, loop):
    for rank in ranks:
        true = rank[loop]
        document = _library.table("steps", true["shard"])
        times = select(true["shard"], "SELECT step, start_ns, duration_ns FROM steps")
        pieces = innermost(true["shard"])
        for row, time in zip(document["rows"], times):
            start, end = time["start_ns"], time["start_ns"] + time["duration_ns"]
            want = defaultdict(int)
            for a, b, phase in pieces:
                want[phase] += max(0, min(b, end) - max(a, start))
            want = {phase: ns for phase, ns in want.items() if ns}
            want["other"] = time["duration_ns"] - sum(want.values())
            assert row["phases"] == want
            assert {"forward", "backward"} <= set(row["phases"])
            assert row.get("optimizer_ns", 1) != 0  # there, or not at all
        ranges = {row["name"]: row["count"] for row in _library.table("ops", true["shard"])["rows"]
                  if row["kind"] == "range"}
        assert ranges["forward"] == ranges["backward"] == true["micro"] * true["steps"]
        if loop != "plain_manual":
            assert ranges["optimizer"] == true["steps"]
