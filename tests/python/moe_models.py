# SPDX-License-Identifier: Apache-2.0
"""Tiny random MoE models, and a count of their routing that does not use moescope.

Recount looks at the arithmetic: which slice of an expert's weights was multiplied with how many
rows. It knows nothing of routers."""
from typing import Dict, List, Tuple

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

BASE = dict(vocab_size=64, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
            num_key_value_heads=1, max_position_embeddings=64, pad_token_id=0, bos_token_id=1,
            eos_token_id=None)
LATENT = dict(q_lora_rank=None, kv_lora_rank=8, qk_rope_head_dim=4, qk_nope_head_dim=4,
              v_head_dim=8, head_dim=4, num_key_value_heads=2)

# family: (prefix of the classes, configuration)
FAMILIES: Dict[str, Tuple[str, dict]] = {
    "Mixtral": ("Mixtral", dict(intermediate_size=24, num_local_experts=4,
                                num_experts_per_tok=2)),
    "Qwen2Moe": ("Qwen2Moe", dict(moe_intermediate_size=8, num_experts=6, num_experts_per_tok=3,
                                  intermediate_size=24, shared_expert_intermediate_size=12)),
    "Qwen3Moe": ("Qwen3Moe", dict(moe_intermediate_size=8, num_experts=6, num_experts_per_tok=3,
                                  intermediate_size=24, head_dim=8, norm_topk_prob=True)),
    "OLMoE": ("Olmoe", dict(intermediate_size=8, num_experts=8, num_experts_per_tok=4)),
    "DeepseekV2": ("DeepseekV2", dict(
        LATENT, intermediate_size=24, moe_intermediate_size=8, n_routed_experts=8,
        num_experts_per_tok=3, first_k_dense_replace=1, n_shared_experts=1, n_group=4, topk_group=2,
        topk_method="group_limited_greedy", num_hidden_layers=3)),
    "DeepseekV3": ("DeepseekV3", dict(
        LATENT, intermediate_size=24, moe_intermediate_size=8, n_routed_experts=8,
        num_experts_per_tok=3, first_k_dense_replace=1, n_shared_experts=1, n_group=4, topk_group=2,
        num_hidden_layers=3)),
    "GptOss": ("GptOss", dict(intermediate_size=12, num_local_experts=5, num_experts_per_tok=2,
                              head_dim=8)),
    "Phimoe": ("Phimoe", dict(intermediate_size=12, num_local_experts=5, num_experts_per_tok=2)),
    "GraniteMoe": ("GraniteMoe", dict(intermediate_size=12, num_local_experts=5,
                                      num_experts_per_tok=2)),
    "Jamba": ("Jamba", dict(intermediate_size=12, num_experts=4, num_experts_per_tok=2,
                            use_mamba_kernels=False, attn_layer_period=2, attn_layer_offset=0,
                            expert_layer_period=2, expert_layer_offset=1, mamba_d_state=4,
                            mamba_dt_rank=4, num_hidden_layers=4)),
    "JetMoe": ("JetMoe", dict(intermediate_size=12, num_local_experts=5, num_experts_per_tok=2,
                              kv_channels=8)),
    "LongcatFlash": ("LongcatFlash", dict(
        LATENT, ffn_hidden_size=24, expert_ffn_hidden_size=8, n_routed_experts=6, moe_topk=3,
        zero_expert_num=0, num_layers=2, q_lora_rank=8)),
    "AriaText": ("AriaText", dict(intermediate_size=12, moe_num_experts=5, moe_topk=2, head_dim=8,
                                  moe_num_shared_experts=1)),
    "DBRX": ("Dbrx", {}),
    "Llama4": ("Llama4", dict(intermediate_size=12, intermediate_size_mlp=20, num_local_experts=4,
                              num_experts_per_tok=2, head_dim=8, interleave_moe_layer_step=1,
                              attention_chunk_size=32)),
    "Glm4Moe": ("Glm4Moe", dict(
        intermediate_size=24, moe_intermediate_size=8, n_routed_experts=8, num_experts_per_tok=3,
        first_k_dense_replace=1, n_shared_experts=1, n_group=4, topk_group=2, head_dim=8,
        num_hidden_layers=3)),
}


def make(family: str, **more: object) -> nn.Module:
    """A model of the family with random weights, and with a correction bias where it has one."""
    import transformers
    prefix, special = FAMILIES[family]
    torch.manual_seed(7)
    name = {"Llama4": "Llama4TextConfig"}.get(family, prefix + "Config")
    if family == "DBRX":
        config = transformers.DbrxConfig(
            d_model=16, n_heads=2, n_layers=2, max_seq_len=64, vocab_size=64, pad_token_id=0,
            attn_config=dict(kv_n_heads=1, clip_qkv=8.0, rope_theta=1e4),
            ffn_config=dict(ffn_hidden_size=12, moe_num_experts=4, moe_top_k=2,
                            moe_jitter_eps=None), **more)
    else:
        config = getattr(transformers, name)(**{**BASE, **special, **more})
    model = getattr(transformers, prefix + "ForCausalLM")(config).eval()
    with torch.no_grad():
        for key, value in [*model.named_parameters(), *model.named_buffers()]:
            if key.endswith("e_score_correction_bias"):
                value.copy_(torch.linspace(-0.2, 0.2, value.numel()))
            elif value.is_floating_point() and value.dim() > 1:
                value.normal_(0, 0.3)
    return model


