# SPDX-License-Identifier: Apache-2.0
"""Which call of an optimizer's step ends a step of the program, if there are several optimizers.

One optimizer: each call. Several that take turns (a GAN, one for matrices and one for the rest): the
last of the turn. If one is called more often than the others (five steps of the critic, one of the
generator): that one. The pattern is only known once it repeats, so it is learned on the way:

- The first optimizer ends a step. If another one is seen before that one has ended a second step,
  it takes over without ending one itself: the step of this turn has ended already, too early.
- One that steps twice since the last step ended is called more often, and takes over. It should
  have ended a step the first time, so this is one step less.
- If the one that ends steps no longer exists, the next one takes over at once.
"""
import weakref
from typing import TYPE_CHECKING, Optional

if TYPE_CHECKING:
    from torch.optim import Optimizer


class StepEnds:
    def __init__(self) -> None:
        self._ender: Optional[weakref.ref[Optimizer]] = None
        self._ended = 0  # by it
        # since the last step ended
        self._calls: weakref.WeakKeyDictionary[Optimizer, int] = weakref.WeakKeyDictionary()

    def ends(self, optimizer: "Optimizer") -> bool:
        """A step of `optimizer` has ended; whether one of the program has."""
        ender = None if self._ender is None else self._ender()
        if optimizer is ender and len(self._calls) == 1:  # the usual case: there is but one
            self._ended += 1
            return True
        known = optimizer in self._calls
        calls = self._calls[optimizer] = self._calls.get(optimizer, 0) + 1
        if ender is None or (optimizer is not ender and calls > 1):
            self._ender, self._ended = weakref.ref(optimizer), 0
        elif optimizer is not ender:
            if not known and self._ended == 1:
                self._ender = weakref.ref(optimizer)
                self._forget_calls()  # the turn ends here
            return False
        self._ended += 1
        self._forget_calls()
        return True

    def _forget_calls(self) -> None:
        for optimizer in list(self._calls):
            self._calls[optimizer] = 0
