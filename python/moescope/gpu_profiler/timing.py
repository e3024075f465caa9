# SPDX-License-Identifier: Apache-2.0
"""How long a piece of work took: CUDA events on the current stream, or the host's clock.

With CUDA in use two events bracket the work and are read later, when the device has passed them;
nothing waits. During capture into a CUDA graph no event can be timed: the time stays unknown.
"""
import time
from collections import deque
from typing import Any, Callable, Optional

from ..memory.allocator import cuda

Done = Callable[[float], None]


class Clock:
    """Events that the device has not passed yet, at most `most` of them."""

    def __init__(self, most: int) -> None:
        self._waiting: deque[tuple[Any, Any, Done]] = deque()
        self._most = most
        self.lost = 0

    def begin(self) -> Any:
        device = cuda()
        if device is None:
            return time.perf_counter()
        if device.is_current_stream_capturing():
            return None
        event = device.Event(enable_timing=True)
        event.record()
        return event

    def end(self, begun: Any, done: Done) -> None:
        """`done(ms)` is called when the time is known: at once, or from a later collect()."""
        if isinstance(begun, float):
            done((time.perf_counter() - begun) * 1e3)
            return
        device = cuda()
        if begun is None or device is None or device.is_current_stream_capturing():
            return
        event = device.Event(enable_timing=True)
        event.record()
        if len(self._waiting) >= self._most:
            self.collect()
        if len(self._waiting) >= self._most:
            self._waiting.popleft()
            self.lost += 1
        self._waiting.append((begun, event, done))

    def collect(self, wait: bool = False) -> None:
        """Reads the events that have passed; with `wait`, all."""
        while self._waiting:
            begun, ended, done = self._waiting[0]
            if wait:
                ended.synchronize()
            elif not ended.query():
                return
            self._waiting.popleft()
            done(begun.elapsed_time(ended))


class Timed:
    """Returned by the profile_* calls: as a context manager it times its body, otherwise it is
    inert."""

    __slots__ = ("_begin", "_end", "_begun", "_done")

    def __init__(self, begin: Optional[Callable[[], Any]] = None,
                 end: Optional[Callable[[Any], None]] = None) -> None:
        self._begin, self._end = begin, end
        self._begun: Any = None
        self._done = False

    def __enter__(self) -> "Timed":
        if self._begin is not None and not self._done:
            self._begun = self._begin()
        return self

    def __exit__(self, *error: object) -> None:
        # One body, one time: the object is an execution, not a stopwatch.
        if self._end is not None and not self._done:
            self._done = True
            self._end(self._begun)
