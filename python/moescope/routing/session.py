# SPDX-License-Identifier: Apache-2.0
"""Hooks on a whole model, from start to stop: its steps, its padding, and the sites of its layers.

The same rules apply as for the layers: see capture.py.
"""
import inspect
import weakref
from time import time
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

import torch
from torch import Tensor, nn

from .. import _library as lib
from .. import api
from .._types import Args, Json
from ..runs import Recording
from . import ops
from .capture import MAX_K, Site, lifeless
from .device import DeviceKept, DeviceRecorder
from .padding import Padding, describe
from .samples import Late, Moment, Watcher, memory_mb
from .sender import Kept

if TYPE_CHECKING:
    from torch.utils.hooks import RemovableHandle

_CPU = torch.device("cpu")
_graph_task = torch._C._current_graph_task_id  # -1: not inside backward
# Timing a gate costs more than counting: the first steps are timed, then every 64th.
TIMED_FIRST, TIMED_EVERY = 16, 64
_sessions: list["weakref.ref[Session]"] = []


def open_step() -> Optional[int]:
    """The step that some session has open."""
    for ref in reversed(_sessions):
        session = ref()
        if session is not None and session.step is not None:
            return session.step
    return None


def running_session(model: nn.Module) -> Optional["Session"]:
    """The session that already has its hooks on this model."""
    for ref in _sessions:
        session = ref()
        if session is not None and session.running and session.model() is model:
            return session
    return None


class Stack(NamedTuple):
    """The encoder or the decoder of a model that has both."""
    module: nn.Module
    names: list[str]
    padding: Padding


def _stacks(model: nn.Module) -> dict[str, Stack]:
    """By the name of the module in the model."""
    found: dict[str, Stack] = {}
    for name, module in model.named_modules():
        last = name.rpartition(".")[2]
        if last in ("encoder", "decoder") and not any(name.startswith(n + ".") for n in found):
            names = list(inspect.signature(module.forward).parameters)
            found[name] = Stack(module, names, Padding())
    return found


class StackHook:
    """Before the forward of a stack: its own arguments describe its tokens."""

    def __reduce__(self) -> Args:
        return lifeless, (StackHook,)

    def __init__(self, session: "Session", stack: Stack, number: int) -> None:
        self.running = True
        self._session, self._stack, self._number = session, stack, number

    def __call__(self, _module: nn.Module, args: Args, kwargs: Json) -> None:
        if not self.running or not self._session.running:
            return
        mask = describe(self._stack.names, args, kwargs).mask
        if torch.compiler.is_compiling():
            ops.stack_begin(self._session.state, self._session.op, self._number, mask)
        else:
            self._session.stack_begin(self._number, mask)


