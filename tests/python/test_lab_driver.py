# SPDX-License-Identifier: Apache-2.0
"""The transformers driver of experiments, against a plain decoding loop that shares nothing with it."""
import json
import os
import shutil
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from moescope.lab.drivers import transformers_driver as driver  # noqa: E402

BASE = dict(engine="transformers", model="mixtral-tiny", task="inference", prompt="Hello, how are you?",
            max_tokens=12, batch_size=2, temperature=0, warmup=1, repeats=2, seed=3, steps=2,
            ignore_eos=False, prompt_tokens=None)


def run(tmp_path, *words, **changes):
    """The header, the requests and the text."""
    path = tmp_path / "requests.jsonl"
    driver.run({**BASE, **changes}, str(path), driver.options_of(["--device", "cpu", *words]))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    requests = [line for line in lines if "sent_ns" in line]
    return lines[0], requests, lines[-1].get("text")


def greedy(model, ids, n):
    """Token by token without a cache: the whole sequence again each time."""
    ids = list(ids)
    with torch.no_grad():
        for _ in range(n):
            ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
    return ids[-n:]


def test_lines_are_what_was_generated(tmp_path):
    header, requests, text = run(tmp_path)
    assert header["schema"] == "moescope/requests/1" and header["load_ns"] > 0
    assert [r["warmup"] for r in requests] == [True] * 2 + [False] * 4
    for r in requests:
        assert r["end"] == "ok" and r["error"] is None and r["server_counts"] is True
        assert r["prompt_tokens"] == 19 and r["output_tokens"] == 12 == len(r["pieces_ns"])
        times = [r["sent_ns"], *r["pieces_ns"], r["end_ns"]]
        assert times == sorted(times) and r["sent_ns"] < r["pieces_ns"][0]
        assert r["end_ns"] == r["pieces_ns"][-1]
    # sequences of a batch share its times; repeats follow each other
    assert requests[2]["pieces_ns"] == requests[3]["pieces_ns"]
    assert requests[3]["end_ns"] <= requests[4]["sent_ns"]

    model, _ = driver.make_model(BASE, driver.options_of(["--device", "cpu"]))
    expected = greedy(model, BASE["prompt"].encode(), 12)
    assert text == "token ids: " + " ".join(map(str, expected))


def test_seed_and_temperature(tmp_path):
    texts = [run(tmp_path, temperature=t, seed=s, warmup=0, repeats=1, batch_size=1)[2]
             for t, s in ((0.7, 3), (0.7, 3), (0, 3))]
    assert texts[0] == texts[1] != texts[2]


def test_a_sequence_that_ends_counts_to_its_end(tmp_path):
    """A model with weights and an end of its own: greedy stops where the plain loop meets it."""
    model, _ = driver.make_model(BASE, driver.options_of(["--device", "cpu"]))
    tokens = greedy(model, BASE["prompt"].encode(), 12)
    at = next(i for i in range(2, 11) if tokens[i] not in tokens[:i])
    end = tokens[at]
    model.generation_config.eos_token_id = end
    model.save_pretrained(tmp_path / "model")
    _, requests, text = run(tmp_path, model=str(tmp_path / "model"), repeats=1)
    assert [r["output_tokens"] for r in requests if not r["warmup"]] == [at + 1] * 2
    assert text == "token ids: " + " ".join(map(str, tokens[:at + 1]))
    _, requests, _ = run(tmp_path, model=str(tmp_path / "model"), repeats=1, ignore_eos=True)
    assert [r["output_tokens"] for r in requests if not r["warmup"]] == [12, 12]


def test_padding_is_not_generated():
    assert driver.generated([4, 9, 0, 0], [9]) == 2
    assert driver.generated([4, 5], [9]) == 2
    assert driver.generated([4, 5], []) == 2


def test_prompt_of_a_length(tmp_path):
    _, requests, _ = run(tmp_path, prompt_tokens="40", repeats=1, warmup=0)
    assert {r["prompt_tokens"] for r in requests} == {40}
    with pytest.raises(driver.Refused, match="prompt_tokens"):
        run(tmp_path, prompt_tokens="uniform:1,5")


def test_configuration_file_with_random_weights(tmp_path):
    folder = tmp_path / "shape"
    folder.mkdir()
    values = dict(driver.NAMED["llama-tiny"], num_hidden_layers=1)
    (folder / "config.json").write_text(json.dumps(values))
    for model in (folder, folder / "config.json"):
        _, requests, _ = run(tmp_path, model=str(model), repeats=1, warmup=0, batch_size=1)
        assert requests[0]["output_tokens"] == 12
    made, _ = driver.make_model(dict(BASE, model=str(folder)), driver.options_of(
        ["--device", "cpu", "--set", "num_hidden_layers=3", "--dtype", "bfloat16"]))
    assert made.config.num_hidden_layers == 3 and made.dtype == torch.bfloat16


