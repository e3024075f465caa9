# SPDX-License-Identifier: Apache-2.0
"""How to read the router's choice, family by family.

Best is to see the very indices that the experts are called with. If a block keeps them to itself,
the same operations are done on the same numbers as in the published block: the result is then the
same, not merely similar. A family in no table here is rejected, not guessed.
"""
from typing import Any, Callable, NamedTuple, Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .._library import SLOT_DROPPED, SLOT_UNUSED
from .._types import Args, Function, Json
from . import sizes
from .sizes import Sizes


class Choice(NamedTuple):
    """What a router chose: [tokens, k] experts and weights, [tokens, experts] probabilities, and
    out of how many (0: as found in the model)."""
    indices: Tensor
    weights: Optional[Tensor] = None
    scores: Optional[Tensor] = None
    experts: int = 0


# read(hooked module, positional arguments, keyword arguments, output or None)
Read = Callable[[nn.Module, Args, Json, Any], Choice]


class Found(NamedTuple):
    """Where to listen in a block: `when` is before or after the module's forward, or inside it.
    fixed: the tensors are always at the same places of its arguments or output."""
    module: nn.Module
    when: str
    read: Read
    gate: Optional[nn.Module]
    experts: int
    k: int
    sizes: Sizes
    fixed: bool = False


def integer(tensor: object) -> bool:
    return isinstance(tensor, Tensor) and not (tensor.is_floating_point() or tensor.is_complex()
                                               or tensor.dtype == torch.bool)


def flat(tensor: Tensor) -> Tensor:
    """[rows, last dimension]; a two-dimensional tensor is returned itself."""
    return tensor if tensor.dim() == 2 else tensor.reshape(-1, tensor.shape[-1])


def chosen_weights(weights: Optional[Tensor], indices: Tensor, experts: int) -> Optional[Tensor]:
    """[tokens, k], also from a row over all experts."""
    if weights is None or not weights.is_floating_point():
        return None
    weights = flat(weights)
    if weights.shape == indices.shape:
        return weights
    if weights.shape == (indices.shape[0], experts):
        return weights.gather(1, indices.long().clamp(0, experts - 1))
    return None


def experts_call(names: list[str], experts: int) -> Read:
    """experts(hidden_states, indices, weights), by position or by name, in either order."""
    def read(_module: nn.Module, args: Args, kwargs: Json, _output: object) -> Choice:
        given = list(args) + [kwargs[name] for name in names[len(args):] if name in kwargs]
        indices, weights = given[1], given[2]
        if not integer(indices) and integer(weights):
            indices, weights = weights, indices
        if not integer(indices):
            raise ValueError("the experts were called without a tensor of integer indices")
        indices = flat(indices)
        return Choice(indices, chosen_weights(weights, indices, experts))
    return read


def from_mask(mask: Tensor, k: int, missing: int, weights: Optional[Tensor] = None) -> Choice:
    """[tokens, experts] with a positive number where a token goes to an expert, at most k of them.
    missing: value for the remaining slots; weights: of the same shape."""
    found, indices = torch.topk(mask.to(torch.float32), k, dim=-1)
    chosen = None if weights is None else weights.gather(1, indices)
    return Choice(indices.masked_fill(found <= 0, missing), chosen)


def _looks_like_mask(indices: Tensor, experts: int) -> bool:
    """As many columns as experts: a row of indices would contain all of them, a mask zeros and
    ones."""
    if experts < 2 or indices.shape[-1] != experts or not indices.numel():
        return False
    if indices.device.type != "cpu":
        raise ValueError(f"its output has {experts} integers a token for {experts} experts, which may "
                         "be a mask or indices, and looking would wait for the device")
    return int(indices.min()) >= 0 and int(indices.max()) <= 1


def returned(experts: int, k: int = 0) -> Read:
    """The router's output contains exactly one integer tensor: the chosen experts, or a mask of
    them over all experts."""
    def read(_module: nn.Module, _args: Args, _kwargs: Json, output: Any) -> Choice:
        parts = [p for p in (output if isinstance(output, (tuple, list)) else (output,))
                 if isinstance(p, Tensor)]
        whole = [p for p in parts if integer(p) and p.dim() >= 2]
        if len(whole) != 1:
            raise ValueError(f"its output has {len(whole)} integer tensors in place of one")
        indices = flat(whole[0])
        if _looks_like_mask(indices, experts):
            if experts == 2:
                raise ValueError("its output has 2 integers a token for 2 experts, which may be a "
                                 "mask or indices")
            return from_mask(indices, max(k, int(indices.sum(-1).max()), 1), SLOT_UNUSED)
        like = [p for p in parts if p.is_floating_point() and p.shape == whole[0].shape]
        return Choice(indices, flat(like[0]) if like else None)
    return read


