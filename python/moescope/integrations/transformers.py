# SPDX-License-Identifier: Apache-2.0
"""Callbacks for Hugging Face's Trainer, transformers 4.x and 5.x."""
from typing import TYPE_CHECKING, Any, Callable, Optional

try:
    from transformers import TrainerCallback
except ImportError as why:
    raise ImportError("the Trainer's callbacks need transformers; install it with 'pip install "
                      "transformers accelerate'") from why

from .._types import Args, Json
from ..torchlike.phases import tokens_of
from . import memory
from .training import TrainingProfile

if TYPE_CHECKING:
    from torch import nn
    from torch.utils.hooks import RemovableHandle
    from transformers import TrainerControl, TrainerState, TrainingArguments

    from ..torchlike.profile import profile as Profile


class MoescopeProfilerCallback(TrainerCallback):
    """Profiles the steps of the schedule, and writes traces and a run into `output_dir`.

    Arguments are TrainingProfile's: output_dir, wait_steps, warmup_steps, active_steps,
    repeat_times, record_shapes, profile_memory, with_stack, with_flops, ranks, activities,
    use_gzip. `.profile` is the profiler, with key_averages() of the last window.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        self._training = TrainingProfile(*args, **options)
        self._hook: Optional[RemovableHandle] = None

    @property
    def profile(self) -> Optional["Profile"]:
        """The profiler; None before training starts, and on other ranks than the chosen ones."""
        return self._training.profiler

    @property
    def output_dir(self) -> str:
        return self._training.output_dir

    def log_to(self, target: Any, **options: Any) -> None:
        """Figures of each step to TensorBoard, W&B or MLflow: see moescope.log_to."""
        self._training.log_to(target, **options)

    def stop(self) -> None:
        """Ends the profile now. The Trainer does not notify callbacks of failed training: after an
        exception call this, or train again."""
        if self._hook is not None:
            self._hook.remove()
            self._hook = None
        self._training.stop()

    def _count(self, module: "nn.Module", args: Args, kwargs: Json) -> None:
        """The Trainer does not show its batches to callbacks. Compiled code does not get here."""
        import torch

        if not torch.compiler.is_compiling() and module.training \
                and torch._C._current_graph_task_id() == -1:
            self._training.add_tokens(tokens_of(kwargs))

    def on_train_begin(self, args: "TrainingArguments", state: "TrainerState", control: "TrainerControl",
                       **kwargs: Any) -> None:
        self.stop()
        self._training.start(args.process_index)
        if self._training.profiler is not None and kwargs.get("model") is not None:
            self._hook = kwargs["model"].register_forward_pre_hook(self._count, with_kwargs=True)

    def on_step_begin(self, args: "TrainingArguments", state: "TrainerState", control: "TrainerControl",
                      **kwargs: object) -> None:
        self._training.micro_batch()

    def on_substep_end(self, args: "TrainingArguments", state: "TrainerState", control: "TrainerControl",
                       **kwargs: object) -> None:
        self._training.micro_batch()

    def on_pre_optimizer_step(self, args: "TrainingArguments", state: "TrainerState",
                              control: "TrainerControl", **kwargs: object) -> None:
        self._training.micro_batch_end()

    def on_step_end(self, args: "TrainingArguments", state: "TrainerState", control: "TrainerControl",
                    **kwargs: object) -> None:
        self._training.step()

    def on_train_end(self, args: "TrainingArguments", state: "TrainerState", control: "TrainerControl",
                     **kwargs: object) -> None:
        self.stop()


class MoescopeMemoryCallback(TrainerCallback):
    """Prints memory of GPUs and host every `log_steps` steps."""

    def __init__(self, log_steps: int = 10, log: Optional[Callable[[str], object]] = None) -> None:
        if log_steps < 1:
            raise ValueError(f"log_steps is {log_steps}; give at least 1")
        self.log_steps = log_steps
        self._log = log or (lambda text: print(text, flush=True))

    def on_train_begin(self, args: "TrainingArguments", state: "TrainerState", control: "TrainerControl",
                       **kwargs: object) -> None:
        import torch

        if not torch.cuda.is_available():
            self._log("no GPU here: there is no GPU memory to log, only that of the host")

    def on_step_end(self, args: "TrainingArguments", state: "TrainerState", control: "TrainerControl",
                    **kwargs: object) -> None:
        if state.global_step % self.log_steps == 0:
            for line in (*memory.gpu_lines(state.global_step),
                         memory.host_line(state.global_step)):
                self._log(line)


ProfilerCallback = MoescopeProfilerCallback
SimpleGPUMemoryCallback = MoescopeMemoryCallback
