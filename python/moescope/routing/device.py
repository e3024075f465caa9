# SPDX-License-Identifier: Apache-2.0
"""Routing in the memory of a CUDA device: the C library's recorder.

Nothing here waits for the device, and a CUDA graph can contain the launches. A recorder whose calls
a graph contains is kept for the life of the process: a replay after stop() must find it, and finds
it switched off.
"""
from collections.abc import Sequence
from ctypes import byref, c_void_p
from functools import partial
from typing import Any, Optional

import torch
from torch import Tensor

from .. import _library as lib
from .. import api, errors
from .._types import Args
from .sender import INDICES, WEIGHTS, Sender, Shape

_for_graphs: list["DeviceRecorder"] = []
# Called on the hot path; a torch without CUDA lacks them.
_raw_stream: Any = getattr(torch._C, "_cuda_getCurrentRawStream", None)
_capturing: Any = getattr(torch._C, "_cuda_isCurrentStreamCapturing", None)
_current_device: Any = getattr(torch._C, "_cuda_getDevice", None)
FEW_ROWS = 32  # of a call that one block counts, next to those of other layers
PROOFS = 8  # per layer, that its choices are left alone


class DeviceRecorder:
    """Counts on one device."""

    def __init__(self, device: torch.device, layers: int, experts: int, k: int, tokens: int,
                 weights: bool) -> None:
        self.device, self.index, self.captured = device, device.index, False
        self._library = lib.load()
        self.handle = c_void_p()
        options = lib.RecorderOptions(layers=layers, experts=experts, k=k, tokens=tokens, slots=0,
                                      weights=int(weights))
        with torch.cuda.device(device):
            torch.zeros(1, device=device)  # makes the context that the recorder belongs to current
            status = self._library.moescope_recorder_open(byref(options), byref(self.handle))
        if status != 0:
            raise errors.NotCaptured(
                f"routing on {device} cannot be recorded: {self.words(status)}; move the model to "
                "the CPU, or use a machine with a CUDA driver and libnvrtc")

    def words(self, status: int) -> str:
        words = self._library.moescope_recorder_words()
        return (words or b"").decode(errors="replace") or f"error {-status}"

    def route(self, what: lib.DeviceRouting) -> int:
        """Launches the count of `what` on the current stream. Checks for capture each time until
        there was one: a graph may begin between two layers."""
        if _current_device() != self.index:
            with torch.cuda.device(self.device):
                return self.route(what)
        if not self.captured:
            self.captured = _capturing()
        what.stream = _raw_stream(self.index)
        status: int = self._library.moescope_recorder_route(self.handle, byref(what))
        return status

    def step(self, step: int) -> None:
        """Once a graph contains calls, only the device knows the number: replays continue counting
        there."""
        if _current_device() != self.index:
            with torch.cuda.device(self.device):
                self.step(step)
            return
        self.captured = self.captured or _capturing()
        number = -1 if self.captured else step
        self._library.moescope_recorder_step(self.handle, number, _raw_stream(self.index))

    def lost(self, calls: int) -> None:
        self._library.moescope_recorder_lost(self.handle, calls)

    def fetch(self) -> None:
        """Waits until the run has the steps that the device has completed."""
        with torch.cuda.device(self.device):
            self._library.moescope_recorder_flush(self.handle)

    def close(self) -> None:
        """Fetches what was counted; see above for what stays."""
        with torch.cuda.device(self.device):
            if self.captured:
                self._library.moescope_recorder_flush(self.handle)
                self._library.moescope_recorder_gate(self.handle, 0, _raw_stream(self.index))
                _for_graphs.append(self)
            else:
                self._library.moescope_recorder_close(self.handle)


class DeviceSender(Sender):
    """Tensors on the device of a recorder. Copies made here are freed before the kernel runs and
    reused only after it: it is all one stream."""

    def __init__(self, layer: int, recorder: DeviceRecorder) -> None:
        what = lib.DeviceRouting(layer=layer)
        self.recorder = recorder
        self._ready(what, recorder.index, lambda: recorder.route(what))

    def _finish(self, scores: Optional[Tensor], experts: int) -> str:
        status = self._push()
        return self.recorder.words(status) if status else ""


def _version(indices: Tensor, weights: Optional[Tensor]) -> int:
    """Grows with each write to one of them; -1: tensors of inference mode do not count writes."""
    if indices.is_inference() or (weights is not None and weights.is_inference()):
        return -1
    version: int = indices._version if weights is None else indices._version + weights._version
    return version


