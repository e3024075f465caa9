# SPDX-License-Identifier: Apache-2.0
"""Flags of a training script, and the Trainer callbacks they request."""
import argparse
from typing import TYPE_CHECKING, Callable

if TYPE_CHECKING:
    from transformers import TrainerCallback


def _count(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"{value} is less than {least}")
        return value
    parse.__name__ = "number"  # argparse names it if the text is not a number
    return parse


def add_arguments(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Adds the flags; returns the parser."""
    group = parser.add_argument_group("profiling")
    group.add_argument("--enable-profiling", action="store_true",
                       help="profile some steps of the training")
    group.add_argument("--enable-memory-logging", action="store_true",
                       help="print memory of GPUs and host now and then")
    group.add_argument("--profiler-output-dir", default="./profiler_traces", metavar="DIR",
                       help="where traces and the run go (%(default)s)")
    group.add_argument("--profiler-wait-steps", type=_count(0), default=5, metavar="N",
                       help="steps before the profiler is made ready (%(default)s)")
    group.add_argument("--profiler-warmup-steps", type=_count(0), default=2, metavar="N",
                       help="steps in which it is ready and records nothing (%(default)s)")
    group.add_argument("--profiler-active-steps", type=_count(1), default=3, metavar="N",
                       help="steps that are recorded (%(default)s)")
    group.add_argument("--profiler-repeat", type=_count(0), default=1, metavar="N",
                       help="how often that happens, 0: to the end (%(default)s)")
    group.add_argument("--memory-log-steps", type=_count(1), default=10, metavar="N",
                       help="steps between two lines about memory (%(default)s)")
    return parser


def callbacks_from_arguments(args: argparse.Namespace) -> list["TrainerCallback"]:
    """The Trainer callbacks for parsed flags; none if nothing was requested."""
    callbacks: list[TrainerCallback] = []
    if args.enable_profiling:
        from .transformers import MoescopeProfilerCallback
        callbacks.append(MoescopeProfilerCallback(
            output_dir=args.profiler_output_dir, wait_steps=args.profiler_wait_steps,
            warmup_steps=args.profiler_warmup_steps, active_steps=args.profiler_active_steps,
            repeat_times=args.profiler_repeat))
    if args.enable_memory_logging:
        from .transformers import MoescopeMemoryCallback
        callbacks.append(MoescopeMemoryCallback(args.memory_log_steps))
    return callbacks
