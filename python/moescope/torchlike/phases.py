# SPDX-License-Identifier: Apache-2.0
"""Forward, backward, optimizer and data of a training step, found without the program's help.

Installed for the steps that are recorded and taken out after them:
  forward    hooks that torch calls for every module; the outermost call on a thread is the phase.
             Inside a backward pass it is recompute (activation checkpointing). Without gradients
             and in eval mode, once a backward pass has been seen, it is evaluation.
  backward   torch.autograd.backward and torch.autograd.grad, replaced while installed;
             Tensor.backward looks the first one up at each call
  optimizer  torch.optim's global step hooks
  data       __next__ of DataLoader's iterators, replaced while installed
Times are those of the host: on a GPU the work may still be queued when a phase ends.
"""
import functools
import threading
from typing import Any, Callable, List, Tuple

from .ranges import Range


class _Thread(threading.local):
    """What is open on this thread."""

    def __init__(self) -> None:
        self.modules = 0
        self.forward: Any = None
        self.optimizers: List[Range] = []


class Phases:
    def __init__(self) -> None:
        self._handles: List[Any] = []
        self._replaced: List[Tuple[Any, str, Any]] = []
        self._thread = _Thread()
        self._backwards = 0  # open now, on whichever thread
        self._trained = False

    @property
    def installed(self) -> bool:
        return bool(self._handles)

    def install(self) -> None:
        if self.installed:
            return
        import torch
        from torch.nn.modules import module
        from torch.optim import optimizer
        from torch.utils.data import dataloader

        self._thread = _Thread()
        self._handles = [
            module.register_module_forward_pre_hook(self._before_module),
            module.register_module_forward_hook(self._after_module, always_call=True),
            optimizer.register_optimizer_step_pre_hook(self._before_optimizer),
            optimizer.register_optimizer_step_post_hook(self._after_optimizer),
        ]
        self._replace(torch.autograd, "backward", self._backward)
        self._replace(torch.autograd, "grad", self._backward)
        self._replace(dataloader._BaseDataLoaderIter, "__next__", self._data)

    def remove(self) -> None:
        """Everything is as before install(). Ranges that are open stay so: their end still comes
        when it was wrapped here, and those of a failed optimizer are closed."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        for owner, name, original in reversed(self._replaced):
            setattr(owner, name, original)
        self._replaced = []
        self.close()

    def close(self) -> None:
        """Closes what an exception has left open on this thread."""
        while self._thread.optimizers:
            self._thread.optimizers.pop().end()
        if self._thread.forward is not None:
            self._thread.forward.end()
            self._thread.forward, self._thread.modules = None, 0

    def _replace(self, owner: Any, name: str, wrap: Callable) -> None:
        original = vars(owner)[name]
        self._replaced.append((owner, name, original))
        setattr(owner, name, wrap(original))

    def _backward(self, original: Callable) -> Callable:
        @functools.wraps(original)
        def backward(*args: Any, **kwargs: Any) -> Any:
            open_range = Range("backward", "backward").begin()
            self._backwards += 1
            self._trained = True
            try:
                return original(*args, **kwargs)
            finally:
                self._backwards -= 1
                open_range.end()
        return backward

    def _data(self, original: Callable) -> Callable:
        @functools.wraps(original)
        def __next__(iterator: Any) -> Any:
            open_range = Range("data", "data", annotate=False).begin()
            try:
                return original(iterator)
            finally:
                open_range.end()
        return __next__

    def _before_module(self, module: Any, args: Any) -> None:
        thread = self._thread
        thread.modules += 1
        if thread.modules == 1:
            phase = self._phase_of(module)
            thread.forward = Range(phase, phase).begin()

    def _after_module(self, module: Any, args: Any, result: Any) -> None:
        thread = self._thread
        if not thread.modules:  # installed while this module ran
            return
        thread.modules -= 1
        if not thread.modules:
            thread.forward.end()
            thread.forward = None

    def _phase_of(self, module: Any) -> str:
        import torch

        if self._backwards:
            return "recompute"
        if self._trained and not module.training and not torch.is_grad_enabled():
            return "evaluation"
        return "forward"

    def _before_optimizer(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        # torch annotates optimizers and data loaders itself
        self._thread.optimizers.append(Range("optimizer", "optimizer", annotate=False).begin())

    def _after_optimizer(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._thread.optimizers:
            self._thread.optimizers.pop().end()
