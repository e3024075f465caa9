# SPDX-License-Identifier: Apache-2.0
"""What the guide of an earlier MoE GPU profiler shows, with only the import changed.

A tiny model and training function stand in for the guide's; both are given the profiler, as there.
"""
import os

import pytest

torch = pytest.importorskip("torch")

from moescope import AdvancedGPUProfiler, ProfilerContext, profile_function  # noqa: E402


class TinyMoE(torch.nn.Module):
    """Top-2 of four experts; reports its routing and its experts' work to a profiler."""

    def __init__(self, width=8, experts=4, profiler=None):
        super().__init__()
        self.gate = torch.nn.Linear(width, experts)
        self.experts = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(experts))
        self.profiler = profiler

    def forward(self, x):
        weights, chosen = self.gate(x).softmax(-1).topk(2)
        if self.profiler:
            self.profiler.profile_expert_routing(chosen, token_count=x.shape[0])
        out = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            row, slot = torch.where(chosen == e)
            if self.profiler:
                with self.profiler.profile_kernel_execution(f"expert_{e}", e, "expert"):
                    out[row] += weights[row, slot, None] * expert(x[row])
            else:
                out[row] += weights[row, slot, None] * expert(x[row])
        return out


def train(batches, enable_profiling=False, output_dir="profiler_output"):
    """As the guide's training function: makes a profiler when asked for one."""
    profiler = AdvancedGPUProfiler(num_experts=4, enable_profiling=enable_profiling,
                                   output_dir=output_dir)
    model = TinyMoE(profiler=profiler)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with ProfilerContext(profiler) as p:
        for x in batches:
            loss = (model(x) - x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            p.step(x.shape[0])
    return model, {"loss": loss.item(), "profiler": profiler}


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_quick_start(capsys):
    profiler = AdvancedGPUProfiler(num_experts=4, enable_profiling=True)
    with ProfilerContext(profiler) as p:
        model = TinyMoE(profiler=p)
        model(torch.randn(16, 8)).sum().backward()
        p.print_dashboard()
    text = capsys.readouterr().out
    for words in ("Memory", "Kernels", "Data movement", "Expert routing", "Load balance score"):
        assert words in text
    assert sum(profiler.get_current_stats()["expert_routing"]["tokens_per_expert"]) == 32
    assert any(name.startswith("profiler_report_") for name in os.listdir("profiler_output"))


@pytest.mark.parametrize("enabled", [True, False])
def test_training_with_and_without(enabled):
    model, final = train([torch.randn(12, 8) for _ in range(3)], enable_profiling=enabled)
    stats = final["profiler"].get_current_stats()
    assert stats["expert_routing"]["total_tokens"] == (36 if enabled else 0)
    assert os.path.exists("profiler_output") == enabled


def test_profiling_does_not_change_the_result():
    losses = []
    for enabled in (False, True):
        torch.manual_seed(3)
        losses.append(train([torch.randn(12, 8) for _ in range(3)], enabled)[1]["loss"])
    assert losses[0] == losses[1]


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
