# SPDX-License-Identifier: Apache-2.0
"""The way out of compiled code.

A hook that torch.compile traces must not run Python in the middle of a graph. It calls one of these
operators instead, which the compiler keeps as a black box. Each of them writes `state`: that
prevents dropping them as useless and keeps their order. At run time they do what the hook does
without a compiler.
"""
import weakref
from typing import Any, Optional

import torch
from torch import Tensor

_targets: "weakref.WeakValueDictionary[int, Any]" = weakref.WeakValueDictionary()
_next = 0


def number(target: Any) -> int:
    """A number by which the operators find `target` for as long as it lives."""
    global _next
    _next += 1
    _targets[_next] = target
    return _next


@torch.library.custom_op("moescope::route", mutates_args=("state",))
def route(state: Tensor, site: int, indices: Tensor, weights: Optional[Tensor],
          experts: int) -> None:
    target = _targets.get(site)
    if target is not None:
        target.record(indices, weights, None, experts)


@route.register_fake
def _(state: Tensor, site: int, indices: Tensor, weights: Optional[Tensor], experts: int) -> None:
    return None


@torch.library.custom_op("moescope::step_begin", mutates_args=("state",))
def step_begin(state: Tensor, session: int, mask: Optional[Tensor], rows: int, new: int,
               training: bool) -> None:
    target = _targets.get(session)
    if target is not None:
        target.step_begin(mask, rows, new, training)


@step_begin.register_fake
def _(state: Tensor, session: int, mask: Optional[Tensor], rows: int, new: int,
      training: bool) -> None:
    return None


@torch.library.custom_op("moescope::stack_begin", mutates_args=("state",))
def stack_begin(state: Tensor, session: int, number: int, mask: Optional[Tensor]) -> None:
    target = _targets.get(session)
    if target is not None:
        target.stack_begin(number, mask)


@stack_begin.register_fake
def _(state: Tensor, session: int, number: int, mask: Optional[Tensor]) -> None:
    return None


@torch.library.custom_op("moescope::step_end", mutates_args=("state",))
def step_end(state: Tensor, session: int) -> None:
    target = _targets.get(session)
    if target is not None:
        target.step_end()


@step_end.register_fake
def _(state: Tensor, session: int) -> None:
    return None
