# SPDX-License-Identifier: Apache-2.0
"""A PyTorch program that was already running when we came (`moescope attach --inside`).

It is in the middle of something: a step of the optimizer has to end before the first whole step begins, or,
where there is no optimizer, the call of a model. Until then nothing is recorded. It is left at the end of a
step, too, so that all steps of the run are whole.
"""
import sys
import threading
from types import FrameType
from typing import TYPE_CHECKING, Callable, Optional

from .._types import Args, Json
from ..torchlike.phases import Open
from .program import Program

if TYPE_CHECKING:
    from torch import nn

_PATIENCE_S = 5.0  # for the end of a step that is under way when we are to leave


class _Before:
    """A phase that is not recorded."""
    __slots__ = ("_program",)

    def __init__(self, program: "Joined") -> None:
        self._program = program

    def end(self) -> None:
        self._program.phase_ended(-1)


class Joined(Program):
    def __init__(self, note: Callable[[str], None], most: int) -> None:
        super().__init__(note)
        self._most = most  # steps; 0: no limit
        self._before = True  # the first boundary
        self._leaving = False
        self._left = threading.Event()

    def install(self) -> None:
        from torch.nn import Module

        self._module_code = Module.__call__.__code__
        super().install()
        self._begin()

    def leave(self) -> None:
        """On another thread than the program's."""
        self._leaving = True
        if not self._on:
            return
        if self._open_step and self._left.wait(_PATIENCE_S):
            return
        # torch's collector can only be stopped by the thread that has started it: at the end of the step.
        if not self.operations.on:
            self.remove()
            self._cancel_step()

    def remove(self) -> None:
        super().remove()
        self._left.set()

    def _forked(self) -> None:
        """The thread that would take us out is the parent's."""
        if self._on:
            super()._forked()
            self.remove()

    def _open(self, phase: str, annotate: bool = True) -> Open:
        return _Before(self) if self._before else super()._open(phase, annotate)

    def _open_module(self, module: "nn.Module", args: Args, kwargs: Json) -> Open:
        if self._before and (self._expects_training() or self._inside_module()):
            return _Before(self)
        self._before = False
        return super()._open_module(module, args, kwargs)

    def _inside_module(self) -> bool:
        """This call is inside one that began before we came."""
        frame: Optional[FrameType] = sys._getframe(1)
        while frame is not None:
            if frame.f_code is self._module_code:
                return True
            frame = frame.f_back
        return False

    def _next_step(self) -> None:
        if self._before:
            self._before = False
            self._trained = True  # what comes first may be an evaluation, of this step
        elif self._open_step:
            self._end_step()
        if self._on and not self._open_step:
            self._begin_step()

    def _end_step(self) -> None:
        super()._end_step()
        if self._on and (self._leaving or self._done == self._most):
            self.remove()
            self.calls.moescope_leave()


def install(note: Callable[[str], None], most: int) -> Joined:
    program = Joined(note, most)
    try:
        program.install()
    except BaseException:
        program.remove()
        raise
    return program
