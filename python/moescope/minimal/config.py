# SPDX-License-Identifier: Apache-2.0
"""Sizes and training of MoEMinimalLLM."""
from dataclasses import dataclass
from typing import Any, Optional

from .. import errors


@dataclass
class MoEModelConfig:
    d_model: int = 384
    n_heads: int = 8
    n_layers: int = 6
    d_ff: int = 1536
    num_experts: int = 8
    expert_top_k: int = 2
    max_seq_len: int = 512
    vocab_size: Optional[int] = None  # None: 256, bytes
    dropout: float = 0.1
    load_balancing_weight: float = 0.01
    batch_size: int = 24
    max_steps: int = 1000
    learning_rate: float = 3e-4
    weight_decay: float = 0.1
    grad_clip: float = 1.0
    seed: int = 42

    def __post_init__(self) -> None:
        if self.vocab_size is None:
            self.vocab_size = 256
        if self.d_model % self.n_heads:
            raise errors.BadDimensions(f"d_model {self.d_model} is not a multiple of n_heads "
                                       f"{self.n_heads}")
        if not 1 <= self.expert_top_k <= self.num_experts:
            raise errors.BadDimensions(f"expert_top_k is {self.expert_top_k}; it goes from 1 to "
                                       f"num_experts, {self.num_experts}")


def complete(config: Any) -> MoEModelConfig:
    """Any object or dictionary with some of these names; the rest have their defaults."""
    if isinstance(config, MoEModelConfig):
        return config
    given = config if isinstance(config, dict) else vars(config)
    names = MoEModelConfig.__dataclass_fields__
    return MoEModelConfig(**{name: given[name] for name in names if name in given})
