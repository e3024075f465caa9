# SPDX-License-Identifier: Apache-2.0
"""What the callbacks of all training frameworks share: a scheduled profile on chosen ranks.

A step is an optimizer step; the micro-batches of gradient accumulation are ranges inside it.
"""
import os
import time
from collections.abc import Iterable
from typing import Any, Optional

from .. import api
from .._types import Json
from ..torchlike.export import tensorboard_trace_handler
from ..torchlike.profile import profile
from ..torchlike.ranges import Range
from ..torchlike.schedule import schedule


def global_rank() -> int:
    """The rank among all processes: torch.distributed's, the launcher's, or 0."""
    import torch

    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return int(torch.distributed.get_rank())
    return int(os.environ.get("RANK", "0"))


class TrainingProfile:
    """A profile that writes one trace per cycle, and its run, into `output_dir`."""

    def __init__(self, output_dir: str = "./profiler_traces", wait_steps: int = 5,
                 warmup_steps: int = 2, active_steps: int = 3, repeat_times: int = 1,
                 record_shapes: bool = True, profile_memory: bool = True, with_stack: bool = False,
                 with_flops: bool = True, ranks: Optional[Iterable[int]] = (0,),
                 activities: Optional[Iterable[Any]] = None, use_gzip: bool = False) -> None:
        self.output_dir = output_dir
        self.ranks = None if ranks is None else frozenset(ranks)
        self.use_gzip = use_gzip
        self.profiler: Optional[profile] = None  # stays after stop(), with the last window
        self._options: Json = {
            "schedule": schedule(wait=wait_steps, warmup=warmup_steps, active=active_steps,
                                 repeat=repeat_times),
            "record_shapes": record_shapes, "profile_memory": profile_memory,
            "with_stack": with_stack, "with_flops": with_flops, "activities": activities}
        self._micro: Optional[Range] = None
        self._tokens = 0  # of the micro-batches so far
        self._running = False
        self._logs: list[tuple[Any, Json]] = []

    def log_to(self, target: Any, **options: Any) -> None:
        """From the start of the training on, which may have to begin the target's run first: see
        moescope.log_to. A target that cannot be used then is warned about."""
        self._logs.append((target, options))

    def start(self, rank: Optional[int] = None) -> None:
        """Does nothing on other ranks than the chosen ones; `ranks` None chooses all."""
        rank = global_rank() if rank is None else rank
        if self._running or (self.ranks is not None and rank not in self.ranks):
            return
        os.makedirs(self.output_dir, exist_ok=True)
        run = os.path.join(self.output_dir,
                           f"rank{rank}_{time.strftime('%Y%m%d_%H%M%S')}_{os.getpid()}.mscope")
        handler = tensorboard_trace_handler(self.output_dir, f"rank{rank}_{os.getpid()}",
                                            self.use_gzip)
        self.profiler = profile(on_trace_ready=handler, **self._options)
        self.profiler.run = run  # unless there is already one
        self.profiler.start()
        self._running, self._tokens = True, 0
        for target, options in self._logs:
            try:
                self.profiler.log_to(target, **options)
            except Exception as why:  # the training continues
                api.warn(f"moescope logs nothing: {why}")

    def micro_batch(self) -> None:
        """A micro-batch begins, and the previous one ends."""
        self.micro_batch_end()
        if self._running:
            self._micro = Range("micro_batch").begin()

    def add_tokens(self, tokens: int) -> None:
        """Adds these to the next step."""
        self._tokens += tokens

    def micro_batch_end(self) -> None:
        if self._micro is not None:
            self._micro.end()
            self._micro = None

    def step(self, tokens: int = 0) -> None:
        """tokens 0: those that were added."""
        self.micro_batch_end()
        tokens, self._tokens = tokens or self._tokens, 0
        if self._running and self.profiler is not None:
            self.profiler.step(tokens)

    def stop(self) -> None:
        self.micro_batch_end()
        if self._running and self.profiler is not None:
            self._running = False
            self.profiler.stop()
