# SPDX-License-Identifier: Apache-2.0
"""What the hooks do to the model (nothing), to padding, steps and sampling, and how they end."""
import copy
import gc
import os
import pickle
import subprocess
import sys
import weakref

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import moescope  # noqa: E402
from moescope import _library as lib  # noqa: E402

from moe_models import ids, make  # noqa: E402
from test_routing_families import loads  # noqa: E402


PROGRAM = """
import torch, moescope
class Experts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.num_experts = 4
        self.up_proj = torch.nn.Parameter(torch.ones(4, 6, 3))
        self.down_proj = torch.nn.Parameter(torch.ones(4, 3, 6))
    def forward(self, hidden, indices, weights):
        return hidden
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.experts = Experts()
    def forward(self, x):
        return self.experts(x, torch.tensor([[0, 1]] * 5), torch.ones(5, 2))
model = Model()
with moescope.MoEProfiler(model) as profiler:
    model(torch.ones(5, 3))
print(profiler.run)
print(profiler.wrappers[0].get_summary()["total_tokens_profiled"])
"""


@pytest.fixture(scope="module")
def model():
    return make("Mixtral")


def picture(model):
    """Everything that hooks could have changed."""
    hooks = [key for key in vars(torch.nn.Module()) if "hook" in key]
    return [(name, sorted(vars(m)), type(m), id(m.forward.__func__),
             {key: dict(vars(m)[key]) for key in hooks if hasattr(vars(m).get(key), "keys")},
             {k: id(v) for k, v in vars(m).items() if not k.startswith("_")})
            for name, m in model.named_modules()]


def test_stop_restores_the_model(model):
    before = picture(model)
    with torch.no_grad():
        expected = model(ids(1, 5)).logits
        profiler = moescope.MoEProfiler(model).start()
        assert picture(model) != before
        assert torch.equal(model(ids(1, 5)).logits, expected)
        profiler.stop()
    assert picture(model) == before
    assert moescope.run_dir() is None
    twin = pickle.loads(pickle.dumps(copy.deepcopy(model)))
    assert torch.equal(twin(ids(1, 5)).logits, expected)


def test_a_copy_of_a_profiled_model_records_nothing(model):
    with moescope.MoEProfiler(model) as profiler, torch.no_grad():
        model(ids(1, 5))
        copy.deepcopy(model)(ids(1, 5))
    assert len(loads(profiler)) == 1


def test_starting_twice_and_again(model):
    profiler = moescope.MoEProfiler(model)
    with torch.no_grad():
        profiler.start()
        profiler.start()
        model(ids(1, 5))
        profiler.stop()
        profiler.stop()
        model(ids(1, 5))
        profiler.start()
        model(ids(1, 7))
        profiler.stop()
    assert [sum(step[0]) for step in loads(profiler)] == [10, 14]


def test_two_profilers_on_one_model(model):
    first, second = moescope.MoEProfiler(model), moescope.MoEProfiler(model)
    with torch.no_grad(), first:
        model(ids(1, 5))
        with second:
            model(ids(1, 6))
        model(ids(1, 7))
    assert [sum(step[0]) for step in loads(first)] == [10, 12, 14]
    assert [sum(step[0]) for step in loads(second)] == [12]
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_two_models_in_one_run(model):
    other = make("OLMoE")
    first, second = moescope.MoEProfiler(model), moescope.MoEProfiler(other)
    with torch.no_grad(), first, second:
        model(ids(1, 5))
        other(ids(1, 6))
    assert [sum(step[0]) for step in loads(first)] == [10]
    assert [sum(step[0]) for step in loads(second)] == [24]


def test_exceptions_pass_through(model):
    profiler = moescope.MoEProfiler(model)
    before = picture(model)
    with pytest.raises(IndexError), profiler, torch.no_grad():
        model(ids(1, 5))
        model(torch.tensor([[10**6]]))
    assert picture(model) == before
    assert len(loads(profiler)) == 1


def test_losing_the_profiler_takes_the_hooks_off(model):
    profiler = moescope.MoEProfiler(model).start()
    run, lost = profiler.run, weakref.ref(profiler)
    assert os.path.isdir(run)
    del profiler
    gc.collect()
    assert lost() is None
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    assert moescope.run_dir() is None and not os.path.exists(run)


