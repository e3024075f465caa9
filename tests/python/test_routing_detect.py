# SPDX-License-Identifier: Apache-2.0
"""Routers that nobody listed: captured when that is certain, refused otherwise, registered."""
import pytest

torch = pytest.importorskip("torch")

import moescope  # noqa: E402
from moescope.routing import detect  # noqa: E402
from moescope.routing.detect import unregister_router  # noqa: E402
from torch import nn  # noqa: E402


class StrangeGate(nn.Module):
    """Chooses by the smallest logit: top-k of its output would be wrong."""

    def __init__(self, k=2):
        super().__init__()
        self.k = k
        self.linear = nn.Linear(4, 5)

    def forward(self, x):
        return self.linear(x)


class StrangeBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.chooser = StrangeGate()
        self.experts = nn.ModuleList(nn.Linear(4, 4) for _ in range(5))

    def forward(self, x):
        chosen = self.chooser(x).topk(2, largest=False)[1]
        return sum(self.experts[e](x) * (chosen == e).any(-1, keepdim=True) for e in range(5))


class Strange(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = StrangeBlock(), StrangeBlock()

    def forward(self, x):
        return self.second(self.first(x))


def read(_module, _args, output):
    return output.topk(2, largest=False)[1], None, None, 5


@pytest.fixture
def registered():
    keys = []

    def register(key, function):
        moescope.register_router(key, function)
        keys.append(key)
    yield register
    for key in keys:
        unregister_router(key)


def test_an_unknown_mixture_is_refused():
    with pytest.raises(moescope.UnknownRouter, match="register_router"):
        moescope.MoEProfiler(Strange())


@pytest.mark.parametrize("key", [StrangeGate, "StrangeGate"])
def test_and_captured_once_registered(registered, key):
    registered(key, read)
    torch.manual_seed(0)
    model, expected = Strange(), []
    for block in (model.first, model.second):
        block.register_forward_pre_hook(lambda m, a: expected.append(torch.bincount(
            m.chooser.linear(a[0]).topk(2, largest=False)[1].reshape(-1), minlength=5).tolist()))
    with moescope.MoEProfiler(model) as profiler:
        model(torch.randn(9, 4))
    assert [view.metrics.loads for view in profiler.wrappers] == expected
    assert [view.name for view in profiler.wrappers] == ["first.chooser", "second.chooser"]


class HandWritten(nn.Module):
    """A mixture as people write it: a plain linear gate, experts under another name."""

    def __init__(self, experts, k=2):
        super().__init__()
        self.gate, self.top_k = nn.Linear(4, experts, bias=False), k
        self.networks = nn.ModuleList(nn.Linear(4, 4) for _ in range(experts))
        self.seen = torch.zeros(experts, dtype=torch.long)

    def forward(self, x):
        weights, chosen = self.gate(x).softmax(-1).topk(self.top_k)
        out = torch.zeros_like(x)
        for e, network in enumerate(self.networks):
            rows = (chosen == e).any(-1)
            self.seen[e] += rows.sum()
            out[rows] += network(x[rows])
        return out


class HandWrittenModel(nn.Module):
    def __init__(self, experts=6, k=3):
        super().__init__()
        self.blocks = nn.ModuleList(HandWritten(experts, k) for _ in range(2))

    def forward(self, x):
        for block in self.blocks:
            x = x + block(x)
        return x


@pytest.mark.parametrize("make", [HandWrittenModel, Strange])
def test_what_the_message_says_can_be_pasted(make):
    torch.manual_seed(3)
    model = make()
    with pytest.raises(moescope.UnknownRouter) as refused:
        moescope.MoEProfiler(model)
    sentence, _, paste = str(refused.value).partition("\n")
    assert "blocks.0.gate" in sentence or "first.chooser" in sentence
    before = dict(detect._registered)
    try:
        exec(paste, {"moescope": moescope, "model": model})
        with moescope.MoEProfiler(model) as profiler, torch.no_grad():
            model(torch.randn(50, 4))
    finally:
        detect._registered.clear()
        detect._registered.update(before)
    assert len(profiler.wrappers) == 2
    if make is HandWrittenModel:  # Strange takes the smallest: the reader must be changed there
        assert [v.metrics.loads for v in profiler.wrappers] == [b.seen.tolist()
                                                                for b in model.blocks]


def test_a_model_with_experts_is_never_said_to_have_none():
    class Fused(nn.Module):
        def __init__(self):
            super().__init__()
            self.router = nn.Linear(8, 5)
            self.w1, self.w2 = nn.Parameter(torch.zeros(5, 8, 4)), nn.Parameter(torch.zeros(5, 4, 8))

    class Dictionary(nn.Module):
        def __init__(self):
            super().__init__()
            self.experts = nn.ModuleDict({f"expert_{i}": nn.Linear(4, 4) for i in range(3)})

    class Configured(nn.Module):
        def __init__(self):
            super().__init__()
            self.config = {"num_experts": 16}
            self.inside = nn.Linear(4, 4)

    for part in (Fused(), Dictionary(), nn.Sequential(Fused())):
        with pytest.raises(moescope.UnknownRouter, match="register_router"):
            moescope.MoEProfiler(part)
    with pytest.raises(moescope.NoExpertsFound, match="16 experts"):
        moescope.MoEProfiler(Configured())


def test_dense_models_are_no_suspects():
    class Dense(nn.Module):
        """As many layers as outputs, and a convolution as wide as a projection."""

        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))
            self.score, self.gate = nn.Linear(4, 2), nn.Linear(4, 8)
            self.conv = nn.Conv1d(4, 8, 3)
    with pytest.raises(moescope.NoExpertsFound):
        moescope.MoEProfiler(Dense())


