# SPDX-License-Identifier: Apache-2.0
"""A profile for an Accelerator: it knows the rank, and which iterations are optimizer steps."""
from typing import TYPE_CHECKING, Any

from .training import TrainingProfile

if TYPE_CHECKING:
    from accelerate import Accelerator


class AccelerateProfiler(TrainingProfile):
    """`with AccelerateProfiler(accelerator, ...) as profiler:` and profiler.step() at the end of
    each iteration. Iterations that only accumulate gradients do not end a step.

    Arguments after the accelerator are TrainingProfile's."""

    def __init__(self, accelerator: "Accelerator", *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._accelerator = accelerator

    def step(self, tokens: int = 0) -> None:
        if not self._accelerator.sync_gradients:
            self.micro_batch()
            return
        super().step(tokens)
        self.micro_batch()

    def __enter__(self) -> "AccelerateProfiler":
        self.start(self._accelerator.process_index)
        self.micro_batch()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()
