# SPDX-License-Identifier: Apache-2.0
"""Operations of a training step: names, counts, times, shapes, FLOPs and memory as torch's."""
import pytest

import moescope

torch = pytest.importorskip("torch")

CPU = [torch.profiler.ProfilerActivity.CPU]
OURS = {"forward", "backward"}  # the annotations of moescope's phases


def mlp():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)), \
        lambda model: model(torch.ones(3, 8)).sum()


def mixtral():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.MixtralConfig(
        vocab_size=64, hidden_size=32, intermediate_size=32, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2)
    tokens = torch.arange(16).reshape(2, 8)
    return transformers.MixtralForCausalLM(config), lambda model: model(tokens, labels=tokens).loss


def train(make, build, steps=2, **options):
    """The profiler after some steps of a new model, all of them recorded but the first."""
    model, loss_of = build()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    losses = []
    with make(activities=CPU, schedule=torch.profiler.schedule(wait=0, warmup=1, active=steps,
                                                               repeat=1), **options) as profiler:
        for _ in range(steps + 1):
            loss = loss_of(model)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
            profiler.step()
    return profiler, losses


@pytest.fixture
def ours(tmp_path):
    def make(**options):
        return moescope.profile(run=str(tmp_path / "a.mscope"), **options)
    return make


@pytest.mark.parametrize("build", [mlp, mixtral])
def test_counts_are_those_of_torch(ours, build):
    a, our_losses = train(ours, build)
    b, their_losses = train(torch.profiler.profile, build)
    counts = {row.key: row.count for row in a.key_averages()}
    assert {k: v for k, v in counts.items() if k not in OURS} == \
        {row.key: row.count for row in b.key_averages()}
    assert {k: counts[k] for k in OURS} == {"forward": 2, "backward": 2}
    assert any("Backward0" in key for key in counts)
    assert our_losses == their_losses


def test_self_time_is_total_time_without_children(ours):
    profiler, _ = train(ours, mlp)
    rows = {row.key: row for row in profiler.key_averages()}
    assert 0 < rows["aten::addmm"].self_cpu_time_total <= rows["aten::addmm"].cpu_time_total
    assert rows["aten::linear"].cpu_time_total > rows["aten::addmm"].cpu_time_total
    total = sum(row.self_cpu_time_total for row in rows.values())
    assert total == pytest.approx(rows["ProfilerStep*"].cpu_time_total, rel=1e-6)


def test_shapes_and_flops(ours):
    profiler, _ = train(ours, mlp, record_shapes=True, with_flops=True)
    rows = {(row.key, str(row.input_shapes)): row
            for row in profiler.key_averages(group_by_input_shape=True)}
    assert "Input Shapes" in profiler.key_averages(group_by_input_shape=True).table()
    first = rows["aten::addmm", "[[16], [3, 8], [8, 16], [], []]"]
    assert first.count == 2 and first.flops == 2 * (2 * 3 * 8 * 16)
    assert profiler.key_averages()[0].input_shapes is not None
    flops = {row.key: row.flops for row in profiler.key_averages()}
    from torch.utils.flop_counter import FlopCounterMode
    model, loss_of = mlp()
    with FlopCounterMode(display=False) as counter:
        loss_of(model).backward()
    assert flops["aten::addmm"] + flops["aten::mm"] == 2 * counter.get_total_flops()
    assert flops["aten::relu"] is None  # torch has no formula for it


def test_what_was_not_measured_is_absent(ours):
    profiler, _ = train(ours, mlp)
    row = profiler.key_averages()[0]
    assert row.cpu_memory_usage is None and row.flops is None and row.input_shapes is None
    if not torch.cuda.is_available():
        assert row.cuda_time_total is None and row.self_device_time_total is None
        assert "Self CUDA time total: n/a" in profiler.key_averages().table()
    with pytest.raises(ValueError, match="record_shapes=True"):
        profiler.key_averages(group_by_input_shape=True)
    with pytest.raises(ValueError, match="with_stack=True"):
        profiler.key_averages(group_by_stack_n=3)


def test_memory_is_that_of_the_allocator(ours):
    with ours(activities=CPU, profile_memory=True) as profiler:
        kept = torch.empty(1000, 1000)
    row = {r.key: r for r in profiler.key_averages()}["aten::empty"]
    assert row.self_cpu_memory_usage == kept.numel() * 4