def test_one_of_two_registered_by_name_is_not_enough(registered):
    registered("first.chooser", read)
    with pytest.raises(moescope.UnknownRouter, match="second"):
        moescope.find_routers(Strange())


def test_logits_named_as_router_are_refused_at_run_time():
    model = Strange()
    profiler = moescope.MoEProfiler(model, pattern=r"chooser$")
    with pytest.warns(RuntimeWarning, match="not captured.*register_router"), profiler:
        model(torch.randn(3, 4))
    assert profiler.wrappers[0].metrics.rows() == []
    assert "integer" in profiler.wrappers[0].not_captured


class Telling(nn.Module):
    """A router with an unusual name that returns what it chose."""

    def __init__(self, answer):
        super().__init__()
        self.num_experts, self.answer = 4, answer

    def forward(self, x):
        return torch.ones(x.shape[0], self.answer.shape[1]), self.answer


@pytest.mark.parametrize("chosen,k", [([[0, 0, 1, 0], [1, 0, 0, 0]], 1),
                                      ([[0, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]], 2)])
def test_a_mask_is_not_counted_as_indices(chosen, k):
    mask = torch.tensor(chosen)
    model = TellingModel(mask)
    with moescope.MoEProfiler(model, pattern="switchboard") as profiler:
        model(torch.zeros(len(chosen), 4))
    assert profiler.wrappers[0].metrics.loads == mask.sum(0).tolist()
    assert profiler.wrappers[0].metrics.k_distribution == [sorted(mask.sum(1).tolist())]
    assert len(profiler.wrappers[0].metrics.k_hist) == k + 1


def test_all_experts_of_a_token_are_indices():
    model = TellingModel(torch.tensor([[0, 1, 2, 3], [3, 1, 0, 2]]))
    with moescope.MoEProfiler(model, pattern="switchboard") as profiler:
        model(torch.zeros(2, 4))
    assert profiler.wrappers[0].metrics.loads == [2, 2, 2, 2]


class TellingModel(nn.Module):
    def __init__(self, answer):
        super().__init__()
        self.switchboard = Telling(answer)

    def forward(self, x):
        return self.switchboard(x)[0].sum() + x


@pytest.mark.parametrize("how", [dict(pattern="switch"), dict(routers=["switchboard"])])
def test_given_routers(how):
    model = TellingModel(torch.tensor([[0, 3], [3, 1]]))
    with moescope.MoEProfiler(model, **how) as profiler:
        model(torch.zeros(2, 4))
    assert profiler.wrappers[0].metrics.expert_loads == {0: 1, 1: 1, 2: 0, 3: 2}
    module = TellingModel(torch.tensor([[0, 3]]))
    with moescope.MoEProfiler(module, routers=[module.switchboard]) as profiler:
        module(torch.zeros(1, 4))
    assert profiler.wrappers[0].metrics.k_distribution == [[2]]


@pytest.mark.parametrize("answer", [torch.tensor([[0, 9]]), torch.tensor([[0, -7]]),
                                    torch.zeros(1, 5, dtype=torch.long),
                                    torch.tensor([[0, 1, 2, 3, 4]])])
def test_indices_that_cannot_be_are_refused(answer):
    model = TellingModel(answer)
    profiler = moescope.MoEProfiler(model, pattern="switchboard")
    with pytest.warns(RuntimeWarning, match="not captured"), profiler:
        model(torch.zeros(1, 4))
        model(torch.zeros(1, 4))
    assert profiler.wrappers[0].get_summary()["total_steps"] == 0
    assert profiler.wrappers[0].get_summary()["k_mean"] is None


@pytest.mark.filterwarnings("error")
def test_warnings_that_are_errors_do_not_reach_the_model(capsys):
    model = TellingModel(torch.tensor([[0, 9]]))
    with moescope.MoEProfiler(model, pattern="switchboard"):
        model(torch.zeros(1, 4))
    assert "not captured" in capsys.readouterr().err


def test_sentinels_of_expert_parallelism_are_unused_slots():
    model = TellingModel(torch.tensor([[0, 4], [4, 4], [1, 2]]))
    with moescope.MoEProfiler(model, pattern="switchboard") as profiler:
        model(torch.zeros(3, 4))
    assert profiler.wrappers[0].metrics.expert_loads == {0: 1, 1: 1, 2: 1, 3: 0}
    assert profiler.wrappers[0].metrics.k_distribution == [[0, 1, 2]]
    figures = profiler.wrappers[0].get_summary()
    assert (figures["k_min"], figures["k_mean"], figures["k_max"]) == (0, 1, 2)


