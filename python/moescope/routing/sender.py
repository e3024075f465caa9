# SPDX-License-Identifier: Apache-2.0
"""One layer's choices to the C library: tensors as they are, by address.

This is on the hot path of a model, once per layer and token. The structure for the call is built
once and only what differs from the last call is updated; if a tensor is contiguous and of a type
that the library knows, no torch operation is called. The choices of a few tokens are kept as
numbers and sent when the step ends, for all layers in a row: in the middle of the model's own code
the call into C costs several times as much.
"""
from collections.abc import Container
from ctypes import addressof, byref, c_float, c_int64, sizeof
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional, Union

import torch
from torch import Tensor

from .. import _library as lib

if TYPE_CHECKING:
    from .capture import Site
    from .sizes import Sizes

INDICES = {torch.int32: lib.I32, torch.int64: lib.I64}
WEIGHTS = {torch.float32: lib.F32, torch.float16: lib.F16, torch.bfloat16: lib.BF16}


def _plain(tensor: Tensor, known: Container[torch.dtype], otherwise: torch.dtype) -> Tensor:
    """Contiguous and of a known type: itself, or a copy."""
    if tensor.dtype not in known:
        tensor = tensor.to(otherwise)
    return tensor.contiguous()


class Sender:
    """Tensors on the CPU. An index outside [0, experts) is an unused slot."""

    # Of the last call; None: there was none.
    _phase: Optional[int]
    _shape: Optional[torch.Size]
    _dtype: Optional[torch.dtype]
    _weights_dtype: Optional[torch.dtype]
    _mask: Optional[int]

    def __init__(self, layer: int) -> None:
        what = lib.Routing(layer=layer, elsewhere=1)
        self._ready(what, -1, partial(lib.load().moescope_route, byref(what)))

    def _ready(self, what: Union[lib.Routing, lib.DeviceRouting], device: int,
               push: Callable[[], Optional[int]]) -> None:
        self._what, self._device, self._push = what, device, push
        self._phase = self._shape = self._dtype = self._weights_dtype = self._mask = None
        self.rows = 0  # of the last call

    def send(self, phase: int, experts: int, indices: Tensor, weights: Optional[Tensor] = None,
             scores: Optional[Tensor] = None, mask: Optional[Tensor] = None) -> str:
        """indices [tokens, k]; weights and scores of another shape or device are left out. mask:
        bool, one per row. Returns why not, or "". Tensors on the CPU have been read on return."""
        what = self._what
        shape = indices.shape
        if weights is not None and (weights.shape != shape or weights.device != indices.device):
            weights = None
        self._dtype = indices.dtype
        self._weights_dtype = None if weights is None else weights.dtype
        indices = _plain(indices, INDICES, torch.int32)
        what.phase, what.experts = phase, experts
        what.tokens, what.k = self.rows, _ = shape
        what.indices, what.indices_type = indices.data_ptr(), INDICES[indices.dtype]
        what.weights, what.weights_type = None, lib.F32
        if weights is not None:
            weights = _plain(weights, WEIGHTS, torch.float32)
            what.weights, what.weights_type = weights.data_ptr(), WEIGHTS[weights.dtype]
        self._mask = what.mask = None if mask is None else mask.data_ptr()
        self._phase, self._shape = phase, shape
        if self._dtype not in INDICES or (weights is not None
                                           and self._weights_dtype not in WEIGHTS):
            self._shape = None
        return self._finish(scores, experts)

    @property
    def plain(self) -> bool:
        """The last call's tensors had types that the library reads."""
        return self._shape is not None

    def _finish(self, scores: Optional[Tensor], experts: int) -> str:
        what = self._what
        if scores is not None and scores.shape == (what.tokens, experts):
            scores = scores.to(torch.float32).contiguous()
            what.scores = scores.data_ptr()
        self._push()
        what.scores = None
        return ""

    def again(self, phase: int, indices: Tensor, weights: Optional[Tensor],
              mask: Optional[int]) -> bool:
        """Like the last call except for the values and the phase; False: it is not, and nothing was
        sent. mask: its address."""
        device, what = self._device, self._what
        if indices.shape != self._shape or indices.dtype is not self._dtype \
                or indices.get_device() != device or not indices.is_contiguous() \
                or type(indices) is not Tensor:
            return False
        if weights is not None:
            if weights.dtype is not self._weights_dtype or weights.shape != self._shape \
                    or weights.get_device() != device or not weights.is_contiguous():
                return False
            what.weights = weights.data_ptr()
        elif self._weights_dtype is not None:
            return False
        if phase != self._phase:
            self._phase = what.phase = phase
        if mask != self._mask:
            self._mask = what.mask = mask
        what.indices = indices.data_ptr()
        return not self._push()


FEW = 64  # slots of a call, up to which its numbers are kept


class Shape(NamedTuple):
    """What all calls of a layer share as long as it is called in the same way."""
    site: "Site"
    layer: int
    experts: int
    rows: int
    k: int
    dtype: torch.dtype
    weights: Optional[torch.dtype]
    key: tuple[int, int]  # layer, rows


class Kept(list[Any]):
    """The calls of one step with few tokens on the CPU, each (shape, indices, weights, mask): lists
    of rows of numbers, and the mask as a bool tensor. Most steps repeat the calls of the
    previous step, so the structures exist and only numbers are written."""

    def __init__(self) -> None:
        super().__init__()
        self._shapes: tuple[Shape, ...] = ()
        self._phase: Optional[int] = None
        self._masks: list[Optional[int]] = []

    def send(self, phase: int) -> tuple[Shape, ...]:
        """Sends all to the library; returns their owners, the same tuple for the same ones."""
        shapes, index_rows, weight_rows, tensors = zip(*self)
        indices = [*chain.from_iterable(chain.from_iterable(index_rows))]
        weights = [*chain.from_iterable(chain.from_iterable(weight_rows))]
        masks = [None if mask is None else mask.data_ptr() for mask in tensors]
        if shapes != self._shapes:
            self._prepare(shapes, len(indices), len(weights))
        self._indices[:] = indices
        self._weights[:] = weights
        if phase != self._phase or masks != self._masks:
            self._phase, self._masks = phase, masks
            for what, mask in zip(self._what, masks):
                what.phase, what.mask = phase, mask
        self._push()
        self.clear()
        return self._shapes

    def _prepare(self, shapes: tuple[Shape, ...], indices: int, weights: int) -> None:
        self._shapes, self._phase = shapes, None
        self._indices, self._weights = (c_int64 * indices)(), (c_float * weights)()
        self._what = (lib.Routing * len(shapes))()
        self._push = partial(lib.load().moescope_routes, self._what, len(shapes))
        at, weights_at = addressof(self._indices), addressof(self._weights)
        for what, shape in zip(self._what, shapes):
            what.__init__(layer=shape.layer, elsewhere=1, experts=shape.experts, k=shape.k,
                          tokens=shape.rows, indices=at, indices_type=lib.I64,
                          weights=weights_at if shape.weights else None, weights_type=lib.F32)
            at += shape.rows * shape.k * sizeof(c_int64)
            weights_at += shape.rows * shape.k * sizeof(c_float) if shape.weights else 0


def send_sizes(layer: int, experts: int, k: int, sizes: "Sizes") -> None:
    lib.load().moescope_moe_layer(byref(lib.MoeLayer(
        layer=layer, experts=experts, k=k, hidden=sizes.hidden, inner=sizes.inner,
        matrices=sizes.matrices, expert_bytes=sizes.bytes, capacity_factor=0)))
