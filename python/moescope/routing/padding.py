# SPDX-License-Identifier: Apache-2.0
"""Which rows of a layer are padding: what the model was told about its tokens, stack by stack.

A model has one stack of layers, or an encoder and a decoder. A layer's rows are those of its own
stack; another stack's mask says nothing about them, even if it is as long.
"""
from typing import NamedTuple, Optional

from torch import Tensor

from .. import api
from .._types import Args, Json


class Described(NamedTuple):
    """One call's tokens: mask of the new positions or None, rows, new positions per sequence."""
    mask: Optional[Tensor]
    rows: int
    new: int


UNKNOWN = Described(None, 0, 2)


def describe(names: list[str], args: Args, given: Json, prefix: str = "") -> Described:
    """From the arguments of a forward, by position and by name. prefix "decoder_": the decoder's."""
    if args:
        given = {**dict(zip(names, args)), **given}
    ids = given.get(prefix + "input_ids")
    if ids is None:
        ids = given.get(prefix + "inputs_embeds")
    if ids is None and not prefix:
        ids = next((a for a in args if isinstance(a, Tensor)), None)
    if not isinstance(ids, Tensor) or ids.dim() < 2:
        return UNKNOWN
    batch, new = ids.shape[:2]
    mask = given.get(prefix + "attention_mask")
    if not isinstance(mask, Tensor) or mask.dim() != 2 or mask.shape[0] != batch \
            or mask.shape[1] < new or mask.is_floating_point():
        return Described(None, batch * new, new)
    return Described(mask[:, mask.shape[1] - new:], batch * new, new)


class Padding:
    """The padding of one stack, in its current call."""

    def __init__(self) -> None:
        self.mask: Optional[Tensor] = None
        self.here = 0  # rows of a mask in host memory
        self._there: dict[int, tuple[Tensor, int]] = {}
        self._odd_rows = False

    def set(self, mask: Optional[Tensor]) -> None:
        self.mask, self.here = None, 0
        if mask is not None:
            self.mask = mask.reshape(-1) != 0
            self.here = self.mask.shape[0] if self.mask.is_cpu else 0
        if self._there:
            self._there = {}

    def there(self, device: int, indices: Tensor) -> Optional[tuple[Tensor, int]]:
        """The mask for these rows and its address on the device; None if there is none for them."""
        if device not in self._there:
            self.rows(indices)
        there = self._there.get(device)
        return there if there is not None and there[0].shape[0] == indices.shape[0] else None

    def rows(self, indices: Tensor) -> Optional[Tensor]:
        """True for tokens, False for padding; None if no padding is known for these rows."""
        mask = self.mask
        if mask is None:
            return None
        if mask.shape[0] != indices.shape[0]:
            if not self._odd_rows:
                self._odd_rows = True
                api.info("routing padding", f"a layer routed {indices.shape[0]} rows of "
                         f"{mask.shape[0]} positions: padding among them is counted as tokens")
            return None
        device = indices.get_device()
        if device not in self._there:
            # The library reads bytes, and torch's bool is one.
            there = mask.to(indices.device, non_blocking=True).contiguous()
            self._there[device] = (there, there.data_ptr())
        return self._there[device][0]
