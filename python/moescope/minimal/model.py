# SPDX-License-Identifier: Apache-2.0
"""MoEMinimalLLM: a decoder of attention and top-k experts that reports itself to a profiler."""
import math
from contextlib import nullcontext
from typing import Any, Optional

import torch
import torch.nn.functional as F
from torch import nn

from .config import MoEModelConfig, complete


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True,
                                               dropout_p=self.dropout if self.training else 0.0)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class Expert(nn.Module):
    def __init__(self, width: int, inner: int, dropout: float) -> None:
        super().__init__()
        self.up = nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)
        self.drop = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(self.drop(F.silu(self.up(x))))


class MixtureOfExperts(nn.Module):
    """Softmax, top-k, weights that sum to 1; the load-balancing loss of Switch Transformer."""

    def __init__(self, config: MoEModelConfig, layer: int, profiler: Any) -> None:
        super().__init__()
        self.experts = nn.ModuleList(Expert(config.d_model, config.d_ff, config.dropout)
                                     for _ in range(config.num_experts))
        self.gate = nn.Linear(config.d_model, config.num_experts, bias=False)
        self.k, self.balance, self.layer, self.profiler = (
            config.expert_top_k, config.load_balancing_weight, layer, profiler)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        tokens = x.reshape(-1, x.shape[-1])
        chances = self.gate(tokens).softmax(-1)
        weights, chosen = chances.topk(self.k)
        weights = weights / weights.sum(-1, keepdim=True)
        if self.profiler is not None:
            self.profiler.profile_expert_routing(chosen.detach(), tokens.shape[0], layer=self.layer)
        out = torch.zeros_like(tokens)
        for number, expert in enumerate(self.experts):
            row, slot = torch.where(chosen == number)
            with self._timed(number):
                out.index_add_(0, row, weights[row, slot, None] * expert(tokens[row]))
        share = F.one_hot(chosen, len(self.experts)).float().mean((0, 1))
        aux = len(self.experts) * (share * chances.mean(0)).sum() * self.balance
        return out.view_as(x), aux

    def _timed(self, expert: int) -> Any:
        if self.profiler is None:
            return nullcontext()
        return self.profiler.profile_kernel_execution(f"expert_{expert}", expert, "expert")


class Block(nn.Module):
    def __init__(self, config: MoEModelConfig, layer: int, profiler: Any) -> None:
        super().__init__()
        self.before_attention, self.before_experts = (nn.RMSNorm(config.d_model),
                                                      nn.RMSNorm(config.d_model))
        self.attention = Attention(config.d_model, config.n_heads, config.dropout)
        self.moe = MixtureOfExperts(config, layer, profiler)
        self.profiler = profiler

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with self.profiler.profile_kernel_execution("attention", None, "attention") \
                if self.profiler is not None else nullcontext():
            x = x + self.attention(self.before_attention(x))
        out, aux = self.moe(self.before_experts(x))
        return x + out, aux


class MoEMinimalLLM(nn.Module):
    """config: MoEModelConfig, or anything with some of its names. profiler: an AdvancedGPUProfiler."""

    def __init__(self, config: object, profiler: Optional[Any] = None) -> None:
        super().__init__()
        self.config = config = complete(config)
        self.profiler = profiler
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.positions = nn.Embedding(config.max_seq_len, config.d_model)
        self.blocks = nn.ModuleList(Block(config, layer, profiler)
                                    for layer in range(config.n_layers))
        self.norm = nn.RMSNorm(config.d_model)
        self.lm_head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        self.lm_head.weight = self.embedding.weight
        self.apply(self._init)

    def _init(self, module: nn.Module) -> None:
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)

    def forward(self, ids: torch.Tensor, return_aux_loss: bool = True) -> Any:
        """Logits, and with return_aux_loss the load-balancing loss of all layers."""
        at = torch.arange(ids.shape[1], device=ids.device)
        x = self.embedding(ids) * math.sqrt(self.config.d_model) + self.positions(at)
        aux = x.new_zeros(())
        for block in self.blocks:
            x, more = block(x)
            aux = aux + more
        logits = self.lm_head(self.norm(x))
        return (logits, aux) if return_aux_loss else logits