def has(family: str) -> bool:
    import transformers
    return hasattr(transformers, FAMILIES[family][0] + "ForCausalLM")


class Recount(TorchFunctionMode):
    """Rows multiplied with each expert's weights: counts()[layer][expert]."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self._first: List[Tuple[torch.Tensor, int]] = []  # the first weight of a layer, experts
        self._handles = []
        self._lists: List[nn.ModuleList] = []
        for name, module in model.named_modules():
            kind = type(module).__name__
            if kind == "AriaGroupedExpertsGemm":
                if name.endswith("fc1"):
                    self._sized(module, module.groups)
            elif isinstance(module, nn.ModuleList) and name.endswith("experts"):
                self._list(module)
            elif kind == "Llama4TextExperts":
                self._dense(module)
            elif kind in ("GraniteMoeParallelExperts", "JetMoeParallelExperts"):
                if name.endswith("input_linear"):
                    self._sized(module)
            elif kind == "DbrxExpertGLU":
                self._first.append((module.w1, module.moe_num_experts))
            elif getattr(getattr(module, "gate_up_proj", None), "ndim", 0) == 3:
                self._first.append((module.gate_up_proj, module.gate_up_proj.shape[0]))
        self.reset()

    def _list(self, experts: nn.ModuleList) -> None:
        layer = len(self._first)
        self._first.append((experts, len(experts)))
        for e, expert in enumerate(experts):
            self._handles.append(expert.register_forward_pre_hook(
                lambda _m, args, e=e: self._add(layer, e, args[0].reshape(
                    -1, args[0].shape[-1]).shape[0])))

    def _dense(self, module: nn.Module) -> None:
        layer, size = len(self._first), module.num_experts
        self._first.append((module, size))

        def look(_module: nn.Module, args: Tuple) -> None:
            rows = args[0].reshape(size, -1, args[0].shape[-1]).abs().sum(-1) > 0
            for e in range(size):
                self._add(layer, e, int(rows[e].sum()))
        self._handles.append(module.register_forward_pre_hook(look))

    def _sized(self, module: nn.Module, experts: int = 0) -> None:
        layer = len(self._first)
        self._first.append((module, experts or module.num_experts))

        def look(_module: nn.Module, args: Tuple) -> None:
            for e, rows in enumerate(args[1]):
                self._add(layer, e, int(rows))
        self._handles.append(module.register_forward_pre_hook(look))

    def reset(self) -> None:
        self._counts = [[0] * experts for _, experts in self._first]

    def _add(self, layer: int, expert: int, rows: int) -> None:
        if torch._C._current_graph_task_id() == -1:
            self._counts[layer][expert] += rows

    def counts(self) -> List[List[int]]:
        """Since the last call."""
        counts = self._counts
        self.reset()
        return counts

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", "")
        if name in ("linear", "matmul", "__matmul__", "__rmatmul__") and len(args) > 1:
            self._slice(args[0], args[1])
        elif "grouped_mm" in name:
            self._grouped(args, kwargs or {})
        return func(*args, **(kwargs or {}))

    def _place(self, weight: torch.Tensor) -> Tuple[int, int]:
        for layer, (first, experts) in enumerate(self._first):
            if isinstance(first, torch.Tensor):
                one = first.numel() // experts * first.element_size()
                offset = weight.data_ptr() - first.data_ptr()
                if 0 <= offset < one * experts:
                    return layer, offset // one
        return -1, -1

    def _slice(self, rows: torch.Tensor, weight: torch.Tensor) -> None:
        layer, expert = self._place(weight) if isinstance(weight, torch.Tensor) else (-1, -1)
        if layer >= 0 and weight.dim() == 2:
            self._add(layer, expert, rows.shape[0])

    def _grouped(self, args: Tuple, kwargs: dict) -> None:
        weight = args[1]
        layer, _ = self._place(weight)
        if layer >= 0:
            ends = kwargs.get("offs", args[2] if len(args) > 2 else None).tolist()
            for e, (start, end) in enumerate(zip([0] + ends, ends)):
                self._add(layer, e, end - start)


def ids(batch: int, length: int, seed: int = 0) -> torch.Tensor:
    torch.manual_seed(seed)
    return torch.randint(2, 64, (batch, length))
