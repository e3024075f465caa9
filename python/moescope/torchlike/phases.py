# SPDX-License-Identifier: Apache-2.0
"""Forward, backward, optimizer and data of a training step, found without the program's help.

Installed for the steps that are recorded and taken out after them:
  forward    Module.__call__, replaced while installed; the outermost call on a thread is the
             phase. Inside a backward pass it is recompute (activation checkpointing). Without
             gradients and in eval mode, once a backward pass has been seen, it is evaluation.
             (Global module hooks would make torch.compile warn, and slow every module down.)
  backward   torch.autograd.backward and torch.autograd.grad, replaced while installed;
             Tensor.backward looks the first one up at each call
  optimizer  torch.optim's global step hooks
  data       __next__ of DataLoader's iterators, replaced while installed
Times are those of the host: on a GPU the work may still be queued when a phase ends.
"""
import functools
import sys
import threading
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, Callable, Optional, Protocol

from .._types import Args, Function, Json
from .ranges import Range

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer
    from torch.utils.hooks import RemovableHandle


def tokens_of(batch: Any) -> int:
    """Positions of `input_ids`, including padding as in the Trainer's own count; 0: unknown."""
    ids = batch.get("input_ids") if hasattr(batch, "get") else None
    return int(ids.numel()) if ids is not None and hasattr(ids, "numel") else 0


class Open(Protocol):
    """An open phase."""

    def end(self) -> None: ...


class _Thread(threading.local):
    """What is open on this thread."""

    def __init__(self) -> None:
        self.in_module = False
        self.optimizers: list[Open] = []


def hide_from_compiler(function: Any, and_inside: bool) -> None:
    """torch.compile does not compile this function, where it meets it between those of the program;
    `and_inside`: nor what is called from it.

    Otherwise it compiles what is called around a model instead of the model's own function, and counts
    the variants of all models as variants of one.
    """
    from torch._C._dynamo import eval_frame

    if hasattr(eval_frame, "set_code_exec_strategy"):
        skip, default = eval_frame._FrameAction.SKIP, eval_frame._FrameAction.DEFAULT
        eval_frame.set_code_exec_strategy(function.__code__, eval_frame._FrameExecStrategy(
            skip, skip if and_inside else default))
    else:  # an older torch
        eval_frame.skip_code(function.__code__)


class Phases:
    _backward_calls: tuple[str, ...] = ("backward", "grad")

    def __init__(self) -> None:
        self._handles: list[RemovableHandle] = []
        self._replaced: list[tuple[Any, str, Any, Any]] = []
        self._thread = _Thread()
        self._on = False
        self._is_compiling: Callable[[], bool]
        self._is_grad_enabled: Callable[[], bool]
        self._step_code: Optional[CodeType] = None  # torch's, around an optimizer's step
        self._backwards = 0  # open now, on whichever thread
        self._trained = False
        self.spans: list[tuple[int, int, int]] = []  # of the window: start, end, phase

    def install(self) -> None:
        if self._on:
            return
        import torch
        from torch.optim import optimizer
        from torch.utils.data import dataloader

        self._is_compiling, self._is_grad_enabled = torch.compiler.is_compiling, torch.is_grad_enabled
        self._thread = _Thread()
        self._handles = [
            optimizer.register_optimizer_step_pre_hook(self._before_optimizer),
            optimizer.register_optimizer_step_post_hook(self._after_optimizer),
        ]
        self._on = True
        for ours in (*self._entries(), Range.begin, Range.end):
            hide_from_compiler(ours, and_inside=True)
        self._replace(torch.nn.Module, "__call__", self._module)
        for name in self._backward_calls:
            self._replace(torch.autograd, name, self._backward)
        self._replace(dataloader._BaseDataLoaderIter, "__next__", self._data)

    def remove(self) -> None:
        """Restores everything as before install(). An open phase ends where it would have, except
        that of a failed optimizer, which torch does not report: it ends here."""
        self._on = False
        for handle in self._handles:
            handle.remove()
        self._handles = []
        for owner, name, original, ours in reversed(self._replaced):
            if vars(owner)[name] is ours:
                setattr(owner, name, original)
            # else another tool has wrapped it meanwhile: ours stays inside and passes calls on
        self._replaced = []
        while self._thread.optimizers:
            self._thread.optimizers.pop().end()

    def _entries(self) -> list[Function]:
        """What is called from torch's functions and from ours in their place."""
        return [self._open, self._open_module, self._before_optimizer, self._after_optimizer]

    def _open(self, phase: str, annotate: bool = True) -> Open:
        self._end_failed_optimizers()
        return Range(phase, phase, annotate=annotate, spans=self.spans).begin()

    def _replace(self, owner: Any, name: str, wrap: Function) -> None:
        original = vars(owner)[name]
        ours = wrap(original)
        hide_from_compiler(ours, and_inside=False)
        self._replaced.append((owner, name, original, ours))
        setattr(owner, name, ours)

    def _backward(self, original: Function) -> Function:
        @functools.wraps(original)
        def backward(*args: object, **kwargs: object) -> Any:
            if not self._on:
                return original(*args, **kwargs)
            open_range = self._open("backward")
            self._backwards += 1
            self._trained = True
            try:
                return original(*args, **kwargs)
            finally:
                self._backwards -= 1
                open_range.end()
        return backward

    def _data(self, original: Function) -> Function:
        @functools.wraps(original)
        def __next__(iterator: object) -> Any:
            if not self._on:
                return original(iterator)
            open_range = self._open("data", annotate=False)
            try:
                return original(iterator)
            finally:
                open_range.end()
        return __next__

    def _module(self, original: Function) -> Function:
        is_compiling, thread = self._is_compiling, self._thread

        @functools.wraps(original)
        def __call__(module: "nn.Module", *args: object, **kwargs: object) -> Any:
            # Most calls are inside another one, and leave here. None of the rest may end up in a
            # compiled graph.
            if thread.in_module or not self._on or is_compiling():
                return original(module, *args, **kwargs)
            open_range = self._open_module(module, args, kwargs)
            thread.in_module = True
            try:
                return original(module, *args, **kwargs)
            finally:
                thread.in_module = False
                open_range.end()
        return __call__

    def _open_module(self, module: "nn.Module", args: Args, kwargs: Json) -> Open:
        return self._open(self._phase_of(module))

    def _phase_of(self, module: "nn.Module") -> str:
        if self._backwards:
            return "recompute"
        if self._trained and not module.training and not self._is_grad_enabled():
            return "evaluation"
        return "forward"

    def _before_optimizer(self, optimizer: "Optimizer", args: Args, kwargs: Json) -> None:
        if self._is_compiling():
            return
        self._step_code = sys._getframe(1).f_code
        self._end_failed_optimizers(1)
        # torch annotates optimizers and data loaders itself
        opened = self._open("optimizer", annotate=False)
        self._thread.optimizers.append(opened)

    def _after_optimizer(self, optimizer: "Optimizer", args: Args, kwargs: Json) -> None:
        if not self._is_compiling() and self._thread.optimizers:
            self._thread.optimizers.pop().end()

    def _end_failed_optimizers(self, starting: int = 0) -> None:
        """torch does not report an optimizer whose step has raised: its code is no longer on the
        stack. `starting`: steps that are on it and not yet open."""
        if not self._thread.optimizers:
            return
        frame: Optional[FrameType] = sys._getframe(1)
        running = -starting
        while frame is not None:
            running += frame.f_code is self._step_code
            frame = frame.f_back
        while len(self._thread.optimizers) > running:
            self._thread.optimizers.pop().end()
