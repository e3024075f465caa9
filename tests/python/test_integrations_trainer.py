# SPDX-License-Identifier: Apache-2.0
"""Callbacks in Hugging Face's Trainer, on a tiny model."""
import argparse
import glob
import re

import pytest

import moescope
from moescope import _library

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")


def trainer(folder, callbacks, steps=6, accumulate=1):
    torch.manual_seed(0)
    config = transformers.MixtralConfig(
        vocab_size=32, hidden_size=16, intermediate_size=16, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2)
    data = [{"input_ids": torch.arange(8), "labels": torch.arange(8)} for _ in range(64)]
    arguments = transformers.TrainingArguments(
        output_dir=str(folder / "out"), max_steps=steps, per_device_train_batch_size=2,
        gradient_accumulation_steps=accumulate, report_to=[], save_strategy="no",
        disable_tqdm=True, use_cpu=True, logging_strategy="no")
    return transformers.Trainer(model=transformers.MixtralForCausalLM(config), args=arguments,
                                train_dataset=data, callbacks=callbacks)


def weights(one):
    return {name: value.clone() for name, value in one.model.state_dict().items()}


def test_steps_micro_batches_and_traces(tmp_path):
    callback = moescope.MoescopeProfilerCallback(
        output_dir=str(tmp_path / "traces"), wait_steps=1, warmup_steps=1, active_steps=2,
        repeat_times=1, record_shapes=True, profile_memory=True, with_flops=True)
    profiled = trainer(tmp_path, [callback], steps=5, accumulate=3)
    profiled.train()
    plain = trainer(tmp_path, [], steps=5, accumulate=3)
    plain.train()
    for name, value in weights(plain).items():
        assert torch.equal(value, weights(profiled)[name]), name

    assert len(glob.glob(str(tmp_path / "traces" / "rank0_*.pt.trace.json"))) == 1
    (run,) = glob.glob(str(tmp_path / "traces" / "*.mscope"))
    assert callback.profile.run == run
    rows = [r for r in _library.table("steps", run)["rows"] if not r["unfinished"]]
    assert [r["recorded"] for r in rows] == [False, False, True, True, False]
    assert [r["tokens"] for r in rows] == [3 * 2 * 8] * 5  # micro-batches, rows, positions
    assert not profiled.model._forward_pre_hooks
    for row in rows[2:4]:
        assert all(row["phases"][p] > 0 for p in ("forward", "backward", "optimizer", "data"))
    counts = {r["name"]: r["count"] for r in _library.table("ops", run)["rows"]}
    assert counts["micro_batch"] == counts["forward"] == counts["backward"] == 6
    assert counts["optimizer"] == 2
    averages = {r.key: r for r in callback.profile.key_averages()}
    assert averages["ProfilerStep*"].count == 2 and averages["aten::mm"].flops > 0
    assert averages["aten::mm"].self_cpu_memory_usage is not None
    assert not moescope.recording()


def test_other_ranks_do_nothing(tmp_path):
    callback = moescope.ProfilerCallback(output_dir=str(tmp_path / "traces"), ranks=[1])
    trainer(tmp_path, [callback], steps=1).train()
    assert callback.profile is None and not (tmp_path / "traces").exists()


def test_a_training_that_fails_leaves_nothing_behind(tmp_path):
    before = torch.autograd.backward

    class Failing(transformers.TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            if state.global_step == 2:
                raise RuntimeError("disk full")
    callback = moescope.MoescopeProfilerCallback(
        output_dir=str(tmp_path / "traces"), wait_steps=0, warmup_steps=0, active_steps=5)
    with pytest.raises(RuntimeError, match="disk full"):
        trainer(tmp_path, [callback, Failing()], steps=4).train()
    callback.stop()
    assert torch.autograd.backward is before and not torch.autograd._profiler_enabled()
    assert not moescope.recording()


def test_memory_callback(tmp_path):
    lines = []
    trainer(tmp_path, [moescope.MoescopeMemoryCallback(2, log=lines.append)], steps=4).train()
    steps = [line for line in lines if line.startswith("[Step ")]
    if not torch.cuda.is_available():
        assert "no GPU memory to log" in lines[0]
        assert [re.match(r"\[Step (\d+)\] Host: Resident: \d+\.\d+ GB, Peak: \d+\.\d+ GB$",
                         line).group(1) for line in steps] == ["2", "4"]
    with pytest.raises(ValueError, match="at least 1"):
        moescope.SimpleGPUMemoryCallback(0)


def test_memory_lines_of_gpus(monkeypatch):
    from moescope.integrations import memory
    values = {"is_available": True, "device_count": 3, "current_device": 0}
    for name, value in values.items():
        monkeypatch.setattr(torch.cuda, name, lambda value=value: value)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda d: (d + 1) << 30)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda d: (0, 2 << 30, 0)[d])
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda d: 3 << 29)
    assert memory.gpu_lines(7) == [
        "[Step 7] GPU 0: Allocated: 1.00 GB, Reserved: 0.00 GB, Peak: 1.50 GB",
        "[Step 7] GPU 1: Allocated: 2.00 GB, Reserved: 2.00 GB, Peak: 1.50 GB"]


def parse(*words):
    return moescope.add_arguments(argparse.ArgumentParser()).parse_args(words)


def test_flags_and_their_defaults():
    assert vars(parse()) == {
        "enable_profiling": False, "enable_memory_logging": False,
        "profiler_output_dir": "./profiler_traces", "profiler_wait_steps": 5,
        "profiler_warmup_steps": 2, "profiler_active_steps": 3, "profiler_repeat": 1,
        "memory_log_steps": 10}
    assert moescope.callbacks_from_arguments(parse()) == []


def test_flags_reach_the_callbacks(tmp_path):
    callbacks = moescope.callbacks_from_arguments(parse(
        "--enable-profiling", "--profiler-output-dir", str(tmp_path / "t"),
        "--profiler-wait-steps", "0", "--profiler-warmup-steps", "1", "--profiler-active-steps",
        "1", "--profiler-repeat", "2", "--enable-memory-logging", "--memory-log-steps", "3"))
    assert [type(c) for c in callbacks] == [moescope.MoescopeProfilerCallback,
                                            moescope.MoescopeMemoryCallback]
    assert callbacks[1].log_steps == 3
    trainer(tmp_path, callbacks[:1], steps=5).train()
    assert len(glob.glob(str(tmp_path / "t" / "*.pt.trace.json"))) == 2


@pytest.mark.parametrize("words", [("--profiler-active-steps", "0"), ("--memory-log-steps", "0"),
                                   ("--profiler-wait-steps", "-1"), ("--profiler-repeat", "x")])
def test_bad_flags(words, capsys):
    with pytest.raises(SystemExit):
        parse(*words)
    assert words[0] in capsys.readouterr().err
