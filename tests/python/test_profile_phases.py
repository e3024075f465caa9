# SPDX-License-Identifier: Apache-2.0
"""Phases of a step in the run, and a program that is afterwards as it was before."""
import os

import pytest

import moescope
from moescope import _library

torch = pytest.importorskip("torch")
from torch.nn.modules import module as modules  # noqa: E402
from torch.optim import optimizer as optimizers  # noqa: E402
from torch.utils.data import DataLoader, dataloader  # noqa: E402

CPU = [torch.profiler.ProfilerActivity.CPU]


def state_of_torch():
    """Everything that phases change."""
    return (vars(torch.nn.Module)["__call__"], torch.nn.Module.__call__,
            torch.autograd.backward, torch.autograd.grad, torch.Tensor.backward,
            vars(dataloader._BaseDataLoaderIter)["__next__"],
            dict(modules._global_forward_hooks), dict(modules._global_forward_pre_hooks),
            dict(modules._global_forward_hooks_always_called),
            dict(optimizers._global_optimizer_pre_hooks),
            dict(optimizers._global_optimizer_post_hooks))


@pytest.fixture(autouse=True)
def restored():
    before = state_of_torch()
    yield
    assert state_of_torch() == before


@pytest.fixture
def run(tmp_path):
    return str(tmp_path / "a.mscope")


def train(profiler, steps, model=None):
    model = model or torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(torch.ones(4 * steps, 8), batch_size=4)
    with profiler:
        for batch in loader:
            model(batch).sum().backward()
            optimizer.step()
            profiler.step(tokens=4)


def ranges(run):
    return {row["name"]: row["count"] for row in _library.table("ops", run)["rows"]
            if row["kind"] == "range"}


def test_phases_are_found_in_the_recorded_steps_alone(run):
    train(moescope.profile(activities=CPU, run=run,
                           schedule=moescope.schedule(wait=1, warmup=1, active=2, repeat=1)), 6)
    document = _library.table("steps", run)
    rows = [row for row in document["rows"] if not row["unfinished"]]
    assert [row["step"] for row in rows] == list(range(6))
    assert [row["recorded"] for row in rows] == [False, False, True, True, False, False]
    assert all(row["tokens"] == 4 for row in rows)
    for row in rows[2:4]:
        phases = row["phases"]
        assert all(phases[name] > 0 for name in ("forward", "backward", "optimizer", "data"))
        assert sum(phases.values()) <= row["time_ns"]
    # the data of step 3 was fetched in it; that of step 2 as well
    assert ranges(run) == {"forward": 2, "backward": 2, "optimizer": 2, "data": 2}


def test_the_outermost_module_is_the_forward_phase(run):
    inner = torch.nn.Sequential(*[torch.nn.Linear(8, 8) for _ in range(5)])
    train(moescope.profile(activities=CPU, run=run), 2, torch.nn.Sequential(inner, inner))
    assert ranges(run)["forward"] == 2


def test_a_block_without_steps_is_one_step(run):
    with moescope.profile(activities=CPU, run=run):
        torch.nn.Linear(2, 2)(torch.ones(1, 2))
    rows = _library.table("steps", run)["rows"]
    assert [(row["step"], row["unfinished"]) for row in rows] == [(0, False)]
    assert rows[0]["phases"]["forward"] > 0


def test_recompute_is_told_from_forward(run):
    from torch.utils.checkpoint import checkpoint
    layer = torch.nn.Linear(4, 4)
    x = torch.ones(2, 4, requires_grad=True)
    with moescope.profile(activities=CPU, run=run):
        checkpoint(layer, x, use_reentrant=False).sum().backward()
    assert ranges(run) == {"forward": 1, "backward": 1, "recompute": 1}


def test_evaluation_between_training_steps(run):
    layer = torch.nn.Linear(4, 4)
    with moescope.profile(activities=CPU, run=run):
        with torch.no_grad():
            layer.eval()(torch.ones(1, 4))  # nothing has been trained yet: a forward pass
        layer.train()(torch.ones(1, 4)).sum().backward()
        with torch.no_grad():
            layer.eval()(torch.ones(1, 4))
    assert ranges(run) == {"forward": 2, "backward": 1, "evaluation": 1}