@pytest.mark.parametrize("name", [
    "cpu_time", "cuda_time", "cpu_time_total", "cuda_time_total", "cpu_memory_usage",
    "cuda_memory_usage", "self_cpu_memory_usage", "self_cuda_memory_usage", "count",
    "self_cpu_time_total", "self_cuda_time_total", "device_time_total", "self_device_time_total",
    "device_memory_usage", "self_device_memory_usage", "flops", None])
def test_sort_names_of_torch(ours, name):
    with ours(activities=CPU) as profiler:
        torch.ones(2) + 1
    assert "aten::add" in profiler.key_averages().table(sort_by=name, row_limit=10)


def test_device_columns():
    from torch.autograd.profiler_util import FunctionEventAvg

    from moescope.torchlike.events import Averages

    def average(key, cpu, device):
        one = FunctionEventAvg()
        one.key, one.count, one.cpu_time_total, one.self_cpu_time_total = key, 2, cpu, cpu
        one.device_time_total = one.self_device_time_total = device
        one.device_memory_usage = one.self_device_memory_usage = 3 << 20
        return one
    flags = dict.fromkeys(("record_shapes", "with_stack", "with_flops", "with_modules"), False)
    averages = Averages([average("a", 30.0, 1000.0), average("b", 10.0, 3000.0)],
                        {**flags, "profile_memory": True})
    table = averages.table(sort_by="cuda_time_total").splitlines()
    assert table[3].split()[0] == "b" and "75.00%" in table[3] and "3.00 MB" in table[3]
    assert table[-1] == "Self CUDA time total: 4.000ms"
    assert averages[1].cuda_time == 1500.0 == averages[1].device_time
    assert averages[1].self_cuda_memory_usage == 3 << 20
    with pytest.raises(AttributeError):
        averages[0].cuda_speed


def test_tables_are_sorted_and_cut(ours):
    profiler, _ = train(ours, mlp, profile_memory=True)
    averages = profiler.key_averages()
    table = averages.table(sort_by="self_cpu_time_total", row_limit=3, header="mine",
                           max_name_column_width=None)  # any operation may be the slowest
    lines = table.splitlines()
    largest = max(averages, key=lambda row: row.self_cpu_time_total)
    assert lines[0] == "mine" and lines[4].startswith(largest.key)
    assert len(lines) == 1 + 3 + 3 + 1 + 3 and f"{len(averages) - 3} more rows" in lines[-1]
    assert len({len(line) for line in lines[1:8]}) == 1
    memory = [row.self_cpu_memory_usage for row in averages.sorted("self_cpu_memory_usage")]
    assert memory == sorted(memory, reverse=True)
    with pytest.raises(ValueError, match="self_cuda_time_total"):
        averages.table(sort_by="speed")
    assert largest.key in averages._repr_html_() and "<td>" in profiler._repr_html_()


def test_stacks(ours, tmp_path):
    with ours(activities=CPU, with_stack=True) as profiler:
        torch.ones(2) + 1
    assert any("test_profile_operations" in "".join(row.stack)
               for row in profiler.key_averages(group_by_stack_n=8))
    profiler.export_stacks(str(tmp_path / "stacks"))
    assert "test_stacks" in (tmp_path / "stacks").read_text()


def test_another_profiler_of_torch_is_left_alone(ours):
    with torch.profiler.profile(activities=CPU) as theirs:
        profiler = ours(activities=CPU)
        with pytest.raises(moescope.NotCaptured, match="another profiler"):
            profiler.start()
        torch.ones(2) + 1
    assert "aten::add" in {row.key for row in theirs.key_averages()}
    assert not moescope.recording()


def test_bad_use(ours):
    with pytest.raises(ValueError, match="ProfilerActivity.CPU"):
        ours(activities=["TPU"])
    with pytest.raises(ValueError, match="empty"):
        ours(activities=[])
    profiler = ours(activities=[moescope.ProfilerActivity.CPU])
    with pytest.raises(moescope.NotCaptured, match="on_trace_ready"):
        profiler.key_averages()
    with pytest.raises(moescope.ProfilerClosed, match="start"):
        profiler.step()
    profiler.stop()  # harmless
    with profiler:
        profiler.start()  # harmless
    profiler.key_averages()
