# SPDX-License-Identifier: Apache-2.0
"""The run's clock, CLOCK_MONOTONIC, and how PyTorch's wall-clock times become times of it."""
import time

monotonic_ns = time.monotonic_ns


def to_monotonic_ns() -> int:
    """What to add to times of the wall clock."""
    def pair() -> tuple[int, int]:
        before = time.monotonic_ns()
        wall = time.time_ns()
        after = time.monotonic_ns()
        return after - before, (before + after) // 2 - wall
    return min(pair() for _ in range(5))[1]