class Session:
    """One model from start to stop."""

    def __reduce__(self) -> Args:
        return lifeless, (Session,)

    def __init__(self, model: nn.Module, recording: Recording, manual: bool, max_tokens: int,
                 weights: bool) -> None:
        self.recording, self.manual = recording, manual
        self.others = manual  # not all steps are made here
        self.model = weakref.ref(model)
        self.sites: list[Site] = []
        self.owners = 1
        self.graphs = False  # whose replays are steps unseen here
        self.step: Optional[int] = None
        self.index = 0
        self.phase = lib.NO_PHASE
        self.grad = True  # backward may run
        self.timed = True  # the gates are timed in this step
        self._captured = 0
        self._wanted = False
        self._steady = -1
        self.running = False
        device = next((p.device for p in model.parameters()), torch.device("cpu"))
        self.state = torch.zeros(1, device="cpu" if device.type == "meta" else device)
        self._names = list(inspect.signature(model.forward).parameters)
        self._padding = Padding()
        self._stacks = _stacks(model) if "decoder_input_ids" in self._names else {}
        self._prefix = "decoder_" if self._stacks else ""
        self.moments: dict[int, Moment] = {}  # of this step, by device
        # Calls of this step that are sent at its end, by device.
        self.kept: dict[int, Any] = {-1: Kept()}
        self.late = Late()
        self.lookers: dict[int, Args] = {}  # likewise: shapes of kept calls, their watchers
        self._rows = 0
        self.depth = 0  # forwards of the model that are running
        self._implicit = -1
        self._borrowed = False
        self._theirs = manual  # the open step is the program's
        self._library = lib.load()
        self._recorders: dict[torch.device, DeviceRecorder] = {}
        self._max_tokens, self._weights = max_tokens, weights
        self._handles: list[RemovableHandle] = []
        self.op = ops.number(self)

    def attach(self) -> None:
        """Installs the hooks; on trouble none is left."""
        model: Any = self.model()  # the caller has it, so it is alive
        try:
            for device in {torch.device(s.router.device) for s in self.sites}:
                if device.type == "cuda":
                    self.recorder(device)
            for site in self.sites:
                self._handles += site.attach()
            for number, stack in enumerate(self._stacks.values()):
                self._handles.append(stack.module.register_forward_pre_hook(
                    StackHook(self, stack, number), with_kwargs=True))
            self._handles.append(model.register_forward_pre_hook(self._before, with_kwargs=True))
            self._handles.append(model.register_forward_hook(self._after, always_call=True))
        except BaseException:
            self.detach()
            raise
        self.running = True
        _sessions.append(weakref.ref(self))

    def detach(self) -> None:
        """Removes the hooks and fetches what is on devices. Doing it twice is fine."""
        if self.running and self.step is not None and self._implicit >= 0:
            self._close_step(0)
        self.send_kept()
        if self.running and self.step is not None:
            self._end_on_devices()
        self.running = False
        _sessions[:] = [ref for ref in _sessions if ref() not in (None, self)]
        for handle in self._handles:
            handle.remove()
        self._handles = []
        for site in self.sites:
            site.detach()
        for recorder in self._recorders.values():
            self.graphs = self.graphs or recorder.captured
            recorder.close()
            self.kept.pop(recorder.index).release()
        self._recorders = {}

    def recorder(self, device: torch.device) -> DeviceRecorder:
        if device not in self._recorders:
            found = [site.router.found for site in self.sites]
            experts = max((f.experts for f in found), default=1)
            recorder = self._recorders[device] = DeviceRecorder(
                device, layers=1 + max(site.layer for site in self.sites), experts=experts,
                k=max((f.k or min(MAX_K, experts)) for f in found), tokens=self._max_tokens,
                weights=self._weights)
            self.kept[device.index] = DeviceKept(recorder)
        return self._recorders[device]

    def padding_of(self, name: str) -> Padding:
        """Says which rows of the named layer are padding."""
        for path, stack in self._stacks.items():
            if name.startswith(path + "."):
                return stack.padding
        return self._padding

    def fetch(self) -> None:
        """Everything captured so far is in the library; waits for the devices."""
        self.send_kept()
        for device, recorder in self._recorders.items():
            torch.cuda.synchronize(device)
            recorder.fetch()

    # Hooks of the whole model.

    def _before(self, module: nn.Module, args: Args, kwargs: Json) -> None:
        if not self.running:
            return
        mask, rows, new = describe(self._names, args, kwargs, self._prefix)
        training = module.training and torch.is_grad_enabled()
        if torch.compiler.is_compiling():
            ops.step_begin(self.state, self.op, mask, rows, new, training)
        else:
            self.step_begin(mask, rows, new, training)

    def _after(self, _module: nn.Module, _args: Args, _output: object) -> None:
        if not self.running:
            return
        if torch.compiler.is_compiling():
            ops.step_end(self.state, self.op)
        else:
            self.step_end()

    # At run time; also called by the operators of compiled code.

    def step_begin(self, mask: Optional[Tensor], rows: int, new: int, training: bool) -> None:
        if not self.running or _graph_task() != -1:
            return
        self.depth += 1
        if self.depth > 1:
            return
        if self._implicit >= 0 and self.step is not None:
            self._close_step(0)
        if training:
            self.phase = lib.FORWARD
        else:
            self.phase = lib.PREFILL if new > 1 else lib.DECODE
        self._padding.set(mask)
        self._rows = rows
        self._open_step()

    def stack_begin(self, number: int, mask: Optional[Tensor]) -> None:
        """The encoder or the decoder is called, maybe by itself, as in generate()."""
        if self.running and _graph_task() == -1:
            list(self._stacks.values())[number].padding.set(mask)

    def step_end(self) -> None:
        if not self.running or self.depth == 0 or _graph_task() != -1:
            return
        self.depth -= 1
        if self.depth:
            return
        tokens, mask = self._rows, self._padding.mask
        if mask is not None:
            # Counting on a device would wait for it: then the step's tokens stay unknown.
            tokens = int(mask.sum()) if mask.is_cpu else 0
        self._close_step(tokens)

    def _open_step(self) -> None:
        """A separate step, unless an enclosing model has one open."""
        outer = open_step()
        self._theirs = self.manual or api.stepping
        self.others = self.others or self._theirs
        self._borrowed = outer is not None
        self.step = outer if self._borrowed else self._library.moescope_current_step() \
            if self._theirs else self.recording.take_step()
        self._implicit = -1
        if not self._theirs and not self._borrowed:
            self._library.moescope_step_guess(self.step)
        self.grad = torch.is_grad_enabled()
        if self._steady != Watcher.changes:
            self._ask_watchers()
        if self._wanted:
            self._time_gates(self._captured < TIMED_FIRST or self._captured % TIMED_EVERY == 0)
            self._captured += 1
        for recorder in self._recorders.values():
            self.kept[recorder.index].begin(self.timed, self.grad)

    def _ask_watchers(self) -> None:
        """Who watches this step. Not asked again if the answer stays the same from here on."""
        changes, index = Watcher.changes, self.index
        self._wanted = any([site.look(index) for site in self.sites])
        steady = all(w.wants_all_from(index) for site in self.sites for w in site.watchers)
        self._steady = changes if steady else -1

    def _time_gates(self, on: bool) -> None:
        if on != self.timed:
            self.timed = on
            for site in self.sites:
                site.time_gate(on or site.needs_gate)

    def send_kept(self) -> None:
        """The calls of this step so far."""
        for place, kept in self.kept.items():
            if kept:
                self._send_kept(place, kept)

    def _send_kept(self, place: int, kept: Any) -> None:
        """Records once for all layers who watches them."""
        try:  # the model continues, whatever its routers returned
            shapes = kept.send(self.phase)
        except Exception as why:
            sites = {call[0].site for call in kept}
            kept.clear()
            for site in sites:
                site.fail(str(why))
            return
        lookers = self.lookers.get(place)
        if lookers is None or lookers[0] is not shapes:
            lookers = self.lookers[place] = shapes, [w for shape in shapes
                                                     for w in shape.site.looking]
        moment = self.moments.get(place) or self.moment(
            torch.device("cuda", place) if place >= 0 else _CPU)
        self.late.append((self.step, moment, lookers[1]))

    def _close_step(self, tokens: int) -> None:
        self.send_kept()
        if self.timed:
            for site in self.sites:
                site.settle()
        self._end_on_devices()
        if not self._theirs and not self._borrowed:
            self._library.moescope_step_end(tokens)
        self._padding.set(None)
        self.step, self.moments = None, {}
        self._implicit = -1
        self.index += 1

    def _end_on_devices(self) -> None:
        for recorder in self._recorders.values():
            self.kept[recorder.index].end()
            recorder.step(max(0, self._library.moescope_current_step()) if self._theirs
                          else self.step)  # type: ignore[arg-type] # called while one is open
            self.graphs = self.graphs or recorder.captured

    def ensure_step(self, layer: int) -> None:
        """Part of the model was called by itself: a step ends where the layers start over."""
        if self.depth:
            return
        if self._implicit < 0 or layer <= self._implicit:
            if self._implicit >= 0:
                self._close_step(0)
            self.phase, self._rows = lib.NO_PHASE, 0
            self._padding.set(None)
            self._open_step()
        self._implicit = layer

    def moment(self, device: torch.device) -> Moment:
        """Called once per step: the allocator takes time to answer."""
        place = -1 if device.type == "cpu" else device.index
        self.moments[place] = Moment(time(), str(device), memory_mb(device))
        return self.moments[place]
