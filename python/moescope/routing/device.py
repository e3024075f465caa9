# SPDX-License-Identifier: Apache-2.0
"""Routing that lies in the memory of a CUDA device: the recorder of the C library.

Nothing here waits for the device or reads a number from it, and what is launched may stand in a
CUDA graph. A recorder that a graph holds calls of is kept for the life of the process: a replay
after stop() must find it, and finds it switched off."""
from ctypes import byref, c_void_p
from typing import Any, List

import torch

from .. import _library as lib
from .. import errors
from .sender import Sender

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
                f"routing on {device} cannot be recorded: {self.words(status)}; move the model to "
                "the CPU, or use a machine with a CUDA driver and libnvrtc")

    def words(self, status: int) -> str:
        words = self._library.moescope_recorder_words()
        return (words or b"").decode(errors="replace") or f"error {-status}"

    def _stream(self) -> int:
        return torch._C._cuda_getCurrentRawStream(self.device.index)

    def _capturing(self) -> bool:
        capturing = torch.cuda.is_current_stream_capturing()
        self.captured = self.captured or capturing
        return capturing

    def route(self, what: Any) -> int:
        """Launches the count of `what` on the current stream."""
        if torch.cuda.current_device() != self.device.index:
            with torch.cuda.device(self.device):
                return self.route(what)
        if not self.captured:
            self._capturing()
        what.stream = self._stream()
        return self._library.moescope_recorder_route(self._handle, byref(what))

    def step(self, step: int) -> None:
        """Once a graph holds calls, only the device knows the number: replays count on there."""
        self._capturing()
        number = -1 if self.captured else step
        self._library.moescope_recorder_step(self._handle, number, self._stream())

    def fetch(self) -> None:
        """Waits until the run has the steps that the device has completed."""
        with torch.cuda.device(self.device):
            self._library.moescope_recorder_flush(self._handle)

    def close(self) -> None:
        """Fetches what was counted; see above for what stays."""
        with torch.cuda.device(self.device):
            if self.captured:
                self._library.moescope_recorder_flush(self._handle)
                self._library.moescope_recorder_gate(self._handle, 0, self._stream())
                _kept.append(self)
            else:
                self._library.moescope_recorder_close(self._handle)


class DeviceSender(Sender):
    """Tensors on the device of a recorder. Copies made here are freed before the kernel runs and
    reused only behind it: it is all one stream."""

    def __init__(self, layer: int, recorder: DeviceRecorder) -> None:
        what = lib.DeviceRouting(layer=layer)
        self.recorder = recorder
        self._ready(what, recorder.device.index, lambda: recorder.route(what))

    def _finish(self, scores: Any, experts: int) -> str:
        status = self._push()
        return self.recorder.words(status) if status else ""
