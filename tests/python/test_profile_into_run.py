# SPDX-License-Identifier: Apache-2.0
"""Operations in the run: `moescope ops` has what key_averages() has."""

import pytest

import moescope
from moescope import _library

torch = pytest.importorskip("torch")

CPU = [torch.profiler.ProfilerActivity.CPU]
OURS = {"forward", "backward"}  # ranges in the run, annotations for torch


def operations(run, *options):
    return [row for row in _library.table("ops", run, *options)["rows"] if row["kind"] == "op"]


def trained(run, steps=3, **options):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.Linear(128, 64))
    optimizer = torch.optim.AdamW(model.parameters())
    with moescope.profile(activities=CPU, run=run, schedule=moescope.schedule(
            wait=1, warmup=1, active=steps, repeat=1), **options) as profiler:
        for _ in range(steps + 3):
            model(torch.ones(32, 64)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            profiler.step()
    return profiler


def test_counts_times_and_flops_are_those_of_torch(tmp_path):
    run = str(tmp_path / "a.mscope")
    averages = {row.key: row for row in trained(run, with_flops=True).key_averages()}
    rows = {row["name"]: row for row in operations(run)}
    assert {name: row["count"] for name, row in rows.items()} == {
        key: row.count for key, row in averages.items() if key not in OURS | {"ProfilerStep*"}}
    for name, row in rows.items():
        assert row["flops"] == averages[name].flops  # None where torch has no formula
        assert row["self_bytes"] is None and row["self_bytes_reason"]
        if name.startswith("Optimizer.step"):
            continue  # the range "optimizer" lies in it, and takes its time
        assert row["self_cpu_ns"] == pytest.approx(
            1e3 * averages[name].self_cpu_time_total, rel=1e-3, abs=100), name


def test_operations_lie_in_their_phase_and_step(tmp_path):
    run = str(tmp_path / "a.mscope")
    trained(run, record_shapes=True)
    forward = {row["name"]: row["count"] for row in operations(run, "--phase", "forward")}
    backward = {row["name"]: row["count"] for row in operations(run, "--phase", "backward")}
    assert forward["aten::addmm"] == 6 and "aten::addmm" not in backward
    assert backward["AddmmBackward0"] == 6 and "AddmmBackward0" not in forward
    assert {row["name"] for row in operations(run, "--phase", "optimizer")} >= {"aten::sqrt"}
    one = {row["name"]: row["count"] for row in operations(run, "--steps", "3:3")}
    assert one["aten::addmm"] == 2
    shapes = {row["shapes"]: row["count"] for row in operations(run, "--by-shape")
              if row["name"] == "aten::addmm"}
    assert shapes == {"[128]x[32,64]x[64,128]": 3, "[64]x[32,128]x[128,64]": 3}
    # what is inside the range "forward" is not its own time
    rows = {row["name"]: row for row in _library.table("ops", run)["rows"]}
    assert rows["forward"]["self_cpu_ns"] < rows["forward"]["cpu_ns"] - \
        rows["aten::linear"]["cpu_ns"] + 1e4


def test_an_older_torch_names_operators_otherwise():
    from moescope.torchlike.into_run import _is_operation

    class Event:
        def __init__(self, name, device="CPU"):
            self.name = lambda: name
            self.is_async = lambda: False
            self.device_type = lambda: type("Device", (), {"name": device})
    assert [_is_operation(Event(*words)) for words in (
        ("aten::mm",), ("[memory]",), ("train.py(3): step",), ("gemm_kernel", "CUDA"))] == [
            True, False, False, False]


def test_more_operations_than_the_buffer_holds(tmp_path):
    run = str(tmp_path / "a.mscope")
    x = torch.ones(1)
    with moescope.profile(activities=CPU, run=run):
        for _ in range(30000):
            x.neg_()
    document = _library.table("ops", run)
    assert {r["name"]: r["count"] for r in document["rows"]} == {"aten::neg_": 30000}
    assert document["loss"]["dropped_ring_full"] == 0


def test_every_window_and_the_exported_trace(tmp_path):
    run = str(tmp_path / "a.mscope")
    x = torch.ones(2, 2)
    with moescope.profile(activities=CPU, run=run, schedule=moescope.schedule(
            wait=1, warmup=0, active=1, repeat=2)) as profiler:
        for _ in range(6):
            x @ x
            profiler.step()
    assert {row["name"]: row["count"] for row in operations(run)}["aten::mm"] == 2
    _library.run_tool("export", run, "-o", str(tmp_path / "t.json"))
    assert "aten::mm" in (tmp_path / "t.json").read_text()


def test_names_of_torchs_own_annotations_are_operations_and_ours_are_ranges(tmp_path):
    run = str(tmp_path / "a.mscope")
    with moescope.profile(activities=CPU, run=run):
        with torch.profiler.record_function("theirs"):
            with moescope.record_function("ours"):
                torch.ones(2) + 1
    kinds = {row["name"]: row["kind"] for row in _library.table("ops", run)["rows"]}
    assert kinds["theirs"] == "op" and kinds["ours"] == "range"


def test_ranges_inside_operations(tmp_path):
    """An annotation of torch around a module, and a module computed again in a backward pass."""
    from torch.utils.checkpoint import checkpoint
    run = str(tmp_path / "a.mscope")
    layer = torch.nn.Linear(256, 256)
    with moescope.profile(activities=CPU, run=run):
        with torch.profiler.record_function("theirs"):
            loss = checkpoint(layer, torch.ones(64, 256, requires_grad=True),
                              use_reentrant=False).sum()
        loss.backward()
    rows = {row["name"]: row for row in _library.table("ops", run)["rows"]}
    assert rows["theirs"]["self_cpu_ns"] <= rows["theirs"]["cpu_ns"] - rows["forward"]["cpu_ns"]
    outermost = rows["theirs"]["cpu_ns"] + rows["backward"]["cpu_ns"]
    inside = sum(row["self_cpu_ns"] for row in rows.values())
    assert outermost <= inside <= outermost * 1.2 and all(
        row["self_cpu_ns"] >= 0 for row in rows.values())


def test_routing_belongs_to_the_profiles_steps(tmp_path):
    """A MoEProfiler inside makes no steps of its own."""
    transformers = pytest.importorskip("transformers")
    run = str(tmp_path / "a.mscope")
    model = transformers.MixtralForCausalLM(transformers.MixtralConfig(
        vocab_size=32, hidden_size=16, intermediate_size=16, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=2, num_local_experts=4))
    with moescope.profile(activities=CPU, run=run) as prof, moescope.MoEProfiler(model):
        for _ in range(3):
            model(torch.ones(1, 5, dtype=torch.long))
            model(torch.ones(1, 5, dtype=torch.long))
            prof.step()
    assert [row["step"] for row in _library.table("steps", run)["rows"]] == [0, 1, 2]
    rows = _library.table("routing", run, "--layer", "0")["rows"]
    assert [(s["step"], s["tokens"]) for row in rows for s in row["series"]] == \
        [(0, 10), (1, 10), (2, 10)]
