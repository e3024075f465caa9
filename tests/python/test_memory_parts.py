# SPDX-License-Identifier: Apache-2.0
"""Bytes by layer and expert against counts by hand."""
import pytest

torch = pytest.importorskip("torch")

import moescope  # noqa: E402
from moescope import _library as lib  # noqa: E402
from moescope.memory.parts import ModelMemory, place_of, stacked_experts  # noqa: E402

FLOAT = 4
E, H, I, LAYERS, VOCAB = 4, 16, 24, 2, 50
EXPERT = 3 * H * I * FLOAT
# q and o: H*H, k and v with half the heads: H*H/2 each; the router; two norms.
REST = (2 * H * H + 2 * H * H // 2 + E * H + 2 * H) * FLOAT
OUTSIDE = (2 * VOCAB * H + H) * FLOAT


@pytest.fixture
def mixtral():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    return transformers.MixtralForCausalLM(transformers.MixtralConfig(
        vocab_size=VOCAB, hidden_size=H, intermediate_size=I, num_hidden_layers=LAYERS,
        num_attention_heads=2, num_key_value_heads=1, num_local_experts=E,
        num_experts_per_tok=2, max_position_embeddings=64))


class Block(torch.nn.Module):
    """x -> relu(x W): autograd keeps the input of the product and the output of relu."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 8, bias=False)

    def forward(self, x):
        return torch.relu(self.linear(x))


class Experts(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.experts = torch.nn.ModuleList(Block() for _ in range(2))

    def forward(self, x):
        return self.experts[1](self.experts[0](x))


class Stack(torch.nn.Module):
    def __init__(self, kind) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(kind() for _ in range(3))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def test_parameters_by_layer_and_expert(mixtral):
    memory = ModelMemory(mixtral)
    layers = {row["index"]: row for row in memory.layers()}
    assert layers[None]["parameters_bytes"] == OUTSIDE
    for index in range(LAYERS):
        assert layers[index]["parameters_bytes"] == REST + E * EXPERT
        assert layers[index]["experts"] == E
    assert [row["parameters_bytes"] for row in memory.experts()] == [EXPERT] * (E * LAYERS)
    assert memory.total()["parameters"] == sum(p.numel() * FLOAT for p in mixtral.parameters())
    assert memory.total()["gradients"] == 0  # measured: there are none yet
    assert memory.total()["activations"] is None
    assert "forward" in memory.rows()[0]["activations_bytes_reason"]


def test_gradients_and_optimizer_state(mixtral):
    optimizer = torch.optim.AdamW(mixtral.parameters())
    tokens = torch.randint(0, VOCAB, (1, 6))
    mixtral(input_ids=tokens, labels=tokens).loss.backward()
    memory = ModelMemory(mixtral, optimizer)
    assert memory.total()["optimizer"] == 0
    optimizer.step()
    memory.update()
    # Experts that no token reached have no gradient when they are modules of their own.
    stacked = any(p.ndim == 3 for p in mixtral.parameters())
    for row in memory.experts():
        if stacked or row["gradients_bytes"]:
            assert row["gradients_bytes"] == EXPERT
            # two moments as large as the weights; the step counter is a number of its own
            assert row["optimizer_bytes"] - 2 * EXPERT == (0 if stacked else 3 * FLOAT)
    states = sum(value.numel() * value.element_size() for state in optimizer.state.values()
                 for value in state.values())
    assert memory.total()["optimizer"] == states


def test_activations_are_what_autograd_keeps():
    model = Stack(Block)
    x = torch.randn(5, 8)
    memory = ModelMemory(model)
    with memory.activations():
        y = model(x)
    size = 5 * 8 * FLOAT
    # Layer 0 keeps x and relu's result; the next layers' input is that result: once, not twice.
    assert [row["activations_bytes"] for row in memory.layers()] == [2 * size, size, size]
    y.sum().backward()
    del x, y
    assert memory.total()["activations"] == 4 * size  # as measured
    assert memory._alive() == {}  # and freed since


def test_activations_of_experts_that_are_modules():
    model = Stack(Experts)
    memory = ModelMemory(model)
    with memory.activations():
        kept = model(torch.randn(5, 8))
    size = 5 * 8 * FLOAT
    rows = [(row["index"], row["expert"], row["activations_bytes"]) for row in memory.experts()]
    assert rows == [(0, 0, 2 * size), (0, 1, size), (1, 0, size), (1, 1, size), (2, 0, size),
                    (2, 1, size)]
    assert kept.shape == (5, 8)


def test_stacked_experts_have_no_activations_of_their_own(mixtral):
    if not any(p.ndim == 3 for p in mixtral.parameters()):
        pytest.skip("this transformers keeps experts as modules")
    memory = ModelMemory(mixtral)
    with memory.activations():
        kept = mixtral(input_ids=torch.randint(0, VOCAB, (1, 6)))
    row = memory.experts()[0]
    assert row["activations_bytes"] is None and "one operation" in row["activations_bytes_reason"]
    assert all(row["activations_bytes"] > 0 for row in memory.layers())
    assert kept.logits.requires_grad


def test_model_is_as_before_and_gradients_are_the_same():
    torch.manual_seed(1)
    model = Stack(Experts)
    x = torch.randn(5, 8)
    model(x).sum().backward()
    want = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    with ModelMemory(model).activations():
        model(x).sum().backward()
    assert all(torch.equal(p.grad, g) for p, g in zip(model.parameters(), want))
    assert all(not m._forward_hooks and not m._forward_pre_hooks for m in model.modules())


def test_an_error_of_the_model_passes_and_hooks_go():
    model = Stack(Block)
    with pytest.raises(RuntimeError, match="mat1|shape"):
        with ModelMemory(model).activations():
            model(torch.randn(5, 9))
    assert all(not m._forward_hooks and not m._forward_pre_hooks for m in model.modules())


def test_a_router_is_no_expert():
    router = torch.nn.Linear(H, E)
    router.num_experts = E
    assert stacked_experts(router, router.weight) == 0
    fused = torch.nn.Module()
    fused.num_experts = E
    fused.down_proj = torch.nn.Parameter(torch.zeros(E, H, I))
    fused.bias = torch.nn.Parameter(torch.zeros(E, H))
    assert stacked_experts(fused, fused.down_proj) == E
    assert stacked_experts(fused, fused.bias) == E


def test_places():
    modules = dict(Stack(Experts).named_modules())
    assert place_of(modules, "layers.2.experts.1.linear.weight") == ("layers.2", 2, 1)
    assert place_of(modules, "layers.0.norm") == ("layers.0", 0, None)
    assert place_of(modules, "head.0.weight") == ("", None, None)


def test_the_run_shows_what_memory_is_made_of(tmp_path):
    model = Stack(Block)
    optimizer = torch.optim.Adam(model.parameters())
    run = moescope.start(str(tmp_path / "a.mscope"))
    try:
        memory = moescope.model_memory(model, optimizer)
        with memory.activations():
            y = model(torch.randn(5, 8))
        y.sum().backward()
        del y
        optimizer.step()
        memory.update().write()
    finally:
        moescope.stop()
    row = lib.table("memory", run)["rows"][0]
    parameters = 3 * 8 * 8 * FLOAT
    assert row["allocated_bytes"] == memory.total()["optimizer"] + 2 * parameters
    uses = row["composition"]
    assert uses["parameters"] == uses["gradients"] == parameters
    assert "activations" not in uses  # freed by the backward pass


SMALL = dict(vocab_size=VOCAB, hidden_size=H, intermediate_size=I, num_hidden_layers=1,
             num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=64,
             num_experts_per_tok=2)
DEEPSEEK = dict(n_routed_experts=E, moe_intermediate_size=8, first_k_dense_replace=0, n_group=1,
                topk_group=1, n_shared_experts=1)
FAMILIES = {
    "Qwen2Moe": dict(num_experts=E, moe_intermediate_size=8, shared_expert_intermediate_size=8),
    "Qwen3Moe": dict(num_experts=E, moe_intermediate_size=8, head_dim=8),
    "GptOss": dict(num_local_experts=E, head_dim=8),
    "GraniteMoe": dict(num_local_experts=E),
    "DeepseekV3": dict(DEEPSEEK, q_lora_rank=8, kv_lora_rank=8, qk_rope_head_dim=4,
                       qk_nope_head_dim=4, v_head_dim=8),
    "Glm4Moe": dict(DEEPSEEK, head_dim=8),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_experts_of_a_family(family):
    """Stacked, transposed, with biases, with shared experts: all routed weights, and only those."""
    transformers = pytest.importorskip("transformers")
    config = getattr(transformers, family + "Config")(**dict(SMALL, **FAMILIES[family]))
    model = getattr(transformers, family + "ForCausalLM")(config)
    memory = ModelMemory(model)
    routed = sum(p.numel() * p.element_size() for name, p in model.named_parameters()
                 if "shared" not in name and (".experts." in name or "put_linear" in name))
    rows = memory.experts()
    assert len(rows) == E and len({row["parameters_bytes"] for row in rows}) == 1
    assert sum(row["parameters_bytes"] for row in rows) == routed > 0


def test_data_frame(mixtral):
    pandas = pytest.importorskip("pandas")
    frame = moescope.model_memory(mixtral).to_df()
    assert isinstance(frame, pandas.DataFrame)
    assert frame.parameters_bytes.sum() == sum(p.numel() * FLOAT for p in mixtral.parameters())
