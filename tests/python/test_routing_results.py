# SPDX-License-Identifier: Apache-2.0
"""What users read: summaries, tables, pictures, wrappers, benchmarks, the size of a trace."""
import csv
import json
import math
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

import moescope  # noqa: E402
from moescope import _library as lib, api, frames  # noqa: E402
from moescope.routing import summary  # noqa: E402
from moescope.routing.sender import Sender  # noqa: E402
from torch import nn  # noqa: E402

COLUMNS = ["step", "flops_total", "flops_router", "flops_expert", "active_experts", "k_avg",
           "latency_ms", "router_conf", "memory_mb", "timestamp", "device", "layer"]
KEYS = ("flops_total_mean flops_total_std flops_total_p50 flops_total_p95 flops_total_p99 "
        "flops_router_mean flops_expert_mean latency_mean_ms latency_std_ms latency_min_ms "
        "latency_max_ms latency_p50_ms latency_p95_ms latency_p99_ms active_experts_mean "
        "active_experts_std k_mean k_std k_min k_max expert_load_mean expert_load_std "
        "expert_load_cv expert_load_gini expert_load_entropy router_confidence_mean "
        "router_confidence_std router_confidence_k_mean memory_mean_mb memory_max_mb total_steps "
        "total_tokens_profiled").split()


def test_balance_by_definition():
    for loads, expected in (
            ([90, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86], (0.329703, 0.924249, 0.588993)),
            ([20, 107, 104, 64, 19, 197, 187, 157, 172, 86, 16, 27],
             (0.386678, 0.895816, 0.684339))):
        got = summary.gini(loads), summary.entropy(loads), summary.cv(loads)
        assert got == pytest.approx(expected, abs=1e-6)
    assert summary.gini([0, 0]) is None and summary.cv([]) is None
    assert summary.percentile([1, 2, 3, 4], 95) == pytest.approx(3.85)
    assert summary.std([1, 3]) == 1


class Gate(nn.Linear):
    def forward(self, x):
        logits = super().forward(x)
        weights, indices = logits.softmax(-1).topk(2)
        return logits, weights, indices


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.num_experts = 4
        self.up_proj = nn.Parameter(torch.zeros(4, 6, 8))
        self.down_proj = nn.Parameter(torch.zeros(4, 8, 6))

    def forward(self, hidden, indices, weights):
        return hidden


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.gate, self.experts = Gate(8, 4), Experts()

    def forward(self, input_ids, attention_mask=None):
        x = nn.functional.one_hot(input_ids % 8, 8).float().reshape(-1, 8)
        _, weights, indices = self.gate(x)
        return self.experts(x, indices, weights)


def tokenizer(text, return_tensors="pt"):
    return {"input_ids": torch.tensor([[ord(c) for c in text]])}


@pytest.fixture
def profiler():
    model = Model()
    with moescope.MoEProfiler(model) as profiler:
        for text in ("first", "another", "third one"):
            model(**tokenizer(text))
    return profiler


def test_summary_and_csv(profiler, tmp_path, capsys):
    figures = profiler.wrappers[0].get_summary()
    assert list(figures) == KEYS
    assert figures["total_steps"] == 3 and figures["total_tokens_profiled"] == 21
    assert figures["memory_mean_mb"] is None
    assert figures["latency_min_ms"] > 0
    assert 0 < figures["router_confidence_mean"] < 1
    path = tmp_path / "a.csv"
    profiler.save_csv(str(path))
    rows = list(csv.DictReader(path.open()))
    assert list(rows[0]) == COLUMNS and len(rows) == 3
    assert rows[0]["layer"] == "layer_0" and rows[0]["memory_mb"] == ""
    assert float(rows[0]["flops_router"]) == 5 * (2 * 8 * 4 + 5 * 4)
    profiler.print_summary()
    assert "layer_0" in capsys.readouterr().out
    assert "<table>" in profiler._repr_html_()


