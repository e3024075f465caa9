# SPDX-License-Identifier: Apache-2.0
"""The notebook guide for router profiling, cell by cell, with a tiny random model in place of a
download. What a cell of the guide imports from its profiler comes from moescope; that is all.
"""
import importlib.machinery
import json
import os
import sys
import types

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pd = pytest.importorskip("pandas")
matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

from moescope import (  # noqa: E402
    MoEProfiler, SimpleBenchmark, SimpleRouterWrapper, quick_profile)

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from moe_models import make  # noqa: E402

HIDDEN, INNER, EXPERTS = 16, 24, 4


class Tokenizer:
    """A token for each letter."""

    def __call__(self, text, return_tensors=None):
        ids = [[2 + ord(letter) % 60 for letter in text]]
        return transformers.BatchEncoding({"input_ids": ids, "attention_mask": [[1] * len(text)]},
                                          tensor_type=return_tensors)


@pytest.fixture
def model():
    return make("Mixtral")


@pytest.fixture
def tokenizer():
    return Tokenizer()


@pytest.fixture(autouse=True)
def notebook(tmp_path, monkeypatch):
    """A folder of its own, and the two modules that only a hosted notebook is sure to have."""
    monkeypatch.chdir(tmp_path)
    taken = []
    files = types.SimpleNamespace(download=lambda path: taken.append(os.path.getsize(path)))
    for name in ("google", "google.colab"):
        if name not in sys.modules:
            module = types.ModuleType(name)
            module.__spec__ = importlib.machinery.ModuleSpec(name, None)
            monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(sys.modules["google.colab"], "files", files, raising=False)
    try:
        import seaborn  # noqa: F401
    except ImportError:
        monkeypatch.setitem(sys.modules, "seaborn",
                            types.SimpleNamespace(heatmap=lambda *_a, **_k: None))
    yield taken
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


def ask(model, tokenizer, prompts, new=5):
    for prompt in prompts:
        inputs = tokenizer(prompt, return_tensors="pt").to(model.device)
        with torch.no_grad():
            model.generate(**inputs, max_new_tokens=new, pad_token_id=0)


@pytest.fixture
def profiler(model, tokenizer):
    profiler = MoEProfiler(model)
    profiler.start()
    ask(model, tokenizer, ["What is learning?", "Tell me about light."])
    profiler.stop()
    return profiler


def blocks(model):
    """The MoE blocks; they are block_sparse_moe up to transformers 4 and mlp since."""
    return [getattr(layer, "block_sparse_moe", None) or layer.mlp for layer in model.model.layers]


def test_first_profile(profiler, capsys):
    profiler.print_summary()
    out = capsys.readouterr().out
    assert "layer_0" in out and "layer_1" in out


def test_wrapper_around_one_router(model, tokenizer, capsys):
    profiler = MoEProfiler(model)
    block = blocks(model)[0]
    custom_wrapper = SimpleRouterWrapper(
        original_router=block.gate, num_experts=EXPERTS, expert_dim=INNER, hidden_dim=HIDDEN,
        warmup_steps=5, sampling_rate=1)
    block.gate = custom_wrapper
    profiler.start()
    ask(model, tokenizer, ["one", "two"])
    profiler.stop()
    summary = custom_wrapper.get_summary()
    print(f"k {summary['k_mean']:.2f} gini {summary['expert_load_gini']:.3f} "
          f"p99 {summary['latency_p99_ms']:.2f} ms")
    assert capsys.readouterr().out.startswith("k 2.00")
    assert summary["total_steps"] == 10 - 5


def test_export_and_download(profiler, notebook):
    profiler.save_csv("baseline.csv")
    from google.colab import files
    files.download("baseline.csv")
    assert notebook[0] > 0


def test_three_pictures(profiler):
    import matplotlib.pyplot as plt
    metrics = profiler.get_metrics()
    df = metrics["layer_0"].to_df()
    plt.figure(figsize=(12, 4))
    plt.subplot(1, 3, 1)
    for column, label in (("flops_total", "Total"), ("flops_router", "Router"),
                          ("flops_expert", "Expert")):
        plt.plot(df[column], label=label)
    plt.legend()
    plt.subplot(1, 3, 2)
    plt.plot(df["latency_ms"])
    plt.subplot(1, 3, 3)
    plt.plot(df["k_avg"])
    plt.tight_layout()
    plt.show()
    assert df["latency_ms"].notna().all() and (df["k_avg"] == 2).all()


def test_heatmap_of_loads(profiler, capsys):
    import matplotlib.pyplot as plt
    import seaborn as sns
    wrapper = profiler.wrappers[0]
    expert_loads = list(wrapper.metrics.expert_loads.values())
    plt.figure(figsize=(10, 2))
    sns.heatmap([expert_loads], annot=True, fmt="d", cmap="YlOrRd",
                xticklabels=[f"E{i}" for i in range(len(expert_loads))], yticklabels=["Load"],
                cbar_kws={"label": "Token Count"})
    plt.show()
    print(f"{wrapper._calculate_gini_coefficient(expert_loads):.3f} "
          f"{wrapper._calculate_entropy(expert_loads):.3f} "
          f"{wrapper._calculate_cv(expert_loads):.3f}")
    assert len(expert_loads) == EXPERTS and len(capsys.readouterr().out.split()) == 3


