# SPDX-License-Identifier: Apache-2.0
"""Hooks on one MoE layer that pass its routing to the C library.

Hooks run in the model's own thread; they must not change a result, wait for a device, or raise: a
layer that cannot be read is given up, with a warning and a note in the run.
"""
import weakref
from collections.abc import Iterable
from time import perf_counter
from typing import TYPE_CHECKING, Any, Optional

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from .. import _library as lib
from .. import api
from .._types import Args, Function, Json
from . import families, ops
from .detect import HOW, Router
from .device import FEW_ROWS, DeviceKept, DeviceSender
from .samples import Watcher, mark
from .sender import FEW, Sender, Shape, send_sizes

if TYPE_CHECKING:
    from torch.utils.hooks import RemovableHandle

    from .session import Session

_by_gate: "weakref.WeakValueDictionary[int, Site]" = weakref.WeakValueDictionary()
MAX_K, MAX_EXPERTS = 64, 32768
_compiling = torch.compiler.is_compiling
_graph_task = torch._C._current_graph_task_id  # -1: not inside backward


class _SeeOneHot(TorchFunctionMode):
    """Keeps what the block passes to one_hot: its choice, which it reveals nowhere else."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: Optional[Tensor] = None

    def __torch_function__(self, func: Function, types: object, args: Args = (),
                           kwargs: Optional[Json] = None) -> Any:
        if self.seen is None and getattr(func, "__name__", "") == "one_hot" and args:
            self.seen = args[0]
        return func(*args, **(kwargs or {}))


def site_of(gate: nn.Module) -> Optional["Site"]:
    """The active site whose router this is."""
    site = _by_gate.get(id(gate))
    return site if site is not None and site.router.found.gate is gate else None


def trouble(indices: Tensor, experts: int) -> str:
    """Why these cannot be the experts of tokens; "" if they can. Checks values only on the CPU."""
    if not families.integer(indices) or indices.dim() != 2:
        return (f"indices are {indices.dtype} of shape {tuple(indices.shape)}, not integers "
                "[tokens, k]")
    if not 1 <= experts <= MAX_EXPERTS:
        return f"the number of experts is {experts}, not 1 to {MAX_EXPERTS}"
    if not 1 <= indices.shape[1] <= min(MAX_K, experts):
        return f"{indices.shape[1]} experts a token out of {experts}, at most {MAX_K} can be"
    if indices.device.type not in ("cpu", "cuda"):
        return f"its indices are on {indices.device}: only the CPU and CUDA devices are read"
    if indices.device.type == "cpu" and indices.numel():
        low, high = int(indices.min()), int(indices.max())
        # -1 and E mean "not on this rank" under expert parallelism; the library handles others.
        if low < lib.SLOT_DROPPED or high > experts:
            return f"indices from {low} to {high} for {experts} experts"
    return ""


def lifeless(kind: type) -> Any:
    """Replaces the hooks of a copied or unpickled model: they exist, but belong to nobody."""
    one: Any = object.__new__(kind)
    one.running = False
    return one


class Site:
    """One MoE layer while a session runs.

    Its hook runs once per layer and token, among model code that has long evicted it from the
    processor's caches: whatever can be settled for all layers at the start and end of a step is
    settled there (look, settle), and the hook keeps the choices of a few tokens for the end of the
    step, or makes one call into C.
    """

    _open = False  # somebody watches this step, and the layer can be read
    session: Any = None
    _inside: Optional[_SeeOneHot] = None

    def __reduce__(self) -> Args:
        return lifeless, (Site,)

    def __init__(self, session: "Session", router: Router, number: int, watcher: Watcher,
                 weights: bool, scores: bool) -> None:
        self.session, self.router, self.layer = session, router, number
        self.watchers = [watcher]
        self.padding = session.padding_of(router.name)
        self.broken = ""
        self.recorded = False
        self._read = router.found.read
        self._weights, self._scores = weights, scores
        self._logits: Optional[Tensor] = None
        self._began: Any = None
        self._latency: list[Any] = []  # of the gate's calls in this step
        self._sender: Sender = Sender(number)
        self._device, self._index = torch.device("cpu"), -1
        self._place: Any = None  # where the tensors were last time
        self._shape: Any = None  # and their shapes, if they had few numbers
        self._few: Optional[Shape] = None
        self._there: Optional[DeviceKept] = None  # on the device
        self.looking: list[Watcher] = []
        self._fixed = router.found.fixed and not scores
        self._gate_hooks: list[RemovableHandle] = []
        self._op = ops.number(self)

    def attach(self) -> list["RemovableHandle"]:
        found, handles = self.router.found, []
        module = found.module
        if found.gate is not None:
            _by_gate[id(found.gate)] = self
            self._move(next((p.device for p in found.gate.parameters()), self._device))
            self.time_gate(True)
        if found.when == "before":
            handles.append(module.register_forward_pre_hook(self._hand_over, with_kwargs=True))
        elif found.when == "after":
            handles.append(module.register_forward_hook(self._hand_over, with_kwargs=True))
        else:
            handles.append(module.register_forward_pre_hook(self._enter))
            handles.append(module.register_forward_hook(self._leave, always_call=True))
        return handles

    def detach(self) -> None:
        self.time_gate(False)
        if site_of(self.router.found.gate) is self:
            _by_gate.pop(id(self.router.found.gate), None)
        self._open = False
        self._logits = self._began = self._place = None

    def time_gate(self, on: bool) -> None:
        """Absent hooks cost nothing. They are the first before the gate and the first after it, so
        that its time includes nothing of ours."""
        gate = self.router.found.gate
        if on and gate is not None and not self._gate_hooks:
            self._gate_hooks = [gate.register_forward_pre_hook(self._gate_before),
                                gate.register_forward_hook(self._gate_after, prepend=True)]
        elif not on:
            for hook in self._gate_hooks:
                hook.remove()
            self._gate_hooks = []

    @property
    def needs_gate(self) -> bool:
        """The gate's output is needed in every step, not just its time."""
        return self._scores

    def watch(self, watcher: Watcher) -> None:
        """Adds a watcher, from the open step on."""
        if watcher not in self.watchers:
            self.session.send_kept()
            self.settle()
            self.watchers.append(watcher)
            self.look(self.session.index)
            Watcher.changes += 1

    def unwatch(self, watchers: list[Watcher]) -> None:
        self.session.send_kept()
        self.settle()
        self.watchers = [w for w in self.watchers if w not in watchers]
        self.look(self.session.index)
        Watcher.changes += 1

    # For all layers in turn, at both ends of a step.

    def look(self, index: int) -> bool:
        """Whether somebody watches this layer in the step with this number."""
        self.looking = [w for w in self.watchers if w.wants(index)]
        self.session.lookers.clear()
        for watcher in self.looking:
            watcher.samples.late = self.session.late
        self._open = bool(self.looking) and not self.broken
        return bool(self.looking)

    def settle(self) -> None:
        """The gate's times in the step so far."""
        if self._latency:
            for watcher in self.looking:
                watcher.samples.time_gate(self.session.step, self._latency)
            self._latency = []

    # Hooks. When torch.compile traces them, only the operator remains.

    def _hand_over(self, module: nn.Module, args: Args, kwargs: Json,
                   output: Any = None) -> None:
        """Before or after the module's forward: what its router has chosen."""
        if _compiling():
            if self.session is not None:
                self._trace(module, args, kwargs, output)
            return
        session = self.session
        if session is None:
            return  # a copy of the model
        if session.depth:
            if not self._open:
                return
            if self._place is not None and self._again(session, args, kwargs, output):
                return
        elif self.broken or not session.running:
            return
        self._look_closely(module, args, kwargs, output)

    def _trace(self, module: nn.Module, args: Args, kwargs: Json, output: Any) -> None:
        with torch.no_grad():
            choice = self._read(module, args, kwargs, output)
            weights = choice.weights if self._weights else None
            ops.route(self.session.state, self._op, choice.indices.detach(),
                      None if weights is None else weights.detach(), choice.experts)

    def _again(self, session: "Session", args: Args, kwargs: Json, output: Any) -> bool:
        """The usual case: everything is where it was last time. False: look closely."""
        which, first, second = self._place
        if session.grad and _graph_task() != -1:
            return True  # inside backward: recomputes a forward that was already counted
        try:
            given = args if which == 0 else kwargs if which == 1 else output
            indices, weights = given[first], None if second is None else given[second]
            few = indices.shape == self._shape
            if few and self._index < 0:
                return self._keep(session, indices, weights)
            mask = None
            if self.padding.mask is not None:
                mask = self.padding.there(self._index, indices)
                if mask is None:
                    return False
            # few: these two exist too, which nothing here checks; it would cost time.
            if few and self._there.keep(self._few, indices, weights, mask):  # type: ignore[union-attr,arg-type]
                return True
            if not self._sender.again(session.phase, indices, weights, mask and mask[1]):
                return False
            if few:
                self._there.watch(self._few, indices, weights)  # type: ignore[union-attr,arg-type]
        except Exception:  # called differently than before
            return False
        self._note_moment()
        return True

    def _keep(self, session: "Session", indices: Tensor, weights: Optional[Tensor]) -> bool:
        """The numbers as they are now: the model may overwrite them before the step ends."""
        few: Any
        few, mask, numbers = self._few, self.padding.mask, ()
        if indices.dtype is not few.dtype or not indices.is_cpu or type(indices) is not Tensor:
            return False
        if mask is not None and self.padding.here != few.rows:
            return False
        if weights is not None:
            if not weights.is_cpu or weights.shape != self._shape:
                return False
            numbers = weights.tolist()
        session.kept[-1].append((few, indices.tolist(), numbers, mask))
        return True

    def _note_moment(self) -> None:
        session = self.session
        moment = session.moments.get(self._index) or session.moment(self._device)
        for watcher in self.looking:
            watcher.samples.moments[session.step] = moment

    def _look_closely(self, module: nn.Module, args: Args, kwargs: Json,
                      output: Any) -> None:
        self._place = self._shape = None
        try:  # the model continues, whatever its router returned
            with torch.no_grad():
                choice = self._read(module, args, kwargs, output)
                weights, scores = choice.weights if self._weights else None, None
                if self._scores:
                    scores = choice.scores if choice.scores is not None else self._logits
                    self._logits = None
                self.record(choice.indices, weights, scores, choice.experts)
                if self._fixed and not choice.experts:
                    self._place = _place_of(choice.indices, weights, args, kwargs, output)
                if self._place is not None and self.recorded:
                    self._expect_few(choice.indices, weights)
        except Exception as why:
            self.fail(str(why))

    def _expect_few(self, indices: Tensor, weights: Optional[Tensor]) -> None:
        """Expects the next call to be like this one, which was sent."""
        rows, k = indices.shape
        few = rows * k <= FEW if self._index < 0 else rows <= FEW_ROWS and self._sender.plain
        if few and rows and (weights is None or weights.shape == indices.shape):
            self._shape = indices.shape
            self._few = Shape(self, self.layer, self.router.found.experts, rows, k, indices.dtype,
                              None if weights is None else weights.dtype, (self.layer, rows))

    def _enter(self, _module: nn.Module, _args: Args) -> None:
        if _compiling() or self.session is None or self.broken:
            return
        if self._open or not self.session.depth:
            self._inside = _SeeOneHot()
            self._inside.__enter__()

    def _leave(self, _module: nn.Module, _args: Args, _output: object) -> None:
        if _compiling() or self._inside is None:
            return
        mode, self._inside = self._inside, None
        mode.__exit__(None, None, None)
        if mode.seen is not None:
            self.record(families.flat(mode.seen), None, None, 0)

    def _gate_before(self, _module: nn.Module, _args: Args) -> None:
        if _compiling() or self.session is None or (self.session.depth and not self._open):
            return
        if self._index < 0:
            self._began = perf_counter()
        elif self.session.timed and not torch.cuda.is_current_stream_capturing():
            self._began = mark()

    def _gate_after(self, module: nn.Module, _args: Args, output: Any) -> None:
        if _compiling() or self.session is None:
            return
        began, self._began = self._began, None
        if isinstance(began, float):
            self._latency.append((perf_counter() - began) * 1e3)
        elif began is not None:
            self._latency.append((began, mark()))
        if self._scores:
            with torch.no_grad():
                self._logits = families.gate_scores(module, output)

    # At run time.

    def fail(self, why: str) -> None:
        """Stops capturing this layer; a wrong figure is worse than none."""
        self.broken, self._open, self._place = why, False, None
        words = f"MoE layer {self.layer} ('{self.router.name}') is not captured: {why}"
        api.info(f"routing layer {self.layer}", f"not captured: {why}")
        api.warn(f"{words}; {HOW}")

    def record(self, indices: Tensor, weights: Optional[Tensor], scores: Optional[Tensor],
               experts: int) -> None:
        """The choice of one call of the layer; also called by the operator in compiled code."""
        session = self.session
        if self.broken or not session.running or _graph_task() != -1:
            return  # inside backward: recomputes a forward that was already counted
        alone = not session.depth
        if alone:
            session.ensure_step(self.layer)
        if not self.looking:
            return
        if hasattr(indices, "to_local"):
            indices = indices.to_local()
            if weights is not None and hasattr(weights, "to_local"):
                weights = weights.to_local()
        experts = experts or self.router.found.experts
        if not self.recorded and not self._first(indices, experts):
            return
        self._move(indices.device)
        self._note_moment()
        if self._index >= 0:
            indices = self._here(indices, experts)
        why = self._sender.send(session.phase, experts, indices, weights, scores,
                                self.padding.rows(indices))
        if why:
            self.fail(why)
        if alone:
            self.settle()

    def _first(self, indices: Tensor, experts: int) -> bool:
        """Checks the first choice before recording anything."""
        why = trouble(indices, experts)
        if why:
            self.fail(why)
            return False
        self.recorded = True
        send_sizes(self.layer, experts, indices.shape[1], self.router.found.sizes)
        return True

    def _move(self, device: torch.device) -> None:
        """Notes where the layer's tensors are now."""
        if device == self._device:
            return
        self._device = device
        self._index = device.index if device.type == "cuda" else -1
        self._began, self._latency = None, []
        self._there, self._sender = None, Sender(self.layer)
        if self._index >= 0:
            self._sender = DeviceSender(self.layer, self.session.recorder(device))
            self._there = self.session.kept[self._index]

    def _here(self, indices: Tensor, experts: int) -> Tensor:
        """Expert parallelism marks choices of other ranks; only then is another kernel worthwhile.
        """
        if getattr(self.router.found.gate, "num_experts", experts) == experts:
            return indices
        self._fixed = False
        return indices.masked_fill((indices < 0) | (indices >= experts), lib.SLOT_UNUSED)


def _place_of(indices: Tensor, weights: Optional[Tensor], args: Args, kwargs: Json,
              output: Any) -> Any:
    """(0 args, 1 kwargs or 2 output, where the indices are in it, where the weights are), or None
    if the two are not there as they were sent."""
    parts = output if isinstance(output, (tuple, list)) else ()
    places: tuple[Iterable[tuple[Any, Any]], ...] = (enumerate(args), kwargs.items(), enumerate(parts))
    for which, given in enumerate(map(list, places)):
        first = next((key for key, value in given if value is indices), None)
        second = next((key for key, value in given if value is weights), None)
        if first is not None:
            return (which, first, second) if weights is None or second is not None else None
    return None