class Trial:
    """Whether a model leaves its routers' choices alone until the step is over.

    Most tensors count the writes to them, but not those of inference mode, and a kernel unknown to
    torch is never counted. So it is tested: in some steps what a layer sends at once is also
    copied, and compared with itself on the device when the step ends. The answer is written to host
    memory, where a later step finds it; one question is in flight at a time.
    """

    UNKNOWN = 2

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.refused = False
        self.trusted: set[tuple[int, int]] = set()  # (layer, rows) that passed PROOFS times
        self.late = 0  # steps since the last answer that rely on it alone
        self._passed: dict[tuple[int, int], int] = {}
        self._watched: list[Args] = []
        self._asked: set[tuple[int, int]] = set()
        self._late_before = 0  # the question
        self._answer: Any = None

    def watch(self, shape: Shape, indices: Tensor, weights: Optional[Tensor]) -> None:
        if not self.refused and not self._asked:
            self._watched.append((shape, indices, weights, _version(indices, weights),
                                  indices.clone(), None if weights is None else weights.clone()))

    def forget(self) -> None:
        self._watched = []

    def ask(self) -> None:
        """At the end of a step, on the stream of its layers."""
        watched, self._watched = self._watched, []
        if not watched:
            return
        if any(_version(call[1], call[2]) != call[3] for call in watched):
            self.refuse()
            return
        weighted = [call for call in watched if call[2] is not None]
        pairs = [([c[1] for c in watched], [c[4] for c in watched]),
                 ([c[2] for c in weighted], [c[5] for c in weighted])]
        with torch.no_grad():
            if self._answer is None:
                self._answer = _answer_place()
            # torch.cat widens types, and so preserves values.
            changed = [(_row(now) != _row(before)).any() for now, before in pairs if now]
            self._answer.fill_(self.UNKNOWN)
            self._answer.copy_(torch.stack(changed).any().to(torch.uint8).reshape(1),
                               non_blocking=True)
        self._asked, self._late_before = {call[0].key for call in watched}, self.late

    def hear(self) -> None:
        answer = int(self._answer) if self._asked else self.UNKNOWN
        if answer == self.UNKNOWN:
            return
        asked, self._asked = self._asked, set()
        if answer:
            self.refuse()
        if self.refused:
            return
        self.late -= self._late_before
        for key in asked:
            self._passed[key] = self._passed.get(key, 0) + 1
            if self._passed[key] >= PROOFS:
                self.trusted.add(key)

    def refuse(self) -> None:
        """From now on every layer sends at once."""
        self.refused = True
        self.trusted.clear()
        if self.late:
            words = ("the model writes over what its routers have chosen; in "
                     f"{self.late} steps before this was noticed it was read at the end of the step: "
                     "their counts may be wrong")
            api.info(f"routing on {self.device}", words)
            api.warn(f"moescope: {self.device}: {words}")
            self.late = 0


def _row(tensors: Sequence[Tensor]) -> Tensor:
    return torch.cat([tensor.reshape(-1) for tensor in tensors])


def _answer_place() -> Tensor:
    with torch.inference_mode(False):
        return torch.zeros(1, dtype=torch.uint8, device="cpu", pin_memory=True)


