# SPDX-License-Identifier: Apache-2.0
"""Encoders with decoders: routers that return masks and drop tokens, and padding of two stacks.

The recount does the routers' arithmetic again from their inputs, token by token in plain Python."""
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import moescope  # noqa: E402

from moe_models import ids  # noqa: E402

EXPERTS, SWITCH_CAPACITY, NLLB_CAPACITY = 4, 3, 7


def switch(**more):
    config = transformers.SwitchTransformersConfig(
        vocab_size=64, d_model=16, d_kv=8, d_ff=24, num_heads=2, num_layers=2, num_decoder_layers=2,
        num_sparse_encoder_layers=2, num_sparse_decoder_layers=2, num_experts=EXPERTS,
        expert_capacity=SWITCH_CAPACITY, dropout_rate=0.0, decoder_start_token_id=0, pad_token_id=0, **more)
    return transformers.SwitchTransformersForConditionalGeneration(config)


def nllb(**more):
    config = transformers.NllbMoeConfig(
        vocab_size=64, d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=24, decoder_ffn_dim=24, encoder_sparse_step=1,
        decoder_sparse_step=1, num_experts=EXPERTS, expert_capacity=NLLB_CAPACITY, dropout=0.0,
        attention_dropout=0.0, activation_dropout=0.0, router_ignore_padding_tokens=True,
        moe_eval_capacity_token_fraction=0.0, moe_token_dropout=0.0, decoder_start_token_id=0,
        pad_token_id=0, bos_token_id=1, eos_token_id=None, **more)
    return transformers.NllbMoeForConditionalGeneration(config)


def made(make):
    torch.manual_seed(11)
    model = make().eval()
    with torch.no_grad():
        for value in model.parameters():
            if value.dim() > 1:
                value.normal_(0, 0.4)
    return model


def switch_choice(router, hidden):
    """[[experts of a token]] of one sequence after another; a full expert takes no more of it."""
    chosen = []
    for sequence in router.classifier(hidden.float()).softmax(-1):
        used = [0] * EXPERTS
        for row in sequence.tolist():
            expert = row.index(max(row))
            used[expert] += 1
            chosen.append([expert] if used[expert] <= SWITCH_CAPACITY else [])
    return chosen


def nllb_choice(router, hidden):
    rows = router.classifier(hidden.reshape(-1, hidden.shape[-1]).float()).softmax(-1).tolist()
    order = [sorted(range(EXPERTS), key=lambda e, row=row: -row[e])[:2] for row in rows]
    first = [sum(1 for two in order if two[0] == e) for e in range(EXPERTS)]
    seen, chosen = [[0] * EXPERTS, first], []
    for two in order:
        kept = []
        for place, expert in enumerate(two):
            if seen[place][expert] < NLLB_CAPACITY:
                kept.append(expert)
            seen[place][expert] += 1
        chosen.append(kept)
    return chosen


class Recount:
    """Calls of every router, in the order of the model's modules."""

    def __init__(self, model, choice):
        self.calls = {}
        for name, module in model.named_modules():
            if hasattr(module, "classifier") and name.endswith("router"):
                module.register_forward_pre_hook(
                    lambda m, args, name=name: self.calls.setdefault(name, []).append(
                        choice(m, args[0].detach())))

    def loads(self, masks):
        """masks: which rows of a stack are tokens, "encoder" and "decoder"; None: all."""
        result = []
        for name, calls in self.calls.items():
            mask = masks["decoder" if "decoder" in name else "encoder"]
            counts = [0] * EXPERTS
            for rows in calls:
                for row, experts in enumerate(rows):
                    for expert in experts if mask is None or mask[row] else ():
                        counts[expert] += 1
            result.append(counts)
        return result


FAMILIES = pytest.mark.parametrize("make,choice", [(switch, switch_choice), (nllb, nllb_choice)])


def captured(profiler):
    return [view.metrics.loads for view in profiler.wrappers]


@FAMILIES
def test_masks_and_drops_are_read(make, choice):
    model = made(make)
    recount = Recount(model, choice)
    with moescope.MoEProfiler(model) as profiler, torch.no_grad():
        model(input_ids=ids(2, 9), decoder_input_ids=ids(2, 7, 1))
    expected = recount.loads({"encoder": None, "decoder": None})
    assert len(expected) == 4 and captured(profiler) == expected
    slots = 1 if make is switch else 2
    assert any(sum(load) < slots * 14 for load in expected), "nothing was dropped"
    for view in profiler.wrappers:
        tokens = 14 if "decoder" in view.name else 18
        assert view.get_summary()["total_tokens_profiled"] == tokens
        assert view.hidden_dim == 16 and view.expert_dim == 24
    rows = moescope._library.table("routing", profiler.run)["rows"]
    assert [row["dropped"] for row in rows] == [
        slots * row["tokens"] - sum(row["load"]) for row in rows]


@FAMILIES
def test_each_stack_has_its_own_padding(make, choice):
    """As many rows in both: the encoder's mask must not be taken for the decoder's."""
    model = made(make)
    recount = Recount(model, choice)
    encoder = torch.tensor([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]])
    decoder = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 0]])
    both = dict(input_ids=ids(2, 6), attention_mask=encoder, decoder_input_ids=ids(2, 6, 1))
    with moescope.MoEProfiler(model) as profiler, torch.no_grad():
        model(**both)
    expected = recount.loads({"encoder": encoder.reshape(-1).tolist(), "decoder": None})
    assert captured(profiler) == expected
    recount.calls.clear()
    with moescope.MoEProfiler(model) as profiler, torch.no_grad():
        model(**both, decoder_attention_mask=decoder)
    assert captured(profiler) == recount.loads(
        {"encoder": encoder.reshape(-1).tolist(), "decoder": decoder.reshape(-1).tolist()})


def test_generate_calls_the_encoder_by_itself():
    model = made(switch)
    recount = Recount(model, switch_choice)
    mask = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
    with moescope.MoEProfiler(model) as profiler, torch.no_grad():
        model.generate(ids(2, 5), attention_mask=mask, max_new_tokens=5, min_new_tokens=5,
                       do_sample=False)
    assert captured(profiler) == recount.loads(
        {"encoder": mask.reshape(-1).tolist(), "decoder": None})
    decoder = [view for view in profiler.wrappers if "decoder" in view.name][0]
    assert {row["phase"] for row in decoder.metrics._series()} == {"decode"}


def test_a_pattern_finds_the_routers_of_a_known_block():
    model = made(switch)
    recount = Recount(model, switch_choice)
    with moescope.MoEProfiler(model, pattern=r"router$") as profiler, torch.no_grad():
        model(input_ids=ids(2, 9), decoder_input_ids=ids(2, 7, 1))
    assert captured(profiler) == recount.loads({"encoder": None, "decoder": None})