def softmax_top_k(k: int, normalise: bool) -> Read:
    """Softmax in float32, top-k, and the division if the block does it."""
    def read(_module: nn.Module, _args: Args, _kwargs: Json, logits: Tensor) -> Choice:
        scores = F.softmax(flat(logits), dim=1, dtype=torch.float)
        weights, indices = torch.topk(scores, k, dim=-1)
        if normalise:
            weights = weights / weights.sum(dim=-1, keepdim=True)
        return Choice(indices, weights, scores)
    return read


def _granite(module: nn.Module, _args: Args, _kwargs: Json, output: Any) -> Choice:
    logits = output[-1]
    top, indices = logits.topk(module.top_k, dim=1)
    return Choice(indices, torch.softmax(top, dim=1), torch.softmax(logits, dim=1))


def _llama4(module: nn.Module, _args: Args, _kwargs: Json, output: Any) -> Choice:
    logits = output[1]
    top, indices = torch.topk(logits, module.top_k, dim=1)
    scores = torch.sigmoid(logits.float())
    return Choice(indices, torch.sigmoid(top.float()), scores / scores.sum(dim=1, keepdim=True))


def _switch(_module: nn.Module, _args: Args, _kwargs: Json, output: Any) -> Choice:
    """(one-hot mask without tokens that found their expert full, probability, logits)."""
    mask, weights, logits = (flat(part) for part in output[:3])
    return Choice(from_mask(mask, 1, SLOT_DROPPED).indices, weights, torch.softmax(logits, dim=-1))


def _nllb(module: nn.Module, _args: Args, _kwargs: Json, output: Any) -> Choice:
    """(mask of the first, combining weights over all experts, …): an expert without weight was not
    chosen, was full, or is unused by policy."""
    weights = flat(output[1])
    every = module.second_expert_policy == "all"
    return from_mask(weights, min(2, weights.shape[1]), SLOT_DROPPED if every else SLOT_UNUSED,
                     weights)


def _top_then_softmax(k: int) -> Read:
    """The largest logits, and a softmax over only these."""
    def read(_module: nn.Module, _args: Args, _kwargs: Json, output: Any) -> Choice:
        logits = flat(output)
        top, indices = torch.topk(logits, k, dim=1)
        return Choice(indices, torch.softmax(top, dim=-1), torch.softmax(logits.float(), dim=-1))
    return read


def _one_hot(_module: nn.Module, _args: Args, _kwargs: Json, output: Any) -> Choice:
    """`output` is what the block passed to one_hot: a sampling router cannot be repeated."""
    return Choice(flat(output))


def _linear_block(normalise: Optional[bool] = None, gate: str = "gate") -> Function:
    def find(block: nn.Module) -> Found:
        router = getattr(block, gate)
        divide = block.norm_topk_prob if normalise is None else normalise
        experts = len(block.experts)
        return Found(router, "after", softmax_top_k(block.top_k, bool(divide)), router, experts,
                     block.top_k, sizes.of_list(block.experts, _columns(router)))
    return find


def _returning_block(gate: str = "gate") -> Function:
    def find(block: nn.Module) -> Found:
        router, experts = getattr(block, gate), len(block.experts)
        return Found(router, "after", returned(experts), router, experts, router.top_k,
                     sizes.of_list(block.experts, _columns(router)), True)
    return find


def _columns(router: nn.Module) -> int:
    weight = getattr(router, "weight", None)
    return weight.shape[-1] if isinstance(weight, Tensor) and weight.dim() == 2 else 0


def _find_phimoe(block: nn.Module) -> Found:
    return Found(block, "inside", _one_hot, block.gate, len(block.experts), block.top_k,
                 sizes.of_list(block.experts, block.gate.in_features))


def _find_granite(block: nn.Module) -> Found:
    router = block.router
    return Found(router, "after", _granite, router, router.num_experts, router.top_k,
                 sizes.of_pair(block.input_linear.weight, block.output_linear.weight))


def _find_llama4(block: nn.Module) -> Found:
    router = block.router
    return Found(router, "after", _llama4, router, block.num_experts, block.top_k,
                 sizes.of_cubes(block.experts, block.num_experts))


