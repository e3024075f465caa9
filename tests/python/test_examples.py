# SPDX-License-Identifier: Apache-2.0
"""The Python examples run as their page says."""
import os
import subprocess
import sys

import pytest
from loggers import folder, need

from moescope import _library

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def test_routing(tmp_path):
    pytest.importorskip("transformers")
    run = str(tmp_path / "a.mscope")
    done = subprocess.run([sys.executable, os.path.join(ROOT, "examples", "pytorch", "routing.py"),
                           "--run", run, "--tokens", "6"], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": os.path.join(ROOT, "python")})
    assert done.returncode == 0, done.stderr
    assert "layer_3" in done.stdout
    rows = _library.table("routing", run)["rows"]
    prefill = [row for row in rows if row["phase"] == "prefill"]
    decode = [row for row in rows if row["phase"] == "decode"]
    assert [row["assignments"] for row in prefill] == [4 * 64 * 2] * 4
    assert [row["assignments"] for row in decode] == [4 * 5 * 2] * 4


def example(tmp_path, name, *words):
    env = {**os.environ, "PYTHONPATH": os.path.join(ROOT, "python"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, os.path.join(ROOT, "examples", "pytorch", name), *words],
                          capture_output=True, text=True, env=env, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_trainer_with_the_flags_of_the_profiler(tmp_path):
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    out = example(tmp_path, "train_trainer.py", "--steps", "4", "--enable-profiling",
                  "--enable-memory-logging", "--memory-log-steps", "2", "--profiler-wait-steps", "1",
                  "--profiler-warmup-steps", "1", "--profiler-active-steps", "2")
    assert "[Step 4] Host:" in out and "aten::mm" in out
    run = out.split("next: moescope report ")[1].strip()
    assert len(_library.table("steps", str(tmp_path / run))["rows"]) == 4
    assert [n for n in os.listdir(tmp_path / "profiler_traces") if n.endswith(".pt.trace.json")]


def test_parts_of_a_mixture(tmp_path):
    pytest.importorskip("torch")
    out = example(tmp_path, "moe_profiling_example.py", "--rounds", "2")
    run = out.split("next: moescope ops ")[1].strip()
    counts = {row["name"]: row["count"] for row in _library.table("ops", run)["rows"]}
    assert counts["Complete_MoE_Workflow"] == 3  # one to warm up
    assert counts["Expert_Forward"] == counts["GeLU_Activation"] == 4 * 3 + 2 * 3
    assert counts["GPU_to_GPU_Transfer"] == 2 * 3 + 3


def test_figures_beside_the_loss(tmp_path):
    pytest.importorskip("transformers")
    need("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    env = {**os.environ, "OMP_NUM_THREADS": "1",
           "PYTHONPATH": os.pathsep.join([os.path.join(ROOT, "python"), folder()])}
    done = subprocess.run([sys.executable, os.path.join(ROOT, "examples", "pytorch", "log_to.py"),
                           "--steps", "5"], capture_output=True, text=True, env=env, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = EventAccumulator(str(tmp_path / "logs")).Reload()
    for tag in ("loss", "moescope/step_ms", "moescope/tokens_per_s", "moescope/layer_3/balance"):
        assert [event.step for event in found.Scalars(tag)] == [0, 1, 2, 3, 4], tag