class DeviceKept(list[Any]):
    """The calls of one step with few tokens on a device, each (shape, indices, weights, mask,
    version): the tensors themselves, counted by one kernel when the step ends.

    That is later than the layer ran, so: only layers that passed the trial; only on the stream on
    which the step began, where everything the layer has read is written before; never in a graph.
    Keeping a tensor prevents reuse of its memory. It is kept for one more step: memory of another
    stream's pool may be reused there at once, but that stream must have waited for this one to get
    the next step's input. With gradients a kept tensor would keep its graph: none is kept.
    """

    def __init__(self, recorder: DeviceRecorder) -> None:
        super().__init__()
        self.trial = Trial(recorder.device)
        self._recorder, self._index = recorder, recorder.index
        self._open = self._proving = self._sent = False
        self._stream: Any = None
        self._raw = -1
        self._shapes: tuple[Shape, ...] = ()
        self._common: Any = None
        self._now: list[Args] = []
        self._before: list[Args] = []

    def begin(self, proving: bool, grad: bool) -> None:
        """A step; proving: all layers send at once and are watched."""
        self.trial.hear()
        self._stream = torch.cuda.current_stream(self._recorder.device)
        self._raw = self._stream.cuda_stream
        self._proving = not grad
        self._open = not grad and not proving
        self._sent = False
        self._before, self._now = self._now, []

    def _in_order(self, indices: Tensor) -> bool:
        return _raw_stream(self._index) == self._raw and not _capturing() \
            and indices.get_device() == self._index and type(indices) is Tensor

    def keep(self, shape: Shape, indices: Tensor, weights: Optional[Tensor], mask: Any) -> bool:
        """False: send it at once."""
        if not self._open or shape.key not in self.trial.trusted or not self._in_order(indices):
            return False
        self.append((shape, indices, weights, mask, _version(indices, weights)))
        return True

    def watch(self, shape: Shape, indices: Tensor, weights: Optional[Tensor]) -> None:
        """A call that was sent at once."""
        try:
            if self._proving and self._in_order(indices):
                self.trial.watch(shape, indices, weights)
        except Exception as why:  # no memory for a copy
            self._give_up(why)

    def _give_up(self, why: Exception) -> None:
        """Continues as without a trial."""
        self.trial.forget()
        self.trial.refuse()
        api.info(f"routing on {self._recorder.device}", f"every layer is sent by itself: {why}")

    def send(self, phase: int) -> tuple[Shape, ...]:
        """Sends all in one call into the library; returns their owners, the same tuple for the same
        ones."""
        shapes = tuple([call[0] for call in self])
        if shapes != self._shapes:
            self._prepare(shapes)
        if not _capturing() and all([self._fill(*pair) for pair in zip(self._what, self)]):
            self._send_together(phase)
        else:
            self._send_singly(phase)
        self._sent = True
        self._now += self
        self.clear()
        return self._shapes

    def _send_together(self, phase: int) -> None:
        common = phase, self._raw, [call[3] and call[3][1] for call in self]
        if common != self._common:
            self._common = common
            for what, mask in zip(self._what, common[2]):
                what.phase, what.stream, what.mask = phase, self._raw, mask
        status = self._push()
        if status:
            raise errors.NotCaptured(self._recorder.words(status))
        self.trial.late += self[0][4] < 0

    def _prepare(self, shapes: tuple[Shape, ...]) -> None:
        self._shapes, self._common = shapes, None
        array = (lib.DeviceRouting * len(shapes))()
        self._what = list(array)
        for what, shape in zip(self._what, shapes):
            what.__init__(layer=shape.layer, experts=shape.experts, k=shape.k, tokens=shape.rows,
                          indices_type=INDICES[shape.dtype],
                          weights_type=WEIGHTS[shape.weights] if shape.weights else lib.F32)
        self._push = partial(lib.load().moescope_recorder_routes, self._recorder.handle, array,
                             len(shapes))

    def _fill(self, what: Any, call: Args) -> bool:
        """Whether it is a call like the previous one, unchanged since it was kept."""
        shape, indices, weights, _, version = call
        if indices.dtype is not shape.dtype or not indices.is_contiguous() \
                or version != _version(indices, weights):
            return False
        what.indices = indices.data_ptr()
        if weights is None:
            return shape.weights is None
        what.weights = weights.data_ptr()
        return weights.dtype is shape.weights and weights.shape == indices.shape \
            and weights.is_contiguous() and weights.get_device() == self._index

    def _send_singly(self, phase: int) -> None:
        """Sends those that are unchanged since they were kept, in whatever form; the others are
        lost."""
        lost = 0
        for shape, indices, weights, mask, version in self:
            if _capturing() or version != _version(indices, weights):
                lost += 1
                continue
            with torch.cuda.stream(self._stream):
                why = DeviceSender(shape.layer, self._recorder).send(
                    phase, shape.experts, indices, weights, None, mask and mask[0])
            if why:
                shape.site.fail(why)
        if lost:
            self._recorder.lost(lost)
            self.trial.refuse()

    def end(self) -> None:
        """The step ends, on the current stream."""
        try:
            self._end()
        except Exception as why:  # the model continues
            self._give_up(why)

    def _end(self) -> None:
        same = _raw_stream(self._index) == self._raw
        if same and not _capturing():
            self.trial.ask()
            return
        self.trial.forget()
        if self._sent and not same:
            # This changes the stream order of the program; once, and it counts right.
            torch.cuda.current_stream(self._recorder.device).wait_stream(self._stream)
            self.trial.late = 0
            self.trial.refuse()

    def release(self) -> None:
        self._now, self._before = [], []
        self.trial.forget()