def _find_dbrx(block: nn.Module) -> Found:
    mlp = block.experts.mlp
    size = sizes.of_glu(mlp, mlp.moe_num_experts)
    if hasattr(block.router, "moe_top_k"):  # 4.x: the router returns the choice
        return Found(block.router, "after", returned(mlp.moe_num_experts), block.router,
                     mlp.moe_num_experts, block.router.moe_top_k, size, True)
    names = ["hidden_states", "top_k_index", "top_k_weights"]
    return Found(block.experts, "before", experts_call(names, mlp.moe_num_experts), block.router,
                 mlp.moe_num_experts, getattr(block, "top_k", 0) or 0, size, True)


def _find_dispatching(read: Read, k: int) -> Function:
    """A router that returns a mask over experts, and a dictionary of experts."""
    def find(block: nn.Module) -> Found:
        router, experts = block.router, list(block.experts.children())
        experts = [e for e in experts if any(True for _ in e.parameters())]
        return Found(router, "after", read, router, router.num_experts, k,
                     sizes.of_list(experts, router.classifier.in_features))
    return find


def _find_longcat(block: nn.Module) -> Found:
    """Some of its experts do nothing, so the FLOPs of a token are not those of its k."""
    router, experts = block.router, block.experts
    if isinstance(experts, nn.ModuleList):
        size = sizes.of_list(experts, router.classifier.in_features)
        real = sum(not isinstance(e, nn.Identity) for e in experts)
    else:
        real = experts.num_routed_experts
        size = sizes.of_cubes(experts, real)
    total = router.n_routed_experts
    if real != total:
        size = Sizes(hidden=size.hidden)
    return Found(router, "after", returned(total), router, total, router.top_k, size, True)


def _find_aria(block: nn.Module) -> Found:
    first, last, k = block.experts.fc1.weight, block.experts.fc2.weight, block.config.moe_topk
    inner = last.shape[1]
    size = Sizes(first.shape[1], inner, 1 + first.shape[2] // inner,
                 (first[0].numel() + last[0].numel()) * first.element_size())
    return Found(block.router, "after", _top_then_softmax(k), block.router, first.shape[0], k, size)


# Class of the block: how to listen to it, for blocks whose experts have no common interface.
BLOCKS: dict[str, Callable[[nn.Module], Found]] = {
    "MixtralSparseMoeBlock": _linear_block(normalise=True),
    "MiniMaxSparseMoeBlock": _linear_block(normalise=True),
    "Qwen2MoeSparseMoeBlock": _linear_block(),
    "Qwen3MoeSparseMoeBlock": _linear_block(),
    "Qwen3NextSparseMoeBlock": _linear_block(),
    "Qwen3OmniMoeThinkerTextSparseMoeBlock": _linear_block(),
    "OlmoeSparseMoeBlock": _linear_block(),
    "FlexOlmoSparseMoeBlock": _linear_block(),
    "JambaSparseMoeBlock": _linear_block(normalise=False, gate="router"),
    "PhimoeSparseMoeBlock": _find_phimoe,
    "DeepseekV2MoE": _returning_block(),
    "DeepseekV3MoE": _returning_block(),
    "Glm4MoeMoE": _returning_block(),
    "Glm4vMoeTextMoE": _returning_block(),
    "Dots1MoE": _returning_block(),
    "GraniteMoeMoE": _find_granite,
    "GraniteMoeSharedMoE": _find_granite,
    "GraniteMoeHybridMoE": _find_granite,
    "JetMoeMoE": _find_granite,
    "JetMoeMoA": _find_granite,
    "SwitchTransformersSparseMLP": _find_dispatching(_switch, 1),
    "NllbMoeSparseMLP": _find_dispatching(_nllb, 2),
    "LongcatFlashMoE": _find_longcat,
    "AriaTextMoELayer": _find_aria,
    "DbrxFFN": _find_dbrx,
    "Llama4TextMoe": _find_llama4,
}

# Class of a gate that returns its logits first: how they become probabilities.
_SOFTMAX = ("MixtralTopKRouter", "Qwen2MoeTopKRouter", "Qwen3MoeTopKRouter", "OlmoeTopKRouter",
            "JambaTopKRouter", "GraniteMoeTopKRouter", "GptOssTopKRouter", "DeepseekV2TopkRouter",
            "PhimoeTopKRouter")
_SIGMOID = ("DeepseekV3TopkRouter", "Glm4MoeTopkRouter")


def gate_scores(gate: nn.Module, output: Any) -> Optional[Tensor]:
    """The row of probabilities behind a choice seen at the experts; None: unknown."""
    kind = type(gate).__name__
    if not isinstance(output, tuple) or kind not in _SOFTMAX + _SIGMOID:
        return None
    logits = flat(output[0]).float()
    if kind in _SOFTMAX:
        return torch.softmax(logits, dim=-1)
    scores = logits.sigmoid()
    return scores / scores.sum(dim=-1, keepdim=True)
