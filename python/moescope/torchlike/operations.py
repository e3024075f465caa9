# SPDX-License-Identifier: Apache-2.0
"""The operations of the recorded steps, from torch's own collector.

Only torch's record functions see every operator, including those that others consist of and those
of the backward pass, with torch's names; from Python they are reachable only through torch's
profiler (a dispatch mode sees only the innermost operators, and costs several times as much: see
docs/python/profile.md). So a torch.profiler.profile runs underneath, and its order of actions, step
names and windows are torch's by construction.
"""
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Callable, Optional

from .. import errors
from .._types import Json
from .schedule import to_torch

if TYPE_CHECKING:
    from torch.profiler import profile as TorchProfile

FLAGS = ("record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules")


def activities_of_torch(activities: Optional[Iterable[Any]]) -> Optional[list[Any]]:
    """torch's activities for ours, torch's or their names; None: all that this torch has here."""
    if activities is None:
        return None
    from torch.profiler import ProfilerActivity

    found = []
    for one in activities:
        name = one if isinstance(one, str) else getattr(one, "name", repr(one))
        if not hasattr(ProfilerActivity, name):
            raise ValueError(f"activity {one!r} is not known; use ProfilerActivity.CPU or "
                             "ProfilerActivity.CUDA")
        found.append(getattr(ProfilerActivity, name))
    if not found:
        raise ValueError("activities is empty; give ProfilerActivity.CPU, or nothing for all")
    return found


def collector(activities: Optional[Iterable[Any]], schedule: Optional[Callable[[int], Any]],
              on_trace_ready: Optional[Callable[["TorchProfile"], object]], flags: Json,
              acc_events: bool = False) -> "TorchProfile":
    """A torch.profiler.profile that is not yet started."""
    import torch

    if schedule is not None and not callable(schedule):
        raise TypeError(f"schedule is {schedule!r}; give moescope.schedule(wait=, warmup=, active=)")
    if acc_events:  # older versions of torch have no such argument
        flags = dict(flags, acc_events=True)

    config = None
    if flags["with_stack"]:  # without it torch discards the stacks of operations
        config = torch._C._profiler._ExperimentalConfig(verbose=True)
    return torch.profiler.profile(
        activities=activities_of_torch(activities),
        schedule=None if schedule is None else to_torch(schedule),
        on_trace_ready=on_trace_ready, experimental_config=config, **flags)


def check_free() -> None:
    """torch has one profiler at a time; starting another would end the first one's records."""
    import torch

    if torch.autograd._profiler_enabled():
        raise errors.NotCaptured("another profiler of torch is on in this thread; stop it before "
                                 "moescope's profile starts")
