# SPDX-License-Identifier: Apache-2.0
"""PyTorch programs that know nothing of moescope, under `moescope run`: steps are the program's own,
phases are those that it measures itself, and the program does the same as without."""
import functools
import glob
import json
import os
import statistics
import subprocess
import sys

import pytest

from moescope import _library

torch = pytest.importorskip("torch")
PROGRAMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "auto_programs.py")
PATIENCE_S = 600
PLAIN = {}  # name: status, output and errors without moescope


def start(words, folder, **env):
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, cwd=folder,
                          env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **env}, check=False)
    return done.returncode, done.stdout, done.stderr


class Program:
    """One of auto_programs.py, without and with moescope."""

    def __init__(self, folder, name, *options, **env):
        self.run = str(folder / "a.mscope")
        self._name, self._folder, self._env = name, folder, env
        self.same = start([_library.tool_path(), "run", "-q", "-o", self.run, *options, "--", sys.executable,
                           PROGRAMS, name, str(folder / "told.json")], folder, **env)
        self.told = json.loads((folder / "told.json").read_text(encoding="utf-8"))

    @property
    def plain(self):
        """The same once, whoever asks."""
        if self._name not in PLAIN:
            PLAIN[self._name] = start([sys.executable, PROGRAMS, self._name,
                                       str(self._folder / "plain.json")], self._folder, **self._env)
        return PLAIN[self._name]

    @functools.cached_property
    def document(self):
        return _library.table("steps", self.run)

    @property
    def steps(self):
        return self.document["rows"]

    @functools.cached_property
    def facts(self):
        """What the run says of itself."""
        return " ".join(_library.run_tool("report", self.run, "--width", "1000").split("Steps\n")[0].split())

    @property
    def ranges(self):
        return {row["name"]: row["count"] for row in _library.table("ops", self.run)["rows"]
                if row["kind"] == "range"}

    def check(self):
        """Nothing of the program has changed, and its steps are in the run."""
        assert self.same == self.plain
        assert [row["step"] for row in self.steps] == list(range(self.told["steps"]))
        assert not any(row["unfinished"] for row in self.steps)


def shards_of(run):
    """Of processes, not that of the machine."""
    return glob.glob(os.path.join(run, "[0-9]*.mst"))


@pytest.mark.parametrize("name", ["accumulation", "scaler", "gan", "three", "critic", "closure",
                                  "in_backward", "broken_step"])
def test_steps_are_the_programs(tmp_path, name):
    Program(tmp_path, name).check()


def test_calls_of_a_model_are_steps_without_an_optimizer(tmp_path):
    program = Program(tmp_path, "inference")
    program.check()
    assert "there is no optimizer, so a step is a call of Sequential" in program.facts


def test_phases_are_those_that_the_program_measures(tmp_path):
    program = Program(tmp_path, "plain")
    program.check()
    for phase in ("data", "forward", "backward", "optimizer"):
        shares = [row["phases"][phase] / own[phase]
                  for row, own in zip(program.steps, program.told["phases"])]
        assert 0.98 < statistics.median(shares) < 1.02, (phase, shares)
    assert program.ranges == dict.fromkeys(("data", "forward", "backward", "optimizer"), 12)


def test_evaluation_is_told_apart(tmp_path):
    program = Program(tmp_path, "evaluation")
    program.check()
    assert program.ranges["evaluation"] == 9 and program.ranges["forward"] == 8
    # The first look at the validation data is before the first step, the second one in the fifth.
    assert ["evaluation" in row["phases"] for row in program.steps] == [i == 4 for i in range(8)]


def test_operations_of_some_steps(tmp_path):
    program = Program(tmp_path, "plain")
    assert "auto operations: recorded in step 2" in program.facts
    assert "without the program's help: a step ends with each step of AdamW; times are" in program.facts
    rows = {row["name"]: row for row in _library.table("ops", program.run, "--steps", "2:2")["rows"]}
    assert rows["aten::addmm"]["count"] == 4 and rows["aten::addmm"]["flops"] == \
        2 * 64 * 1024 * (3 * 1024 + 1)
    # in their phases
    for phase, name in (("forward", "aten::relu"), ("backward", "aten::threshold_backward"),
                        ("optimizer", "aten::addcdiv_"), ("data", "aten::sort")):
        names = {row["name"] for row in
                 _library.table("ops", program.run, "--steps", "2:2", "--phase", phase)["rows"]}
        assert name in names, (phase, names)
    before = {row["name"] for row in _library.table("ops", program.run, "--steps", "0:1")["rows"]}
    assert before == {"data", "forward", "backward", "optimizer"}


@pytest.mark.parametrize("level, ranges", [("steps", True), ("counts", False)])
def test_levels(tmp_path, level, ranges):
    program = Program(tmp_path, "accumulation", "--level", level)
    program.check()
    names = {row["name"] for row in _library.table("ops", program.run)["rows"]}
    assert names == ({"data", "forward", "backward", "optimizer"} if ranges else set())


