# SPDX-License-Identifier: Apache-2.0
"""PyTorch programs that know nothing of moescope, under `moescope run`: steps are the program's own,
phases are those that it measures itself, and the program does the same as without."""
import functools
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


def start(words, folder, **env):
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, cwd=folder,
                          env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **env}, check=False)
    return done.returncode, done.stdout, done.stderr


class Program:
    """One of auto_programs.py, without and with moescope."""

    def __init__(self, folder, name, *options, **env):
        self.run = str(folder / "a.mscope")
        words = [sys.executable, PROGRAMS, name]
        self.plain = start([*words, str(folder / "plain.json")], folder, **env)
        self.same = start([_library.tool_path(), "run", "-q", "-o", self.run, *options, "--", *words,
                           str(folder / "told.json")], folder, **env)
        self.told = json.loads((folder / "told.json").read_text(encoding="utf-8"))

    @functools.cached_property
    def document(self):
        return _library.table("steps", self.run)

    @property
    def steps(self):
        return self.document["rows"]

    @functools.cached_property
    def facts(self):
        return json.loads(_library.run_tool("report", self.run, "--json"))["run"]["info"]

    @property
    def ranges(self):
        return {row["name"]: row["count"] for row in _library.table("ops", self.run)["rows"]
                if row["kind"] == "range"}

    def check(self):
        """Nothing of the program has changed, and its steps are in the run."""
        assert self.same == self.plain
        assert [row["step"] for row in self.steps] == list(range(self.told["steps"]))
        assert not any(row["unfinished"] for row in self.steps)


@pytest.mark.parametrize("name", ["accumulation", "scaler", "gan", "three", "critic", "closure",
                                  "in_backward", "broken_step", "inference"])
def test_steps_are_the_programs(tmp_path, name):
    Program(tmp_path, name).check()


def test_phases_are_those_that_the_program_measures(tmp_path):
    program = Program(tmp_path, "plain")
    program.check()
    for phase in ("data", "forward", "backward", "optimizer"):
        shares = [row["phases"][phase] / own[phase]
                  for row, own in zip(program.steps, program.told["phases"])]
        assert 0.98 < statistics.median(shares) < 1.02, (phase, shares)
    assert program.ranges == dict.fromkeys(("data", "forward", "backward", "optimizer"), 12)