def test_two_configurations(model, tokenizer, notebook):
    texts = ["Explain gravity", "Why is the sky blue?", "How do nets learn?"]
    benchmark = SimpleBenchmark(model, tokenizer)
    benchmark.run_config("baseline", texts)

    def apply_custom_middleware(model):
        for block in blocks(model):
            block.gate = SimpleRouterWrapper(block.gate, num_experts=EXPERTS, warmup_steps=3)

    benchmark.run_config("custom_middleware", texts, apply_custom_middleware)
    comparison = benchmark.compare()
    print(comparison)
    comparison.to_csv("comparison.csv")
    from google.colab import files
    files.download("comparison.csv")
    assert len(comparison) == 2 and notebook[0] > 0


def test_sampling_for_large_models(model, tokenizer, capsys):
    profiler = MoEProfiler(model)
    for wrapper in profiler.wrappers:
        wrapper.warmup_steps = 10
        wrapper.sampling_rate = 10
    profiler.start()
    model.gradient_checkpointing_enable()
    ask(model, tokenizer, ["a", "b"], new=16)
    profiler.stop()
    profiler.print_summary()
    assert [wrapper.get_summary()["total_steps"] for wrapper in profiler.wrappers] == [3, 3]
    assert "layer_1" in capsys.readouterr().out


def test_one_line(model, tokenizer, notebook):
    quick_profile(model, tokenizer, text="What is the meaning of life?", num_iterations=10)
    from google.colab import files
    files.download("quick_profile.csv")
    assert len(pd.read_csv("quick_profile.csv")) == 2 * 10


def test_placement_of_layers(profiler):
    devices = [wrapper.metrics.device for wrapper in profiler.wrappers]
    assert devices == ["cpu", "cpu"]


def test_k_over_time(profiler):
    import matplotlib.pyplot as plt
    k_dist = profiler.wrappers[0].metrics.k_distribution
    all_k_values = [k for step_k_list in k_dist for k in step_k_list]
    plt.hist(all_k_values, bins=range(0, 10), alpha=0.7, edgecolor="black")
    plt.show()
    assert (min(all_k_values), max(all_k_values)) == (2, 2)
    assert sum(all_k_values) / len(all_k_values) == 2
    assert [all_k_values.count(k) for k in range(3)] == [0, 0, len(all_k_values)]


def test_export_everything(profiler, notebook):
    profiler.save_csv("all_layers.csv")
    all_summaries = {}
    for i, wrapper in enumerate(profiler.wrappers):
        all_summaries[f"layer_{i}"] = wrapper.get_summary()
    with open("summary_stats.json", "w") as f:
        json.dump(all_summaries, f, indent=2)
    from google.colab import files
    files.download("all_layers.csv")
    files.download("summary_stats.json")
    assert min(notebook) > 0
    df = profiler.get_metrics()["layer_0"].to_df()
    df.to_csv("layer_0.csv", index=False)
    assert list(pd.read_csv("layer_0.csv").columns) == [
        "step", "flops_total", "flops_router", "flops_expert", "active_experts", "k_avg",
        "latency_ms", "router_conf", "memory_mb", "timestamp", "device", "layer"]


def test_a_router_of_another_name(model, tokenizer):
    wrapped = []
    for name, module in list(model.named_modules()):
        if name.endswith(".gate"):
            wrapper = SimpleRouterWrapper(module)
            parent_name, _, child_name = name.rpartition(".")
            setattr(model.get_submodule(parent_name), child_name, wrapper)
            wrapped.append(wrapper)
    assert len(wrapped) == 2
    with MoEProfiler(model) as profiler:
        ask(model, tokenizer, ["seven steps"], new=7)
    assert [wrapper.get_summary()["total_steps"] for wrapper in wrapped] == [2, 2]
    assert profiler.wrappers[0].get_summary()["total_steps"] == 7


def test_dimensions_by_hand(model):
    router = blocks(model)[0].gate
    wrapper = SimpleRouterWrapper(router, num_experts=EXPERTS, expert_dim=INNER, hidden_dim=HIDDEN)
    assert (wrapper.hidden_dim, wrapper.expert_dim) == (HIDDEN, INNER)


def test_the_whole_notebook(model, tokenizer, notebook):
    profiler = MoEProfiler(model)
    profiler.start()
    ask(model, tokenizer, ["Explain AI", "What are qubits?"])
    profiler.stop()
    profiler.print_summary()
    profiler.save_csv("results.csv")
    import matplotlib.pyplot as plt
    df = profiler.wrappers[0].metrics.to_df()
    fig, axes = plt.subplots(2, 2, figsize=(12, 8))
    axes[0, 0].plot(df["flops_total"])
    axes[0, 1].plot(df["latency_ms"])
    axes[1, 0].plot(df["k_avg"])
    expert_loads = list(profiler.wrappers[0].metrics.expert_loads.values())
    axes[1, 1].bar(range(len(expert_loads)), expert_loads)
    plt.tight_layout()
    plt.show()
    from google.colab import files
    files.download("results.csv")
    assert notebook[0] > 0