def test_models_without_experts_and_wrong_names():
    with pytest.raises(moescope.NoExpertsFound):
        moescope.MoEProfiler(nn.Sequential(nn.Linear(4, 4), nn.ReLU()))
    with pytest.raises(moescope.UnknownRouter, match="no module"):
        moescope.MoEProfiler(Strange(), routers=["nowhere"])
    with pytest.raises(moescope.UnknownRouter, match="matches"):
        moescope.MoEProfiler(Strange(), pattern="nowhere")
    with pytest.raises(ValueError, match="regular expression"):
        moescope.MoEProfiler(Strange(), pattern="(")


class Stacked(nn.Module):
    """The common interface with two or three matrices, either way round."""

    def __init__(self, gated, turned):
        super().__init__()
        wide = 12 if gated else 6
        self.num_experts, self.hidden_dim = 4, 8
        up, down = (4, wide, 8), (4, 8, 6)
        if turned:
            up, down = (4, 8, wide), (4, 6, 8)
        self.register_parameter("gate_up_proj" if gated else "up_proj",
                                nn.Parameter(torch.zeros(up)))
        self.down_proj = nn.Parameter(torch.zeros(down))

    def forward(self, hidden, indices, weights):
        return hidden


class StackedModel(nn.Module):
    def __init__(self, gated, turned):
        super().__init__()
        self.experts = Stacked(gated, turned)

    def forward(self, x):
        return self.experts(x, top_k_index := torch.tensor([[0, 1], [2, 1], [0, 3]]),
                            torch.ones_like(top_k_index, dtype=torch.float))


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("turned", [False, True])
def test_flops_equal_a_hand_count(gated, turned):
    model = StackedModel(gated, turned)
    with moescope.MoEProfiler(model) as profiler:
        model(torch.zeros(3, 8))
    view = profiler.wrappers[0]
    assert (view.hidden_dim, view.expert_dim) == (8, 6)
    # 3 tokens, 2 experts each; a row through a matrix of 8 x 6 is 2*8*6 operations
    expert = 3 * 2 * (3 if gated else 2) * 2 * 8 * 6
    router = 3 * (2 * 8 * 4 + 5 * 4)
    row = view.metrics.rows()[0]
    assert (row["flops_expert"], row["flops_router"]) == (expert, router)
    assert row["flops_total"] == expert + router
    weights = sum(p.numel() for p in model.parameters()) // 4 * 4
    assert view.router.found.sizes.bytes == weights


def test_flops_of_experts_in_a_list():
    from moescope.routing.sizes import of_list
    two = nn.ModuleList(nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 8))
                        for _ in range(3))
    assert of_list(two, 8)[:3] == (8, 6, 2)
    odd = nn.ModuleList([nn.Sequential(nn.Linear(8, 6), nn.Linear(6, 5), nn.Linear(5, 8))])
    assert of_list(odd, 8)[:3] == (8, 0, 0)


def test_an_experts_interface_without_indices_is_given_up():
    class Odd(StackedModel):
        def forward(self, x):
            return self.experts(x, torch.ones(3, 2), torch.ones(3, 2))
    model = Odd(True, False)
    with pytest.warns(RuntimeWarning, match="integer indices"), moescope.MoEProfiler(model):
        assert model(torch.zeros(3, 8)).shape == (3, 8)


def test_two_sets_of_experts_in_one_block():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.text, self.vision = Stacked(True, False), Stacked(True, False)
    assert [r.name for r in moescope.find_routers(Two())] == ["text", "vision"]
    with pytest.raises(moescope.UnknownRouter, match="'odd'.*'odd.chooser'"):
        two = Two()
        two.odd = StrangeBlock()
        moescope.find_routers(two)


def test_a_block_whose_forward_is_another_is_refused():
    transformers = pytest.importorskip("transformers")
    from transformers.models.llama4 import modeling_llama4
    config = transformers.Llama4TextConfig(hidden_size=8, intermediate_size=4, num_local_experts=4,
                                           num_experts_per_tok=1)

    class Same(modeling_llama4.Llama4TextMoe):
        pass

    class Changed(modeling_llama4.Llama4TextMoe):
        def forward(self, hidden_states):
            return hidden_states, None
    assert len(moescope.find_routers(nn.Sequential(Same(config)))) == 1
    with pytest.raises(moescope.UnknownRouter):
        moescope.find_routers(nn.Sequential(Changed(config)))
    patched = Same(config)
    patched.forward = lambda hidden_states: (hidden_states, None)
    with pytest.raises(moescope.UnknownRouter):
        moescope.find_routers(nn.Sequential(patched))
    pretender = type("DeepseekV3MoE", (StrangeBlock,), {})()
    with pytest.raises(moescope.UnknownRouter):
        moescope.find_routers(nn.Sequential(pretender))
