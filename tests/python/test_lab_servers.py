# SPDX-License-Identifier: Apache-2.0
"""Engines vllm and sglang with stand-ins for their servers, which note what they were started with and
when they sent each token."""
import csv
import glob
import json
import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lab"))
import fake_servers  # noqa: E402

from moescope.lab import ExperimentConfig, ExperimentRunner  # noqa: E402

LOAD = dict(model="org/model", requests=6, concurrency=2, warmup=1, max_tokens=5, seed=9)


@pytest.fixture(autouse=True)
def fake(tmp_path, monkeypatch):
    folder = tmp_path / "fake"
    fake_servers.install(str(folder))
    monkeypatch.setenv("PATH", f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", f"{folder / 'packages'}{os.pathsep}{os.environ['PYTHONPATH']}")
    monkeypatch.chdir(tmp_path)
    return folder


def run(engine, **changes):
    return ExperimentRunner(ExperimentConfig(engine=engine, **{**LOAD, **changes})).run()


def truth(folder):
    path, = glob.glob(str(folder / "truth-*.jsonl"))
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def is_gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.parametrize("engine, parallel, seed", [
    ("vllm", "tensor-parallel-size", "seed"), ("sglang", "tp-size", "random-seed")])
def test_a_server_is_started_asked_and_stopped(fake, engine, parallel, seed):
    results = run(engine, tensor_parallel_size=4, server_args=["--max-model-len", "4096"])
    assert results["status"] == "success", results["error"]
    start, = fake_servers.started(fake)
    assert start["program"] == engine and is_gone(start["pid"])
    assert (start[parallel], start[seed], start["host"], start["max-model-len"]) == \
        ("4", "9", "127.0.0.1", "4096")
    sent = truth(fake)
    assert len(sent) == 7 and all(r["end"] == "ok" and r["output_tokens"] == 5 for r in sent)
    metrics = results["metrics"]
    assert metrics["output_tokens"] == 30 and metrics["requests"] == 6
    assert "expert_distribution.csv" not in os.listdir(results["directory"])


def test_a_server_that_dies_is_a_failure_with_its_words(fake, monkeypatch):
    monkeypatch.setenv("FAKE_SERVER_FAILS", "1")
    results = run("vllm")
    assert results["status"] == "failed"
    assert "CUDA out of memory" in results["error"] and "status 1" in results["error"]


def test_what_is_not_installed_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", "/nowhere")
    results = run("vllm")
    assert results["status"] == "failed" and "'pip install vllm'" in results["error"]
    monkeypatch.setenv("PYTHONPATH", "")
    results = run("sglang")
    assert results["status"] == "failed" and "-m pip install sglang'" in results["error"]
    assert not (tmp_path / "fake" / "started.jsonl").exists()


def test_the_recorder_of_sglang(fake):
    pytest.importorskip("torch")
    results = run("sglang", profile_mode="trace")
    assert results["status"] == "success", results["error"]
    assert fake_servers.started(fake)[0]["expert-distribution-recorder-mode"] == "stat"
    with open(os.path.join(results["directory"], "expert_distribution.csv"), encoding="utf-8") as file:
        rows = [tuple(map(int, row.values())) for row in csv.DictReader(file)]
    n = sum(request["output_tokens"] for request in truth(fake))  # warm-up, too
    assert n == 35
    assert rows == [(0, 0, n), (0, 1, 2 * n), (0, 2, 0), (1, 0, 0), (1, 1, n), (1, 2, 2 * n)]
    assert "expert_distribution.csv" in results["files"]


def test_a_recorder_that_fails_leaves_the_measurement(fake, monkeypatch):
    monkeypatch.setenv("FAKE_RECORDER_FAILS", "1")
    results = run("sglang", profile_mode="trace")
    assert results["status"] == "success" and results["metrics"]["output_tokens"] == 30
    assert any("did not count its experts" in note and "status 500" in note
               for note in results["notes"]), results
    assert "expert_distribution.csv" not in results["files"]