def test_padding_is_not_counted(model, monkeypatch):
    chosen, real = [], torch.topk

    def topk(*args, **kwargs):
        result = real(*args, **kwargs)
        chosen.append(result[1])
        return result
    monkeypatch.setattr(torch, "topk", topk)
    mask = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1], [0, 1, 1, 1, 1]])
    with moescope.MoEProfiler(model) as profiler, torch.no_grad():
        model(ids(3, 5), attention_mask=mask)
    valid = mask.reshape(-1).bool()
    # transformers 4.x: the profiler does the block's top-k too; the block's own is the later one
    each = len(chosen) // 2
    layers = chosen[each - 1::each]
    expected = [torch.bincount(c[valid].reshape(-1), minlength=4).tolist() for c in layers]
    assert loads(profiler) == [expected]
    assert profiler.wrappers[0].get_summary()["total_tokens_profiled"] == 12
    table = lib.table("routing", profiler.run)
    assert [row["padding"] for row in table["rows"]] == [3, 3]
    assert table["total"]["self_check"] == "ok"
    assert lib.table("steps", profiler.run)["rows"][0]["tokens"] == 12


def test_warmup_and_sampling_by_layer(model):
    profiler = moescope.MoEProfiler(model, warmup_steps=1)
    profiler.wrappers[1].warmup_steps, profiler.wrappers[1].sampling_rate = 2, 2
    with profiler, torch.no_grad():
        for length in range(3, 9):
            model(ids(1, length))
    tokens = [[sum(row["load"]) // 2 for row in view.metrics._series()]
              for view in profiler.wrappers]
    assert tokens == [[4, 5, 6, 7, 8], [5, 7]]
    with pytest.raises(ValueError):
        profiler.wrappers[0].sampling_rate = 0


def test_reset_and_reading_while_running(model):
    profiler = moescope.MoEProfiler(model)
    with profiler, torch.no_grad():
        model(ids(1, 5))
        assert profiler.wrappers[0].get_summary()["total_tokens_profiled"] == 5
        profiler.wrappers[0].reset_metrics()
        model(ids(1, 6))
    assert profiler.wrappers[0].get_summary()["total_tokens_profiled"] == 6
    assert profiler.wrappers[1].get_summary()["total_tokens_profiled"] == 11


def test_a_part_of_the_model_called_by_itself(model):
    with moescope.MoEProfiler(model) as profiler, torch.no_grad():
        model.model(ids(1, 5))
        model.model(ids(1, 6))
        model(ids(1, 7))
    assert [sum(step[1]) for step in loads(profiler)] == [10, 12, 14]


def test_steps_of_the_program(model, tmp_path):
    profiler = moescope.MoEProfiler(model, steps="manual", run=str(tmp_path / "r.mscope"))
    with profiler, torch.no_grad():
        for _ in range(2):
            model(ids(1, 5))
            model(ids(1, 6))
            moescope.step()
    rows = profiler.wrappers[0].metrics.rows()
    assert [row["step"] for row in rows] == [0, 1]
    steps = lib.table("steps", profiler.run)["rows"]
    assert [(row["step"], row["unfinished"]) for row in steps] == [(0, False), (1, False)]
    assert profiler.wrappers[0].get_summary()["total_tokens_profiled"] == 22
    assert profiler.run == str(tmp_path / "r.mscope")


def test_steps_of_the_program_are_noticed(model):
    with moescope.MoEProfiler(model) as profiler, torch.no_grad():
        for _ in range(2):
            moescope.step()
            model(ids(1, 5))
            model(ids(1, 6))
    assert [row["tokens"] for row in profiler.wrappers[0].metrics._series()] == [11, 11]
    with moescope.MoEProfiler(model) as profiler, torch.no_grad():
        model(ids(1, 5))
        model(ids(1, 6))
    assert [row["tokens"] for row in profiler.wrappers[0].metrics._series()] == [5, 6]


def test_tokens_mode_keeps_order_weights_and_scores(model, tmp_path):
    profiler = moescope.MoEProfiler(model, mode="tokens", scores=True,
                                    run=str(tmp_path / "t.mscope"))
    with profiler, torch.no_grad():
        model(ids(2, 8))
    row = lib.table("routing", profiler.run, "--layer", "0")["rows"][0]
    assert row["repeat_rate"] is not None and row["coactivation"] is not None
    assert 0 < row["topk_mass"] <= 1 and 0 <= row["router_entropy"]
    weights = []
    gate = [m for n, m in model.named_modules() if n.endswith(".gate")][0]
    hook = gate.register_forward_hook(lambda _m, _a, out: weights.append(
        torch.softmax((out[0] if isinstance(out, tuple) else out).float(), -1)))
    with torch.no_grad():
        model(ids(2, 8))
    hook.remove()
    top = weights[0].topk(2, -1)[0]
    assert row["topk_mass"] == pytest.approx(float(top.sum(-1).mean()), abs=1e-4)
    top = top / top.sum(-1, keepdim=True)
    sure = 1 + (top * top.log()).sum(-1) / torch.log(torch.tensor(4.0))
    assert row["router_confidence"] == pytest.approx(float(sure.mean()), abs=1e-4)
    assert profiler.wrappers[0].get_summary()["router_confidence_mean"] == pytest.approx(
        float(sure.mean()), abs=1e-4)


def test_the_experts_of_each_token_as_numpy(model):
    chosen = []
    gate = [m for n, m in model.named_modules() if n.endswith(".gate")][1]

    def keep(_module, _args, output):
        logits = output[0] if isinstance(output, tuple) else output
        chosen.append(logits.float().softmax(-1).topk(2, -1)[1])
    mask = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
    hook = gate.register_forward_hook(keep)
    with moescope.MoEProfiler(model, mode="tokens", warmup_steps=1) as profiler, torch.no_grad():
        model(ids(1, 4))
        model(ids(2, 5), attention_mask=mask)
        model(ids(1, 3, 2))
    hook.remove()
    got = profiler.token_experts(1)
    chosen[1][~mask.reshape(-1).bool()] = -1
    assert list(got) == [1, 2] and got[1].dtype == "int32"
    assert [got[step].tolist() for step in got] == [one.tolist() for one in chosen[1:]]
    with pytest.raises(ValueError, match="0 to 1"):
        profiler.token_experts(2)
    with moescope.MoEProfiler(model) as profiler, torch.no_grad():
        model(ids(1, 4))
    with pytest.raises(moescope.NotCaptured, match="mode=\"tokens\""):
        profiler.token_experts(0)


@pytest.mark.parametrize("mode", ["counts", "tokens"])
def test_a_decoded_token_costs_no_operation_of_torch(mode):
    """Hooks hand tensors on as they are: the model's own operations, and no others."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Count(TorchDispatchMode):
        n = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.n += 1
            return func(*args, **(kwargs or {}))

    model, token = make("DeepseekV3"), ids(1, 1)

    def operations():
        with Count() as count:
            model(token, use_cache=False)
        return count.n
    with torch.no_grad():
        bare = operations()
        with moescope.MoEProfiler(model, mode=mode) as profiler:
            assert [operations() for _ in range(20)][1:] == [bare] * 19
    assert profiler.wrappers[0].get_summary()["total_tokens_profiled"] == 20


def test_gates_are_timed_in_some_of_many_steps(model):
    with moescope.MoEProfiler(model) as profiler, torch.no_grad():
        for _ in range(70):
            model(ids(1, 1))
    rows = profiler.wrappers[0].metrics.rows()
    assert [row["step"] for row in rows if row["latency_ms"]] == [*range(16), 64]
    assert len(rows) == 70 and all(row["timestamp"] for row in rows)


def test_a_changed_call_is_looked_at_again():
    """The same layer with other shapes, types and places of its arguments."""

    class Experts(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.num_experts = 4
            self.up_proj = torch.nn.Parameter(torch.ones(4, 6, 3))
            self.down_proj = torch.nn.Parameter(torch.ones(4, 3, 6))

        def forward(self, hidden, indices, weights):
            return hidden

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.experts, self.calls = Experts(), []

        def forward(self, x):
            args, kwargs = self.calls.pop(0)
            return self.experts(x, *args, **kwargs)
    experts = Model()
    long = torch.tensor([[0, 1], [2, 1]])
    half = torch.ones(2, 2, dtype=torch.bfloat16)
    wide = torch.arange(8).reshape(2, 4)
    calls = [((long, half), {}), ((long, half), {}), ((long.int(), half), {}),
             ((wide[:, :2] % 4, half), {}), ((wide[:, ::2] % 4, half.float()), {}),
             ((long[:1], half[:1]), {}), ((), dict(indices=long, weights=half)),
             ((half, long), {}), ((long.short(), half.double()), {}), ((long, half), {})]
    experts.calls = list(calls)
    with moescope.MoEProfiler(experts) as profiler, torch.no_grad():
        for _ in calls:
            experts(torch.ones(2, 3))
    want = []
    for args, kwargs in calls:
        given = [t for t in (*args, *kwargs.values()) if not t.is_floating_point()][0]
        want.append(torch.bincount(given.reshape(-1).long(), minlength=4).tolist())
    rows = profiler.wrappers[0].metrics._series()
    assert [row["load"] for row in rows] == want
    assert all(row["router_confidence_k"] == pytest.approx(0, abs=1e-6) for row in rows)


def test_closed(model):
    profiler = moescope.MoEProfiler(model)
    profiler.close()
    profiler.close()
    for use in (profiler.start, profiler.get_metrics, profiler.print_summary):
        with pytest.raises(moescope.ProfilerClosed):
            use()
    assert not os.path.exists(profiler.run)


def test_under_moescope_run(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    run = str(tmp_path / "whole.mscope")
    done = subprocess.run([lib.tool_path(), "run", "-o", run, "--", sys.executable, str(script)],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [run, "5"]
    rows = lib.table("routing", run)["rows"]
    assert [row["tokens"] for row in rows] == [5]


def test_import_does_not_import_torch():
    code = ("import sys, moescope; from moescope import frames; "
            "assert not {'torch', 'numpy', 'pandas'} & set(sys.modules), 'heavy'")
    subprocess.run([sys.executable, "-c", code], check=True)


def test_tensors_reach_a_device_as_they_are():
    """The recorder of a device, scripted: what it is told of each call, against the tensors."""
    import ctypes

    from moescope.routing.device import DeviceSender

    class Recorder:
        index = -1

        def __init__(self):
            self.told, self.status = [], 0

        def route(self, what):
            slots = (ctypes.c_int64 if what.indices_type == lib.I64 else ctypes.c_int32)
            count = what.tokens * what.k
            mask = (ctypes.c_uint8 * what.tokens).from_address(what.mask) if what.mask else []
            self.told.append((what.layer, what.phase, what.experts, what.k, what.weights_type,
                              bool(what.weights), list(mask),
                              list((slots * count).from_address(what.indices))))
            return self.status

        def words(self, status):
            return f"failed {status}"

    recorder = Recorder()
    sender = DeviceSender(5, recorder)
    indices, weights = torch.tensor([[0, 1], [3, 2]]), torch.ones(2, 2, dtype=torch.bfloat16)
    mask = torch.tensor([True, False])
    assert sender.send(lib.DECODE, 4, indices, weights) == ""
    assert sender.again(lib.PREFILL, indices + 0, weights, mask.data_ptr())
    assert sender.again(lib.DECODE, indices.flip(0), weights, None)
    same = (5, lib.DECODE, 4, 2, lib.BF16, True)
    assert recorder.told == [(*same, [], [0, 1, 3, 2]),
                             (5, lib.PREFILL, *same[2:], [1, 0], [0, 1, 3, 2]),
                             (*same, [], [3, 2, 0, 1])]
    for other in ((indices[:1], weights[:1]), (indices.int(), weights), (indices, None),
                  (indices, weights.float()), (indices.t(), weights), (indices, weights[:1])):
        assert not sender.again(lib.DECODE, *other, None)
    assert len(recorder.told) == 3
    recorder.status = -22
    assert not sender.again(lib.DECODE, indices, weights, None)
    assert sender.send(lib.DECODE, 4, indices.int()) == "failed -22"
    assert recorder.told[-1][4:6] == (lib.F32, False)