def test_exceptions_pass_and_close_their_phase(run):
    class Broken(torch.nn.Module):
        def forward(self, x):
            raise KeyError("mine")

    class BrokenBackward(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            raise ArithmeticError("mine too")

    class BrokenOptimizer(torch.optim.SGD):
        def step(self, closure=None):
            raise LookupError("and mine")

    class BrokenData(torch.utils.data.Dataset):
        def __len__(self):
            return 1

        def __getitem__(self, index):
            raise OSError("no disk")
    x = torch.ones(2, requires_grad=True)
    with moescope.profile(activities=CPU, run=run) as profiler:
        with pytest.raises(KeyError, match="mine"):
            torch.nn.Sequential(torch.nn.Identity(), Broken())(x)
        with pytest.raises(ArithmeticError, match="mine too"):
            BrokenBackward.apply(x).sum().backward()
        with pytest.raises(LookupError, match="and mine"):
            BrokenOptimizer([x], lr=0.1).step()
        profiler.step()
        with pytest.raises(OSError, match="no disk"):
            next(iter(DataLoader(BrokenData())))
        torch.nn.Identity()(x)
        profiler.step()
    counted = ranges(run)
    assert counted == {"forward": 2, "backward": 1, "optimizer": 1, "data": 1}
    document = _library.table("steps", run)
    assert document["loss"]["dropped_unbalanced"] == 0
    assert document["rows"][1]["phases"].get("optimizer", 0) == 0  # it ended before


def test_an_exception_in_the_block_stops_everything(run):
    with pytest.raises(ZeroDivisionError):
        with moescope.profile(activities=CPU, run=run):
            torch.nn.Identity()(torch.ones(1))
            1 / 0
    assert not moescope.recording() and not torch.autograd._profiler_enabled()
    assert ranges(run)["forward"] == 1


def test_a_tool_that_came_later_keeps_its_place(run):
    original, calls = torch.autograd.backward, []
    with moescope.profile(activities=CPU, run=run):
        ours = torch.autograd.backward

        def theirs(*args, **kwargs):
            calls.append(1)
            return ours(*args, **kwargs)
        torch.autograd.backward = theirs
        torch.ones(1, requires_grad=True).backward()
    try:
        assert torch.autograd.backward is theirs
        torch.ones(1, requires_grad=True).backward()
        assert len(calls) == 2 and ranges(run)["backward"] == 1
    finally:
        torch.autograd.backward = original


def test_compiled_modules(run):
    """Compiled before and inside; nothing of the profiler is in their graphs."""
    from torch._dynamo.utils import counters
    counters.clear()
    torch._dynamo.reset()
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph
    layers = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    before = torch.compile(layers, backend=backend, fullgraph=True)
    inside = torch.compile(torch.nn.Linear(4, 4), backend=backend, fullgraph=True)
    x = torch.ones(2, 4)
    before(x)
    with moescope.profile(activities=CPU, run=run, schedule=moescope.schedule(
            wait=1, warmup=0, active=2, repeat=1)) as profiler:
        for _ in range(4):
            inside(before(x)).sum().backward()
            profiler.step()
    inside(before(x))
    assert len(graphs) == 2 and not counters["graph_break"]
    assert ranges(run) == {"forward": 4, "backward": 2}


def test_the_program_is_as_before_between_windows(run):
    before = state_of_torch()
    seen = []
    with moescope.profile(activities=CPU, run=run, schedule=moescope.schedule(
            wait=1, warmup=0, active=1)) as profiler:
        for _ in range(4):
            seen.append(state_of_torch() == before)
            profiler.step()
    assert seen == [True, False, True, False]


def test_a_run_that_is_open_already_is_used_and_left_open(run, tmp_path):
    moescope.start(run)
    try:
        with pytest.warns(RuntimeWarning, match="open already"):
            train(moescope.profile(activities=CPU, run=str(tmp_path / "other.mscope")), 2)
        assert moescope.run_dir() == run and moescope.recording()
        with moescope.range("afterwards"):
            pass
    finally:
        moescope.stop()
    assert ranges(run)["forward"] == 2 and ranges(run)["afterwards"] == 1
    assert os.listdir(tmp_path) == ["a.mscope"]


def test_record_function_is_a_range_here_and_for_torch(run):
    @moescope.record_function("decorated")
    def countdown(n):
        return n and countdown(n - 1)

    with moescope.profile(activities=CPU, run=run) as profiler:
        with moescope.record_function("outer"):
            with moescope.record_function("inner"):
                torch.ones(2) + 1
        countdown(3)
        countdown(0)
    assert ranges(run) == {"outer": 1, "inner": 1, "decorated": 5}
    rows = {row.key: row for row in profiler.key_averages()}
    assert rows["outer"].cpu_time_total >= rows["inner"].cpu_time_total > 0
    assert rows["decorated"].count == 2  # torch counts a call that only calls itself once


def test_record_function_without_a_profiler_costs_nothing_and_passes_results():
    with moescope.record_function("nothing") as it:
        assert isinstance(it, moescope.record_function)
    assert moescope.record_function("f")(lambda a: a + 1)(1) == 2
