# SPDX-License-Identifier: Apache-2.0
"""Which steps are recorded: torch.profiler's schedule, without importing torch."""
import enum
from typing import Any, Callable


class ProfilerAction(enum.Enum):
    """What a step is for. The values are torch.profiler's, so schedules can be exchanged."""
    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


class ProfilerActivity(enum.Enum):
    """What is recorded: operations on the CPU, work on a CUDA device."""
    CPU = 0
    CUDA = 2


def schedule(*, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0,
             skip_first_wait: int = 0) -> Callable[[int], ProfilerAction]:
    """A function from the number of a step to its action.

    Skips `skip_first` steps; then cycles of `wait` (nothing), `warmup` (the profiler warms up),
    `active` (recorded; the last of them closes the window and on_trace_ready is called). After
    `repeat` cycles nothing more, 0: forever. A nonzero `skip_first_wait` skips the wait of the
    first cycle.
    """
    for name, value in (("wait", wait), ("warmup", warmup), ("repeat", repeat),
                        ("skip_first", skip_first), ("skip_first_wait", skip_first_wait)):
        if value < 0:
            raise ValueError(f"{name} is {value}; give 0 or more steps")
    if active < 1:
        raise ValueError(f"active is {active}; give at least one step to record")
    cycle = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        if step < 0:
            raise ValueError(f"step {step}: steps are counted from 0")
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait != 0:
            step += wait
        if repeat > 0 and step // cycle >= repeat:
            return ProfilerAction.NONE
        place = step % cycle
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if place < cycle - 1 else ProfilerAction.RECORD_AND_SAVE
    return action


def to_torch(function: Callable[[int], Any]) -> Callable[[int], Any]:
    """The same schedule with torch's actions; `function` may return ours or torch's."""
    from torch.profiler import ProfilerAction as TorchAction

    def action(step: int) -> Any:
        given = function(step)
        value = getattr(given, "value", given)
        try:
            return TorchAction(value)
        except ValueError:
            raise ValueError(f"the schedule gave {given!r} for step {step}; give a "
                             "ProfilerAction") from None
    return action