@pytest.mark.parametrize("name", [n for n in driver.NAMED if n.endswith("tiny")])
def test_named_configurations(tmp_path, name):
    assert run(tmp_path, model=name, repeats=1, warmup=0, max_tokens=3)[1][0]["output_tokens"] == 3


def test_training(tmp_path, capsys):
    header, requests, text = run(tmp_path, task="training", steps=3, max_tokens=16, repeats=1)
    assert text is None
    assert [(r["warmup"], r["prompt_tokens"], r["output_tokens"]) for r in requests] == \
        [(True, 32, 0)] + [(False, 32, 0)] * 3
    losses = [float(line.split()[-1]) for line in capsys.readouterr().out.splitlines()
              if line.startswith("step ")]
    assert len(losses) == 4 and all(5 < loss < 7.5 for loss in losses)  # about ln 512


def test_a_failure_is_noted_with_its_reason(tmp_path, monkeypatch):
    calls = []
    make = driver.make_model

    def breaks_later(config, options):
        model, tokenizer = make(config, options)
        forward = model.forward

        def failing(*args, **kwargs):
            calls.append(1)
            if len(calls) > 20:
                raise RuntimeError("CUDA out of\nmemory")
            return forward(*args, **kwargs)
        model.forward = failing
        return model, tokenizer
    monkeypatch.setattr(driver, "make_model", breaks_later)
    with pytest.raises(RuntimeError):
        run(tmp_path, warmup=0)
    lines = [json.loads(line) for line in (tmp_path / "requests.jsonl").read_text().splitlines()]
    assert [r["end"] for r in lines[1:]] == ["ok", "ok", "failed", "failed"]
    assert lines[-1]["error"] == "RuntimeError: CUDA out of memory"
    assert len(lines[-1]["pieces_ns"]) == lines[-1]["output_tokens"] == 8


def as_program(folder, text):
    """The script alone in a folder, as an experiment leaves it."""
    shutil.copy(driver.__file__, folder / "inference_script.py")
    (folder / "config.yaml").write_text(text)
    env = {key: value for key, value in os.environ.items()
           if not key.startswith(("MOESCOPE_BENCH", "PYTHONPATH"))}
    return subprocess.run([sys.executable, str(folder / "inference_script.py"), "--device", "cpu"],
                          capture_output=True, text=True, env=env)


def test_runs_alone(tmp_path):
    done = as_program(tmp_path, "".join(f"{key}: {json.dumps(value)}\n" for key, value in BASE.items()))
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "requests.jsonl").read_text().splitlines()) == 1 + 6 + 1


@pytest.mark.parametrize("launcher", [
    [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"],
    ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2"]], ids=["torchrun", "mpirun"])
def test_several_processes(tmp_path, launcher):
    """The requests of both are in one file, and each repeat begins when both have ended the last."""
    if not shutil.which(launcher[0]):
        pytest.skip(f"{launcher[0]} is not installed")
    shutil.copy(driver.__file__, tmp_path / "inference_script.py")
    (tmp_path / "config.yaml").write_text("".join(
        f"{key}: {json.dumps(value)}\n" for key, value in BASE.items()))
    python = [] if "torch" in launcher[2] else [sys.executable]
    done = subprocess.run([*launcher, *python, str(tmp_path / "inference_script.py"), "--device", "cpu"],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (tmp_path / "requests.jsonl").read_text().splitlines()]
    requests = [line for line in lines if "sent_ns" in line]
    assert [r["warmup"] for r in requests] == [True] * 4 + [False] * 8
    assert len({(r["sent_ns"], tuple(r["pieces_ns"])) for r in requests}) == 3 * 2
    for first in range(0, 12, 4):
        batch = requests[first:first + 4]
        # That nobody begins a repeat before everybody has ended the last is certain; that one has not ended
        # before the other gets a processor is not.
        assert all(r["end_ns"] <= later["sent_ns"] for r in batch for later in requests[first + 4:])
    assert sum(r["output_tokens"] for r in requests) == 12 * 12


def test_a_missing_model_is_one_sentence(tmp_path):
    done = as_program(tmp_path, "model: /nowhere/model\nseed: 0\ntask: inference\n")
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("inference_script.py: /nowhere/model does not exist;")
    assert not (tmp_path / "requests.jsonl").exists()
