# SPDX-License-Identifier: Apache-2.0
"""In which steps operations are recorded: as many as SHARE of the program's time pays for.

torch's collector costs a microsecond or two for each operation and some ten for its way into the run. What a
sampled step has cost is measured: the time between steps, and how much longer it took than those before.
The first sampled step finds the price, the others are paid for in advance.
"""
import statistics
from collections import deque
from typing import Optional

SHARE = 0.005
FIRST = 2  # the first steps allocate, load and compile
BEFORE = 8  # steps to compare with


class Budget:
    def __init__(self) -> None:
        self._plain: deque[int] = deque(maxlen=BEFORE)  # ns of steps without operations
        self._start_ns: Optional[int] = None
        self._spent_ns = 0
        self._price_ns = 0
        self.samples = 0

    def wants(self, nth: int, now_ns: int) -> bool:
        """Whether operations are recorded in the nth step, which begins now."""
        if self._start_ns is None:
            self._start_ns = now_ns
        if self.samples == 0:
            return nth >= FIRST
        return (now_ns - self._start_ns) * SHARE >= self._spent_ns + self._price_ns

    def plain_step(self, duration_ns: int) -> None:
        self._plain.append(duration_ns)

    def sampled_step(self, duration_ns: int, between_ns: int) -> None:
        """Took this long, and so long for switching and writing."""
        longer = duration_ns - statistics.median(self._plain) if len(self._plain) >= 3 else 0
        self._price_ns = between_ns + max(0, int(longer))
        self._spent_ns += self._price_ns
        self.samples += 1
