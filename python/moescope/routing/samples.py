# SPDX-License-Identifier: Apache-2.0
"""What only this process knows about the captured steps of a layer, and who watches which of them.

Written for every layer in every step: one dictionary entry each, unless its gate was timed; if all
layers of a step are settled together, one entry for all of them until somebody looks.
"""
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Optional

import torch


class Moment(NamedTuple):
    """A step on one device, the same for all layers there."""
    time: float
    device: str
    memory_mb: Optional[float]


class Sample(NamedTuple):
    """One captured step of a layer; None is not measured."""
    time: float
    device: str
    memory_mb: Optional[float]
    latency_ms: Optional[float]


class Late(deque[Any]):
    """Steps of a session whose moments the watchers do not have yet: (step, moment, watchers)."""

    def hand_out(self) -> None:
        while self:
            step, moment, watchers = self.popleft()
            for watcher in watchers:
                watcher.samples.add(step, moment)


class Samples:
    """By step number, in the order of capture."""

    late: Any = ()  # of the session that captures

    def __init__(self) -> None:
        self._moments: dict[int, Moment] = {}
        self._latencies: dict[int, list[Any]] = {}

    @property
    def moments(self) -> dict[int, Moment]:
        if self.late:
            self.late.hand_out()
        return self._moments

    def add(self, step: int, moment: Moment) -> None:
        self._moments[step] = moment

    def clear(self) -> None:
        self.moments.clear()
        self._latencies.clear()

    def time_gate(self, step: int, latencies: Sequence[Any]) -> None:
        """Times of the gate's calls: milliseconds, or two events of a device."""
        self._latencies.setdefault(step, []).extend(latencies)

    def __len__(self) -> int:
        return len(self.moments)

    def __iter__(self) -> Iterator[int]:
        return iter(self.moments)

    @property
    def device(self) -> Optional[str]:
        """Of the last one."""
        return next(reversed(self.moments.values())).device if self.moments else None

    def get(self, step: int) -> Optional[Sample]:
        moment = self.moments.get(step)
        return None if moment is None else Sample(*moment, self._latency_ms(step))

    def _latency_ms(self, step: int) -> Optional[float]:
        """None if the gate has no separate module, was compiled or was not timed."""
        total = None
        for one in self._latencies.get(step, ()):
            total = _milliseconds(one) + (total or 0.0)
        return total


def _milliseconds(time: Any) -> float:
    """From a number, or from the two events around what ran on a device."""
    if isinstance(time, float):
        return time
    first, last = time
    last.synchronize()
    return float(first.elapsed_time(last))


class Watcher:
    """Watches a layer: after `warmup_steps`, every `sampling_rate`-th step."""

    changes = 0  # of any of them: until then sessions need not check again

    def __init__(self) -> None:
        self.samples = Samples()
        self.set(0, 1)

    def set(self, warmup_steps: int, sampling_rate: int) -> None:
        self.warmup_steps, self.sampling_rate = warmup_steps, sampling_rate
        Watcher.changes += 1

    def wants(self, index: int) -> bool:
        after = index - self.warmup_steps
        return after >= 0 and after % self.sampling_rate == 0

    def wants_all_from(self, index: int) -> bool:
        return self.sampling_rate == 1 and index >= self.warmup_steps


def mark() -> Any:
    """An event on the current stream of the current device."""
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def memory_mb(device: torch.device) -> Optional[float]:
    """Live bytes of torch's allocator; the host has no such figure. From the nested form: the flat
    one is derived from it, and takes ten times as long."""
    if device.type != "cuda":
        return None
    stats = torch.cuda.memory_stats_as_nested_dict(device)
    return stats["allocated_bytes"]["all"]["current"] / 1e6 if stats else 0.0
