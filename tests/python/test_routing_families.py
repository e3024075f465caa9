# SPDX-License-Identifier: Apache-2.0
"""Counts of every layer and step equal a recount from the arithmetic, family by family."""
import warnings

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import moescope  # noqa: E402

from moe_models import FAMILIES, Recount, has, ids, make  # noqa: E402


def loads(profiler):
    """[step][layer][expert] as the run has it."""
    layers = [view.metrics._series() for view in profiler.wrappers]
    return [[row["load"] for row in step] for step in zip(*layers)]


@pytest.mark.parametrize("family", FAMILIES)
def test_forward_is_exact(family):
    if not has(family):
        pytest.skip(f"transformers {transformers.__version__} has no {family}")
    model = make(family)
    recount, expected = Recount(model), []
    profiler = moescope.MoEProfiler(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        with profiler, torch.no_grad(), recount:
            for step in range(3):
                model(ids(2, 6 + step, step))
                expected.append(recount.counts())
    assert expected[0] and all(sum(map(sum, step)) > 0 for step in expected)
    assert loads(profiler) == expected
    assert all(view.hidden_dim == 16 and view.expert_dim for view in profiler.wrappers)


@pytest.mark.parametrize("family", FAMILIES)
def test_generate_is_exact(family):
    if not has(family):
        pytest.skip(f"transformers {transformers.__version__} has no {family}")
    model = make(family)
    recount, expected = Recount(model), []
    profiler = moescope.MoEProfiler(model)
    hook = model.register_forward_hook(lambda *_: expected.append(recount.counts()))
    with profiler, torch.no_grad(), recount:
        model.generate(ids(2, 5), attention_mask=torch.ones(2, 5, dtype=torch.long),
                       max_new_tokens=4, do_sample=False, pad_token_id=0)
    hook.remove()
    assert len(expected) == 4
    assert loads(profiler) == expected
    phases = [row["phase"] for row in profiler.wrappers[0].metrics._series()]
    assert phases == ["prefill", "decode", "decode", "decode"]


@pytest.mark.parametrize("family", ["Mixtral", "Phimoe", "DeepseekV3", "GraniteMoe", "Llama4"])
@pytest.mark.parametrize("reentrant", [False, True])
def test_training_with_checkpointing_counts_once(family, reentrant):
    model = make(family)
    model.train()
    model.gradient_checkpointing_enable({"use_reentrant": reentrant})
    recount = Recount(model)
    profiler = moescope.MoEProfiler(model)
    tokens = ids(2, 6)
    with profiler, recount:
        model(input_ids=tokens, labels=tokens, use_cache=False).loss.backward()
    assert loads(profiler) == [recount.counts()]
    assert profiler.wrappers[0].metrics._series()[0]["phase"] == "forward"
    assert profiler.wrappers[0].get_summary()["total_tokens_profiled"] == 12