def test_tables_without_pandas(profiler, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    table = profiler.get_metrics()["layer_0"].to_df()
    assert isinstance(table, frames.Rows) and len(table["k_avg"]) == 3
    table.to_csv(tmp_path / "b.csv", index=False)
    assert next(csv.reader((tmp_path / "b.csv").open())) == COLUMNS
    assert "n/a" in table._repr_html_()


@pytest.mark.parametrize("kind", ["flops", "latency", "k", "loads", "k_histogram", "sheet"])
def test_plots(profiler, kind, tmp_path):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    figure = profiler.plot(kind)
    figure.savefig(tmp_path / "a.png")
    if kind == "k_histogram":
        assert [t.get_text() for t in figure.axes[0].texts] == ["0", "0", "21"]
    if kind == "loads":
        shown = [int(t.get_text()) for t in figure.axes[0].texts]
        assert shown == profiler.wrappers[0].metrics.loads
    with pytest.raises(ValueError):
        profiler.plot("pie")


def test_wrapper_shows_the_profiled_layer():
    model = Model()
    keys, profiler = list(model.state_dict()), moescope.MoEProfiler(model)
    model.gate = moescope.SimpleRouterWrapper(model.gate, num_experts=4, warmup_steps=1)
    assert list(model.state_dict()) == keys
    model.load_state_dict(model.state_dict())
    with profiler:
        for text in ("abc", "defg", "hijkl"):
            model(**tokenizer(text))
    figures = model.gate.get_summary()
    assert (figures["total_steps"], figures["total_tokens_profiled"]) == (2, 9)
    assert figures["latency_p99_ms"] > 0
    assert profiler.wrappers[0].get_summary()["total_tokens_profiled"] == 12
    rows = lib.table("routing", profiler.run)["rows"]
    assert [row["tokens"] for row in rows] == [12]  # not counted twice


def test_wrapper_by_itself():
    router = Gate(8, 4)
    wrapper = moescope.SimpleRouterWrapper(router, warmup_steps=1, expert_dim=6, matrices=2)
    x = torch.randn(5, 8)
    for _ in range(3):
        result = wrapper(x)
    assert all(torch.equal(a, b) for a, b in zip(result, router(x)))
    assert wrapper.num_experts == 4 and wrapper.hidden_dim == 8 and wrapper.in_features == 8
    expected = torch.bincount(router(x)[2].reshape(-1), minlength=4) * 2
    assert wrapper.metrics.loads == expected.tolist()
    assert wrapper.get_summary()["flops_expert_mean"] == 5 * 2 * 4 * 8 * 6
    wrapper.reset_metrics()
    assert wrapper.get_summary()["total_steps"] == 0
    wrapper(x)
    assert wrapper.get_summary()["total_steps"] == 1
    assert moescope.run_dir() is None


def test_wrapper_of_a_linear_gate_needs_k():
    with pytest.warns(RuntimeWarning, match="top_k"):
        wrapper = moescope.SimpleRouterWrapper(nn.Linear(8, 4), warmup_steps=0)
        wrapper(torch.randn(5, 8))
    wrapper = moescope.SimpleRouterWrapper(nn.Linear(8, 4), warmup_steps=0, top_k=2)
    wrapper(torch.randn(5, 8))
    assert wrapper.metrics.k_distribution == [[2] * 5]


@pytest.mark.parametrize("wrong", [dict(num_experts=5), dict(hidden_dim=9), dict(expert_dim=0)])
def test_wrapper_checks_dimensions(wrong):
    with pytest.raises(moescope.BadDimensions):
        moescope.SimpleRouterWrapper(nn.Linear(8, 4), **wrong)


def test_benchmark_puts_the_model_back(tmp_path):
    model = Model()
    gate = model.gate
    benchmark = moescope.SimpleBenchmark(model, tokenizer)
    benchmark.run_config("baseline", ["abc", "defgh"])

    def change(model):
        model.gate = moescope.SimpleRouterWrapper(model.gate)
    benchmark.run_config("wrapped", ["abc", "defgh"], change)
    assert model.gate is gate
    table = benchmark.compare()
    assert list(table["config"]) == ["baseline", "wrapped"] and list(table["tokens"]) == [8, 8]
    assert table["expert_load_cv"][0] == table["expert_load_cv"][1]
    table.to_csv(tmp_path / "c.csv")


def test_quick_profile(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    profiler = moescope.quick_profile(Model(), tokenizer, num_iterations=4)
    assert profiler.wrappers[0].get_summary()["total_steps"] == 4
    assert len((tmp_path / "quick_profile.csv").read_text().splitlines()) == 5
    assert "layer_0" in capsys.readouterr().out


@pytest.mark.parametrize("experts,k", [(8, 2), (64, 8), (128, 8), (256, 8)])
def test_size_of_a_token_trace(experts, k, tmp_path):
    """Within 1.3 times of ceil(log2 E) bits for each slot."""
    run, tokens, calls = str(tmp_path / "t.mscope"), 4096, 24
    torch.manual_seed(1)
    api.start(run, "full")
    sender = Sender(0)
    try:
        for step in range(calls):
            lib.load().moescope_step_begin(step)
            chosen = torch.rand(tokens, experts).topk(k)[1]
            sender.send(lib.FORWARD, experts, chosen)
            lib.load().moescope_step_end(tokens)
    finally:
        api.stop()
    assert lib.table("routing", run)["rows"][0]["tokens"] == tokens * calls
    shard = next(tmp_path.glob("t.mscope/*.mst"))
    dump = json.loads(subprocess.run([lib.tool_path(), "dump", str(shard), "--json"],
                                     capture_output=True, text=True, check=True).stdout)
    stored = sum(row["payload_bytes"] for row in dump["rows"] if row["kind"] == "routed")
    packed = tokens * calls * k * math.ceil(math.log2(experts)) / 8
    assert 0 < stored <= 1.3 * packed, f"{stored / packed:.3f}"