def test_a_schedule(tmp_path):
    program = Program(tmp_path, "accumulation", "--schedule", "wait=2,active=1")
    program.check()
    assert [row["recorded"] for row in program.steps] == [False, False, True] * 4


@pytest.mark.parametrize("name, status", [("exception", 1), ("exits", 7)])
def test_an_end_in_the_middle_of_a_step(tmp_path, name, status):
    program = Program(tmp_path, name)
    program.check()
    assert program.same[0] == status


@pytest.mark.parametrize("name", ["workers", "spawned_workers"])
def test_workers_of_a_loader_are_no_processes_of_the_run(tmp_path, name):
    # At the end of a spawned worker Python's tracker sometimes warns of a semaphore that is just going.
    program = Program(tmp_path, name, PYTHONWARNINGS="ignore:resource_tracker")
    program.check()
    assert len(shards_of(program.run)) == 1


def test_a_forked_child_is_a_process_of_the_run(tmp_path):
    program = Program(tmp_path, "forked")
    assert program.same == program.plain
    shards = {}
    for file in shards_of(program.run):
        rows = [row for row in _library.table("steps", file)["rows"] if not row["unfinished"]]
        shards[file] = len(rows)
        assert all(row["phases"]["forward"] > 0 for row in rows)
    assert sorted(shards.values()) == [program.told["child"], program.told["steps"]]


def test_a_program_with_its_own_steps_is_left_alone(tmp_path):
    program = Program(tmp_path, "own_steps")
    program.check()
    assert {row["tokens"] for row in program.steps} == {7}
    assert "the program profiles itself (moescope.step)" in program.facts


@pytest.mark.parametrize("name", ["own_profile", "trainer_with_callback"])
def test_a_program_with_a_profiler_of_ours_is_left_alone(tmp_path, name):
    pytest.importorskip("transformers")
    program = Program(tmp_path, name)
    assert program.same[:2] == program.plain[:2]  # torch's profiler prints times
    assert [row["step"] for row in program.steps if not row["unfinished"]] == list(
        range(program.told["steps"]))
    assert "the program profiles itself (moescope's profilers)" in program.facts


def test_a_program_with_a_profiler_of_torch_is_left_alone(tmp_path):
    program = Program(tmp_path, "torch_profiler")
    assert program.same[:2] == program.plain[:2]
    assert [row["step"] for row in program.steps] == [0, 1, 2]
    assert "the program profiles itself (a profiler of torch), so steps and phases are left to it " \
           "after 3 steps" in program.facts


def test_compiled_models(tmp_path):
    program = Program(tmp_path, "compiled", BACKEND="eager", TORCH_LOGS="-all")
    assert program.same[:2] == program.plain[:2]  # torch's own warnings have times in them
    assert len(program.steps) == program.told["steps"]


def test_trainer(tmp_path):
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    program = Program(tmp_path, "trainer")
    program.check()
    assert {row["tokens"] for row in program.steps} == {program.told["tokens"]}
    assert program.ranges["forward"] == program.ranges["backward"] == 12
    assert all(row["phases"][phase] > 0 for row in program.steps
               for phase in ("data", "forward", "backward", "optimizer"))


def test_lightning(tmp_path):
    pytest.importorskip("lightning")
    program = Program(tmp_path, "lightning")
    program.check()
    assert program.ranges["forward"] == program.ranges["backward"] == 16
    # forward and backward are inside the optimizer's step there, and their time is not the optimizer's
    last = program.steps[-1]
    assert all(last["phases"][phase] > 0 for phase in ("forward", "backward", "optimizer"))
    assert sum(last["phases"].values()) <= last["time_ns"]


def test_switched_off(tmp_path):
    program = Program(tmp_path, "accumulation", "--no-auto")
    assert program.same[:2] == program.plain[:2] and "nothing was recorded" in program.same[2]


def test_without_a_library_the_program_runs(tmp_path):
    program = Program(tmp_path, "accumulation", MOESCOPE_LIBRARY=str(tmp_path / "none.so"))
    assert program.same[:2] == program.plain[:2]
    with open(os.path.join(program.run, "run.json"), encoding="utf-8") as file:
        notes = json.load(file)["notes"]
    assert notes.startswith("steps and phases of PyTorch are not recorded: libmoescope.so was not found")


def test_beside_cuda_operations_are_left_to_others(tmp_path):
    program = Program(tmp_path, "beside_cuda")
    program.check()
    assert "auto operations: not recorded: beside CUDA that is left to moescope.profile" in program.facts
    assert program.ranges == dict.fromkeys(("data", "forward", "backward", "optimizer"), 12)
    assert {row["name"] for row in _library.table("ops", program.run)["rows"]} == set(program.ranges)


def test_cuda_is_not_initialised(tmp_path):
    program = Program(tmp_path, "without_cuda_calls")
    program.check()
    assert "auto operations: recorded in step 2" in program.facts
    assert program.told["cuda_calls"] == []
