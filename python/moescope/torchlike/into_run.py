# SPDX-License-Identifier: Apache-2.0
"""The operations of a window, from torch's collector into the run, with their own times.

The run has ranges as they were recorded live; the reader places the operations among them by time.
"""
import bisect
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .. import _library as lib
from .. import api, clock

if TYPE_CHECKING:
    from torch.autograd import _KinetoEvent

Span = tuple[int, int, int]  # start and end, CLOCK_MONOTONIC nanoseconds, and the phase's number
_STEP = "ProfilerStep#"  # steps of the run are already steps
_BELOW_RANGES = 64  # live ranges have smaller depths; from here on a reader goes by time


def _phase_changes(spans: list[Span]) -> tuple[list[int], list[int]]:
    """When the innermost open phase changes, and to which."""
    edges = sorted([(start, 1, i) for i, (start, _, _) in enumerate(spans)]
                   + [(end, 0, i) for i, (_, end, _) in enumerate(spans)])
    times, phases = [0], [lib.NO_PHASE]
    open_now: list[int] = []
    for moment, begins, index in edges:
        if begins:
            open_now.append(index)
        else:
            open_now.remove(index)
        times.append(moment)
        phases.append(spans[open_now[-1]][2] if open_now else lib.NO_PHASE)
    return times, phases


def _is_operation(event: "_KinetoEvent") -> bool:
    if event.is_async():
        return False
    if hasattr(event, "activity_type"):
        return event.activity_type() in ("cpu_op", "user_annotation")
    # an older torch: allocations and Python lines are among the operators
    return event.device_type().name == "CPU" and event.name() != "[memory]" \
        and ".py(" not in event.name()


def _operations(events: list["_KinetoEvent"], ranges: set[str]) -> list[tuple[int, "_KinetoEvent"]]:
    """The operations that key_averages() counts, each with how many of them enclose it, except
    those already in the run as ranges. As there, an operator that only calls its namesake is
    merged with it."""
    threads: dict[int, list[_KinetoEvent]] = defaultdict(list)
    for event in events:
        if not _is_operation(event):
            continue
        name = event.name()
        if not event.is_user_annotation() or not (name in ranges or name.startswith(_STEP)):
            threads[event.device_resource_id()].append(event)
    return [one for found in threads.values() for one in _nested(found)]


def _nested(found: list["_KinetoEvent"]) -> Iterator[tuple[int, "_KinetoEvent"]]:
    found.sort(key=lambda e: (e.start_ns(), -e.end_ns()))
    parents, children = [], [0] * len(found)
    stack: list[int] = []
    for i, event in enumerate(found):
        while stack and found[stack[-1]].end_ns() < event.end_ns():
            stack.pop()
        parents.append(stack[-1] if stack else -1)
        if stack:
            children[stack[-1]] += 1
        stack.append(i)
    depths: list[int] = []
    for event, parent in zip(found, parents):
        same = parent >= 0 and children[parent] == 1 and found[parent].name() == event.name()
        depths.append((depths[parent] + (not same)) if parent >= 0 else 0)
        if not same:
            yield depths[-1], event


# name, shapes ("" for unknown), thread, depth, start, duration, FLOPs (0: unknown)
Operation = tuple[str, str, int, int, int, int, int]


def write_operations(found: list[Operation], spans: list[Span]) -> None:
    """Times are the run's. Waits while the run's buffers are full, so call it between two steps."""
    times, phases = _phase_changes(spans)
    rows = (lib.PastOp * len(found))()
    for row, (name, shape, thread, depth, start_ns, duration_ns, flops) in zip(rows, found):
        row.name, row.shape = api.intern(name), api.intern(shape) if shape else 0
        row.layer = row.expert = -1
        row.start_ns, row.duration_ns = start_ns, duration_ns
        row.phase = phases[bisect.bisect_right(times, start_ns) - 1]
        row.thread, row.depth = thread, _BELOW_RANGES + depth
        # torch has 0 for operators without a formula, and no bytes
        row.flops, row.bytes = flops or lib.UNKNOWN, lib.UNKNOWN
    lib.load().moescope_past_ops(rows, len(rows))


def shape_text(shapes: list[Any]) -> str:
    return "x".join(str(one).replace(" ", "") for one in shapes if one) if shapes else ""


def write(events: list["_KinetoEvent"], ranges: set[str], spans: list[Span]) -> None:
    """`events` of torch's collector; `ranges`: names that are live ranges."""
    offset = clock.to_monotonic_ns()
    write_operations([(event.name(), shape_text(event.shapes()), event.device_resource_id(), depth,
                       event.start_ns() + offset, event.duration_ns(), event.flops())
                      for depth, event in _operations(events, ranges)], spans)
