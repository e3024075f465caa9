# SPDX-License-Identifier: Apache-2.0
"""Routing inside compiled code: the same counts as without a compiler, or a clear word."""
import warnings

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import moescope  # noqa: E402

from moe_models import ids, make  # noqa: E402
from test_routing_families import loads  # noqa: E402


def eager(model, inputs):
    with moescope.MoEProfiler(model) as profiler, torch.no_grad():
        for one in inputs:
            model(**one)
    return loads(profiler)


def batch(seed, length=6):
    mask = torch.ones(2, length, dtype=torch.long)
    mask[1, :2] = 0
    return dict(input_ids=ids(2, length, seed), attention_mask=mask, use_cache=False)


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("family", ["Mixtral", "Llama4"])
def test_compiled_counts_are_exact(family, backend):
    old = int(transformers.__version__.split(".")[0]) < 5
    if old and (family, backend) == ("Mixtral", "aot_eager"):
        pytest.skip("the loops of 4.x take minutes to compile; the other backend stands for both")
    model = make(family)
    inputs = [batch(seed) for seed in range(3)]
    expected = eager(model, inputs)
    # The blocks of 4.x break the graph themselves; in 5.x nothing may.
    compiled = torch.compile(model, backend=backend, fullgraph=family == "Llama4" or not old)
    profiler = moescope.MoEProfiler(model)
    with profiler, torch.no_grad():
        for one in inputs:
            compiled(**one)
    assert loads(profiler) == expected


def test_code_compiled_before_start_is_captured():
    model = make("Llama4", num_hidden_layers=1)
    expected = eager(model, [batch(1)])
    compiled = torch.compile(model, backend="aot_eager")
    with torch.no_grad():
        compiled(**batch(0))
        with moescope.MoEProfiler(compiled) as profiler:
            compiled(**batch(1))
        after = compiled(**batch(1)).logits
    assert loads(profiler) == expected
    with torch.no_grad():
        assert torch.allclose(after, model(**batch(1)).logits, atol=1e-6)


def test_a_compiled_layer_alone():
    model = make("Mixtral")
    expected = eager(model, [batch(1), batch(2)])
    for layer in model.model.layers:
        layer.compile(backend="aot_eager")
    with moescope.MoEProfiler(model) as profiler, torch.no_grad():
        model(**batch(1))
        model(**batch(2))
    assert loads(profiler) == expected


def test_compiled_training_counts_once():
    model = make("Llama4", num_hidden_layers=1).train()
    tokens = ids(2, 6)
    with moescope.MoEProfiler(model) as profiler:
        model(input_ids=tokens, labels=tokens, use_cache=False).loss.backward()
    expected = loads(profiler)
    compiled = torch.compile(model, backend="aot_eager")
    profiler = moescope.MoEProfiler(model)
    with profiler:
        compiled(input_ids=tokens, labels=tokens, use_cache=False).loss.backward()
    assert loads(profiler) == expected
    assert profiler.wrappers[0].metrics._series()[0]["phase"] == "forward"


def test_nothing_is_recorded_after_stop():
    model = make("Llama4", num_hidden_layers=1)
    compiled = torch.compile(model, backend="eager")
    profiler = moescope.MoEProfiler(model)
    with torch.no_grad():
        with profiler:
            compiled(**batch(0))
        before = loads(profiler)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            compiled(**batch(1))
    assert loads(profiler) == before


def test_a_layer_that_cannot_be_heard_is_named():
    if int(transformers.__version__.split(".")[0]) >= 5:
        pytest.skip("the router of Phimoe 5.x returns its choice")
    model = make("Phimoe")
    compiled = torch.compile(model, backend="eager")
    profiler = moescope.MoEProfiler(model)
    with pytest.warns(RuntimeWarning, match="recorded nothing"), torch.no_grad(), profiler:
        compiled(**batch(0))
