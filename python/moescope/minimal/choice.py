# SPDX-License-Identifier: Apache-2.0
"""PyTorch's if it is installed, else tinymoe's."""
import importlib.util

if importlib.util.find_spec("torch"):
    from .model import MoEMinimalLLM
    from .training import train_moe_model
else:
    from .embedded import MoEMinimalLLM, train_moe_model  # type: ignore[assignment]

__all__ = ["MoEMinimalLLM", "train_moe_model"]
