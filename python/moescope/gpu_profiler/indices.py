# SPDX-License-Identifier: Apache-2.0
"""Expert indices as a program has them (lists, arrays, tensors), converted to rows for the library.

Two forms: an entry for every token and slot (as many entries as tokens, or a multiple of that, row
by row), or fewer entries than tokens, which are then the experts that all tokens went to. Tensors
on a CUDA device are copied to pinned memory without waiting.
"""
import ctypes
import sys
from typing import TYPE_CHECKING, Any, Optional

from .. import _library as lib
from .. import checks, errors

if TYPE_CHECKING:
    from torch import Tensor

CHUNK_ROWS = 4096  # in the short form, so that a million tokens need no array of a million rows


def flatten(indices: Any) -> list[int]:
    if hasattr(indices, "tolist"):
        indices = indices.tolist()
    if not isinstance(indices, (list, tuple)):
        return [checks.whole("expert_indices", indices, None, " or a list of them")]
    return [n for part in indices for n in (flatten(part) if isinstance(part, (list, tuple))
                                            else [checks.whole("an expert index", part, None)])]


def slots_of(entries: int, tokens: int) -> Optional[int]:
    """Slots per token; None: the short form."""
    if tokens <= 0 or entries == 0:
        raise errors.BadDimensions("profile_expert_routing needs at least one token and one expert "
                                   "index; leave the call out when there is none")
    if entries < tokens:
        return None
    if entries % tokens:
        raise errors.BadDimensions(
            f"{entries} expert indices do not divide among {tokens} tokens; give as many for each "
            "token, or the list of experts that all tokens went to")
    return entries // tokens


class Waiting:
    """Indices on their way from a CUDA device; `ready()` never waits."""

    def __init__(self, tensor: "Tensor", tokens: int) -> None:
        torch = sys.modules["torch"]
        self.tokens = tokens
        self.host = torch.empty(tensor.numel(), dtype=torch.int32, pin_memory=True)
        self.host.copy_(tensor.reshape(-1), non_blocking=True)
        self.event = torch.cuda.Event()
        self.event.record()

    def ready(self) -> bool:
        return bool(self.event.query())

    def wait(self) -> None:
        self.event.synchronize()


def on_device(indices: object) -> bool:
    return bool(getattr(indices, "is_cuda", False))


def count(indices: Any, tokens: int, experts: int) -> list[int]:
    """Assignments to each expert, and the invalid ones as the last number."""
    torch: Any = sys.modules.get("torch")
    found: list[int]
    if torch is not None and isinstance(indices, torch.Tensor):
        flat = indices.reshape(-1).to(torch.int64)
        inside = torch.where((flat < 0) | (flat >= experts), experts, flat)
        found = torch.bincount(inside, minlength=experts + 1).tolist()
        entries = flat.numel()
    else:
        found, flat = [0] * (experts + 1), flatten(indices)
        for n in flat:
            found[n if 0 <= n < experts else experts] += 1
        entries = len(flat)
    if slots_of(entries, tokens) is None:
        found = [n * tokens for n in found]
    return found


def _pointer(indices: Any) -> Any:
    """(address, entries, what keeps the memory)"""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(indices, torch.Tensor):
        kept = indices.detach().reshape(-1).to(torch.int32).contiguous()
        return kept.data_ptr(), kept.numel(), kept
    flat = flatten(indices)
    kept = (ctypes.c_int32 * len(flat))(*flat)
    return ctypes.addressof(kept), len(flat), kept


def route(library: Any, indices: Any, tokens: int, experts: int, layer: int) -> None:
    """Reports to the library, which counts entries outside the experts as invalid."""
    address, entries, kept = _pointer(indices)
    k = slots_of(entries, tokens)
    rows = tokens
    if k is None:
        k, rows = entries, min(tokens, CHUNK_ROWS)
        kept = (ctypes.c_int32 * (k * rows))(*(flatten(indices) * rows))
        address = ctypes.addressof(kept)
    if k > 64:
        raise errors.BadDimensions(f"{k} experts for one token; at most 64 can be recorded")
    for first in range(0, tokens, rows):
        library.moescope_route(ctypes.byref(lib.Routing(
            layer=layer, phase=lib.NO_PHASE, experts=experts, k=k,
            tokens=min(rows, tokens - first), indices=address)))
    del kept  # the library read from it until here
