# SPDX-License-Identifier: Apache-2.0
"""What the guide of an earlier MoE GPU profiler shows, with only the import changed; the model is a
tiny one of random bytes."""
import json
import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

from moescope import (AdvancedGPUProfiler, MoEMinimalLLM, MoEModelConfig,  # noqa: E402
                      ProfilerContext, profile_function, train_moe_model)

SIZES = dict(d_model=16, n_heads=2, n_layers=2, d_ff=24, num_experts=4, max_seq_len=16, max_steps=3,
             dropout=0.0)


def batches(n, seed=0):
    source = torch.Generator().manual_seed(seed)
    return [(torch.randint(256, (2, 16), generator=source), torch.randint(256, (2, 16), generator=source))
            for _ in range(n)]


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_quick_start(capsys):
    config = MoEModelConfig(**SIZES)
    profiler = AdvancedGPUProfiler(num_experts=4, enable_profiling=True)
    with ProfilerContext(profiler) as p:
        model = MoEMinimalLLM(config, profiler=p)
        logits, aux = model(batches(1)[0][0])
        (logits.sum() + aux).backward()
        p.print_dashboard()
    text = capsys.readouterr().out
    for words in ("Memory", "Kernels", "Data movement", "Expert routing", "Load balance score"):
        assert words in text
    # 2 layers, 32 tokens, 2 experts each
    assert sum(profiler.get_current_stats()["expert_routing"]["tokens_per_expert"]) == 128
    assert any(name.startswith("profiler_report_") for name in os.listdir("profiler_output"))


def test_routing_is_what_the_model_computed():
    """Recounted from the rows that each expert was really given."""
    profiler = AdvancedGPUProfiler(num_experts=4)
    model = MoEMinimalLLM(SIZES, profiler=profiler)
    rows = [0] * 4
    for block in model.blocks:
        for number, expert in enumerate(block.moe.experts):
            expert.register_forward_pre_hook(
                lambda _, inputs, n=number: rows.__setitem__(n, rows[n] + len(inputs[0])))
    with profiler:
        model(batches(1)[0][0])
        stats = profiler.get_current_stats()
    assert stats["expert_routing"]["tokens_per_expert"] == rows and sum(rows) == 128
    calls = stats["kernel"]["expert_performance"]
    assert {int(k): v["total_calls"] for k, v in calls.items()} == dict.fromkeys(range(4), 2)


@pytest.mark.parametrize("enabled", [True, False])
def test_training_with_and_without(enabled):
    train_loader, val_loader = batches(2), batches(1, seed=9)
    config = MoEModelConfig(**SIZES)
    model, final_metrics = train_moe_model(
        config, train_loader, val_loader,
        enable_profiling=enabled
    )
    assert final_metrics["steps"] == 3 and final_metrics["tokens"] == 96
    assert 5 < final_metrics["val_loss"] < 6.5 and 0 <= final_metrics["val_accuracy"] < 0.2
    stats = final_metrics["profiler"].get_current_stats()
    assert stats["expert_routing"]["total_tokens"] == (2 * 96 if enabled else 0)
    assert os.path.exists("profiler_output") == enabled


def test_profiling_does_not_change_the_result():
    losses = [train_moe_model(SIZES, batches(3), enable_profiling=enabled)[1]["train_loss"]
              for enabled in (False, True)]
    assert losses[0] == losses[1]


def test_it_learns():
    config = dict(SIZES, max_steps=200, learning_rate=1e-2)
    text = torch.tensor([list(b"the experts of a"), list(b"layer share work")])
    before = train_moe_model(dict(config, max_steps=1), [text])[1]["train_loss"]
    after = train_moe_model(config, [text], [text])[1]
    assert after["train_loss"] < before / 4 and after["val_accuracy"] > 0.6


def test_without_pytorch(tmp_path):
    """The same calls on the embedded model, in a Python that cannot find torch."""
    program = tmp_path / "program.py"
    program.write_text(
        "import importlib.util as u, json\n"
        "find = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'torch' else find(name, *rest)\n"
        "from moescope import MoEMinimalLLM, train_moe_model\n"
        f"sizes = dict({SIZES!r}, batch_size=2, learning_rate=1e-3)\n"
        "rows = [[list(b'the experts of a layer share the work ' * 20)]] * 3\n"
        "model, metrics = train_moe_model(sizes, rows, enable_profiling=True)\n"
        "assert isinstance(model, MoEMinimalLLM)\n"
        "import sys; assert 'torch' not in sys.modules\n"
        "from moescope import _library as lib\n"
        "steps = lib.table('steps', metrics['run'])\n"
        "print(json.dumps([metrics['train_loss'], metrics['tokens'], metrics['val_loss_reason'],\n"
        "                  steps['total']['steps'], len(model.generate('the ', 8))]))\n")
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loss, tokens, reason, steps, length = json.loads(done.stdout)
    assert 4 < loss < 6.5 and tokens == 96 and steps == 3 and "tinymoe" in reason and length >= 8


def test_by_hand(capsys):
    size_bytes = 4096
    profiler = AdvancedGPUProfiler(num_experts=8)
    profiler.start_profiling()
    profiler.profile_memory_allocation(size_bytes, expert_id=0, operation="attention")
    profiler.profile_kernel_execution("attention_kernel", expert_id=0, operation_type="attention")
    profiler.profile_expert_routing([0, 1], token_count=10)
    profiler.print_dashboard()
    profiler.stop_profiling()
    assert "50.0%, 50.0%, 0.0%" in capsys.readouterr().out
    stats = profiler.get_current_stats()
    assert stats["kernel"]["total_kernels_profiled"] == 1
    assert stats["kernel"]["average_kernel_times"]["attention_kernel"] is None


def test_configuration_debug_and_analysis():
    profiler = AdvancedGPUProfiler(num_experts=8, enable_profiling=True,
                                   output_dir="profiler_output", max_history=1000)
    profiler.debug = True

    @profile_function(profiler, "custom_operation")
    def my_custom_function():
        return 42

    with ProfilerContext(profiler):
        assert my_custom_function() == 42
        stats = profiler.get_current_stats()
        assert set(stats) == {"memory", "kernel", "data_movement", "expert_routing"}
        assert stats["kernel"]["average_kernel_times"]["custom_operation"] > 0
        written = profiler.generate_reports()
    names = os.listdir("profiler_output")
    for prefix in ("profiler_report_", "memory_stats_", "kernel_stats_", "expert_routing_"):
        assert any(name.startswith(prefix) for name in names)
    assert os.path.exists(written["report"])
