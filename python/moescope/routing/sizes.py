# SPDX-License-Identifier: Apache-2.0
"""The dimensions of experts, read from the weights themselves and never assumed."""
from typing import Any, NamedTuple, Optional

from torch import Tensor, nn


class Sizes(NamedTuple):
    """0 is "unknown": figures that need it are then absent."""
    hidden: int = 0
    inner: int = 0
    matrices: int = 0
    bytes: int = 0


def _bytes(module: nn.Module, experts: int) -> int:
    """Weights of one expert if all are stacked along the first dimension."""
    return sum(p.numel() // experts * p.element_size() for p in module.parameters()
               if p.dim() and p.shape[0] % experts == 0)


def _cube(module: nn.Module, name: str) -> Optional[Tensor]:
    weight: Any = getattr(module, name, None)
    return weight if hasattr(weight, "dim") and weight.dim() == 3 else None


def of_cubes(module: nn.Module, experts: int) -> Sizes:
    """gate_up_proj or up_proj, and down_proj, each [E, ., .], either way round. If both ways fit
    the shapes, the module's own hidden dimension decides."""
    down = _cube(module, "down_proj")
    fused, up = _cube(module, "gate_up_proj"), _cube(module, "up_proj")
    first = fused if fused is not None else up
    size = _bytes(module, experts)
    if down is None or first is None:
        return Sizes(bytes=size)
    (a, b), (c, d) = down.shape[1:], first.shape[1:]
    plain = a == d and c in (b, 2 * b)
    turned = b == c and d in (a, 2 * a)
    if plain and turned:
        hint = getattr(module, "hidden_dim", getattr(module, "hidden_size", None))
        plain = a == hint if hint in (a, b) else not getattr(module, "is_transposed", False)
    if plain:
        hidden, inner, wide = a, b, c
    elif turned:
        hidden, inner, wide = b, a, d
    else:
        return Sizes(bytes=size)
    matrices = 3 if wide == 2 * inner or _cube(module, "gate_proj") is not None else 2
    return Sizes(hidden, inner, matrices, size)


def of_pair(first: nn.Module, last: nn.Module) -> Sizes:
    """Two stacked weights [E, I or 2I, H] and [E, H, I] in separate modules."""
    (wide, hidden), inner = first.shape[1:], last.shape[2]
    size = (first[0].numel() + last[0].numel()) * first.element_size()
    return Sizes(hidden, inner, 1 + wide // inner, size)


def of_list(experts: nn.ModuleList, hidden: int = 0) -> Sizes:
    """A list of small networks: the two or three linear layers of the first one."""
    one = experts[0]
    size = sum(p.numel() * p.element_size() for p in one.parameters())
    linear = [m for m in one.modules() if isinstance(m, nn.Linear)]
    hidden = hidden or (linear[0].in_features if linear else 0)
    inner = {m.out_features if m.in_features == hidden else m.in_features for m in linear}
    fits = all(hidden in (m.in_features, m.out_features) for m in linear)
    if len(linear) not in (2, 3) or len(inner) != 1 or not fits:
        return Sizes(hidden=hidden, bytes=size)
    return Sizes(hidden, inner.pop(), len(linear), size)


def of_glu(mlp: nn.Module, experts: int) -> Sizes:
    """w1, v1 and w2 of [E*I, H]."""
    rows, hidden = mlp.w1.shape
    return Sizes(hidden, rows // experts, 3, _bytes(mlp, experts))
