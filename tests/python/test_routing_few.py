# SPDX-License-Identifier: Apache-2.0
"""Calls with few tokens, whose numbers are kept until the step ends: as exact as those that are
sent at once, in every way that a step can end."""
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import moescope  # noqa: E402
from moescope import _library as lib  # noqa: E402

from moe_models import ids, make  # noqa: E402


class Experts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.num_experts = 4
        self.up_proj = torch.nn.Parameter(torch.ones(4, 6, 3))
        self.down_proj = torch.nn.Parameter(torch.ones(4, 3, 6))
        self.then = lambda indices, weights: None

    def forward(self, hidden, indices, weights):
        self.then(indices, weights)
        return hidden


class Model(torch.nn.Module):
    """Two layers; each call of the model takes the next choices of its list."""

    def __init__(self, choices):
        super().__init__()
        self.first, self.second = Experts(), Experts()
        self.choices = iter(choices)

    def forward(self, input_ids, attention_mask=None):
        indices = torch.tensor(next(self.choices))
        for layer in (self.first, self.second):
            layer(input_ids, indices.clone(), torch.full(indices.shape, 0.5))
            indices = (indices + 1) % 4
        return input_ids


CHOICES = [[[0, 1]], [[2, 1]], [[3, 0]], [[1, 3]], [[0, 2], [1, 2]], [[0, 3], [2, 1]], [[3, 1]]]


def want(choices, shift=0):
    return [torch.bincount((torch.tensor(c).reshape(-1) + shift) % 4, minlength=4).tolist()
            for c in choices]


def loads(profiler, layer=0):
    return [row["load"] for row in profiler.wrappers[layer].metrics._series()]


def steps(model, n, **more):
    for i in range(n):
        model(torch.ones(1, 1, dtype=torch.long), **more)


@pytest.mark.parametrize("mode", ["counts", "tokens"])
def test_each_step_has_its_own_numbers(mode):
    model = Model(CHOICES)
    with moescope.MoEProfiler(model, mode=mode) as profiler, torch.no_grad():
        steps(model, len(CHOICES))
    assert loads(profiler) == want(CHOICES)
    assert loads(profiler, 1) == want(CHOICES, 1)
    if mode == "tokens":
        told = profiler.token_experts()
        assert [told[s].tolist() for s in sorted(told)] == CHOICES
    rows = profiler.wrappers[1].metrics.rows()
    assert [row["step"] for row in rows] == [*range(len(CHOICES))]
    assert all(row["timestamp"] for row in rows)


def test_a_decoded_token_is_one_call_into_c(monkeypatch):
    library, calls = lib.load(), []
    for name in ("moescope_route", "moescope_routes"):
        real = getattr(library, name)
        monkeypatch.setattr(library, name, lambda *args, name=name, real=real: (
            calls.append((name, args[1:])), real(*args))[1])
    model = make("Mixtral")
    with moescope.MoEProfiler(model) as profiler, torch.no_grad():
        model(ids(1, 1))
        calls.clear()
        for _ in range(5):
            model(ids(1, 1))
    layers = len(profiler.wrappers)
    assert layers > 1 and calls == [("moescope_routes", (layers,))] * 5
    assert all(len(view.metrics.rows()) == 6 for view in profiler.wrappers)


def test_numbers_that_the_model_writes_over():
    model = Model(CHOICES)
    model.first.then = lambda indices, weights: (indices.fill_(3), weights.fill_(9))
    with moescope.MoEProfiler(model) as profiler, torch.inference_mode():
        steps(model, len(CHOICES))
    assert loads(profiler) == want(CHOICES)
    assert all(row["router_confidence_k"] == pytest.approx(0, abs=1e-6)
               for row in profiler.wrappers[0].metrics._series())


def test_padding_of_few_tokens():
    two = [[[0, 1], [2, 3]]] * 4
    model = Model(two)
    masks = [[1, 1], [0, 1], [1, 0], [0, 1]]
    with moescope.MoEProfiler(model) as profiler, torch.no_grad():
        for mask in masks:
            model(torch.ones(2, 1, dtype=torch.long), torch.tensor(mask).reshape(2, 1))
    rows = profiler.wrappers[0].metrics._series()
    assert [row["load"] for row in rows] == [[1, 1, 1, 1], [0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 1, 1]]
    assert [row["tokens"] for row in rows] == [2, 1, 1, 1]


def test_other_types_and_kinds_of_tensors():
    model = Model(CHOICES[:4])
    kinds = iter([torch.int64, torch.int64, torch.int32, torch.int16])
    real = torch.tensor
    with moescope.MoEProfiler(model) as profiler, torch.no_grad(), pytest.MonkeyPatch.context() as m:
        m.setattr(torch, "tensor", lambda values: real(values, dtype=next(kinds)))
        steps(model, 4)
    assert loads(profiler) == want(CHOICES[:4])


def test_numbers_that_cannot_be_sent():
    """The model goes on, and is told once."""
    model = Model(CHOICES)
    full = torch.full
    with moescope.MoEProfiler(model) as profiler, torch.no_grad(), pytest.MonkeyPatch.context() as m:
        steps(model, 2)
        m.setattr(torch, "full", lambda shape, value: full(shape, value, dtype=torch.complex64))
        with pytest.warns(RuntimeWarning, match="not captured"):
            steps(model, 1)
        m.undo()
        steps(model, 1)
    assert loads(profiler) == want(CHOICES[:2])


def test_a_step_that_ends_in_an_exception():
    model = Model(CHOICES)

    def stumble(indices, weights):
        if indices[0, 0] == 1 and len(indices) == 1:
            raise RuntimeError("out of memory")
    model.first.then = stumble
    with moescope.MoEProfiler(model) as profiler, torch.no_grad():
        steps(model, 3)
        with pytest.raises(RuntimeError, match="out of memory"):
            steps(model, 1)
        steps(model, 3)
    assert loads(profiler) == want(CHOICES)
    assert loads(profiler, 1) == want(CHOICES[:3] + CHOICES[4:], 1)


def test_reading_and_stopping_inside_a_step():
    model, seen = Model(CHOICES), []
    profiler = moescope.MoEProfiler(model).start()

    def look(indices, weights):
        seen.append(len(profiler.wrappers[0].metrics.rows()))
        if len(seen) == 4:
            profiler.stop()
    model.second.then = look
    with torch.no_grad():
        steps(model, 6)
    assert seen == [1, 2, 3, 4, 4, 4]
    assert loads(profiler) == want(CHOICES[:4])
    assert loads(profiler, 1) == want(CHOICES[:4], 1)


def test_two_profilers_that_come_and_go():
    model = Model(CHOICES)
    first, second = moescope.MoEProfiler(model), moescope.MoEProfiler(model)
    with torch.no_grad():
        with first:
            steps(model, 2)
            with second:
                steps(model, 3)
            steps(model, 1)
    assert loads(first) == want(CHOICES[:6])
    assert loads(second) == want(CHOICES[2:5])
