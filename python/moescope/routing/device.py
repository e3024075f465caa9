# SPDX-License-Identifier: Apache-2.0
"""Routing that lies in the memory of a CUDA device: the recorder of the C library.

Nothing here waits for the device or reads a number from it, and what is launched may stand in a
CUDA graph. A recorder that a graph holds calls of is kept for the life of the process: a replay
after stop() must find it, and finds it switched off."""
from ctypes import byref, c_void_p
from typing import Any, List, Optional

import torch
from torch import Tensor

from .. import _library as lib
from .. import errors

_INDICES = {torch.int32: lib.I32, torch.int64: lib.I64}
_WEIGHTS = {torch.float32: lib.F32, torch.float16: lib.F16, torch.bfloat16: lib.BF16}
_kept: List["DeviceRecorder"] = []


class DeviceRecorder:
    """Counts on one device."""

    def __init__(self, device: torch.device, layers: int, experts: int, k: int, tokens: int,
                 weights: bool) -> None:
        self.device, self.captured = device, False
        self._library = lib.load()
        self._handle = c_void_p()
        options = lib.RecorderOptions(layers=layers, experts=experts, k=k, tokens=tokens, slots=0,
                                      weights=int(weights))
        with torch.cuda.device(device):
            torch.zeros(1, device=device)  # makes the context that the recorder belongs to current
            status = self._library.moescope_recorder_open(byref(options), byref(self._handle))
        if status != 0:
            raise errors.NotCaptured(
                f"routing on {device} cannot be recorded: {self._words(status)}; move the model to "
                "the CPU, or use a machine with a CUDA driver and libnvrtc")

    def _words(self, status: int) -> str:
        words = self._library.moescope_recorder_words()
        return (words or b"").decode(errors="replace") or f"error {-status}"

    def _stream(self) -> int:
        return torch.cuda.current_stream(self.device).cuda_stream

    def _capturing(self) -> bool:
        capturing = torch.cuda.is_current_stream_capturing()
        self.captured = self.captured or capturing
        return capturing

    def route(self, layer: int, phase: int, experts: int, indices: Tensor,
              weights: Optional[Tensor], mask: Optional[Tensor]) -> str:
        """"" or why not. The current device is this one."""
        self._capturing()
        if indices.dtype not in _INDICES:
            indices = indices.to(torch.int32)
        indices = indices.contiguous()
        if weights is not None:
            weights = weights if weights.dtype in _WEIGHTS else weights.to(torch.float32)
            weights = weights.contiguous()
        # Tensors made here are freed before the kernel runs, and reused only behind it: one stream.
        what = lib.DeviceRouting(
            layer=layer, phase=phase, experts=experts, k=indices.shape[1], tokens=indices.shape[0],
            indices=indices.data_ptr(), indices_type=_INDICES[indices.dtype],
            weights=weights.data_ptr() if weights is not None else None,
            weights_type=_WEIGHTS[weights.dtype] if weights is not None else lib.F32,
            valid=None, mask=mask.data_ptr() if mask is not None else None, stream=self._stream())
        status = self._library.moescope_recorder_route(self._handle, byref(what))
        return "" if status == 0 else self._words(status)

    def step(self, step: int) -> None:
        """Once a graph holds calls, only the device knows the number: replays count on there."""
        self._capturing()
        number = -1 if self.captured else step
        self._library.moescope_recorder_step(self._handle, number, self._stream())

    def close(self) -> None:
        """Fetches what was counted; see above for what stays."""
        with torch.cuda.device(self.device):
            if self.captured:
                self._library.moescope_recorder_flush(self._handle)
                self._library.moescope_recorder_gate(self._handle, 0, self._stream())
                _kept.append(self)
            else:
                self._library.moescope_recorder_close(self._handle)


class Latencies:
    """Pairs of CUDA events around the gate, read when somebody asks."""

    def __init__(self) -> None:
        self._pairs: List[Any] = []

    @staticmethod
    def mark() -> Any:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def add(self, first: Any, last: Any) -> None:
        self._pairs.append((first, last))

    def total_ms(self) -> Optional[float]:
        if not self._pairs:
            return None
        total = 0.0
        for first, last in self._pairs:
            last.synchronize()
            total += first.elapsed_time(last)
        return total


def memory_mb(device: torch.device) -> Optional[float]:
    """Live bytes of torch's allocator; the host has no such figure."""
    if device.type != "cuda":
        return None
    return torch.cuda.memory_allocated(device) / 1e6
