# SPDX-License-Identifier: Apache-2.0
"""A callback for Lightning, under either of its package names."""
import importlib
import sys
from typing import TYPE_CHECKING, Any, Optional

from ..torchlike.phases import tokens_of
from .training import TrainingProfile

if TYPE_CHECKING:
    from lightning.pytorch import LightningModule, Trainer

    from ..torchlike.profile import profile as Profile

# The program's own package decides: its Trainer does not know the other one's callbacks.
_names = ["lightning.pytorch", "pytorch_lightning"]
if "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules:
    _names.reverse()
try:
    Callback: Any = importlib.import_module(_names[0]).Callback
except ImportError:
    try:
        Callback = importlib.import_module(_names[1]).Callback
    except ImportError as why:
        raise ImportError("LightningCallback needs Lightning; install it with 'pip install "
                          "lightning'") from why


class LightningCallback(Callback):
    """Profiles the optimizer steps of the schedule; arguments are TrainingProfile's."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__()
        self._training = TrainingProfile(*args, **options)
        self._seen = 0

    @property
    def profile(self) -> Optional["Profile"]:
        """The profiler; None before training starts, and on other ranks than the chosen ones."""
        return self._training.profiler

    def log_to(self, target: Any, **options: Any) -> None:
        """Figures of each step to TensorBoard, W&B or MLflow: see moescope.log_to."""
        self._training.log_to(target, **options)

    def on_train_start(self, trainer: "Trainer", pl_module: "LightningModule") -> None:
        self._seen = trainer.global_step
        self._training.start(trainer.global_rank)

    def on_train_batch_start(self, trainer: "Trainer", pl_module: "LightningModule", batch: object,
                             batch_idx: int) -> None:
        self._training.micro_batch()
        self._training.add_tokens(tokens_of(batch))

    def on_train_batch_end(self, trainer: "Trainer", pl_module: "LightningModule", outputs: object,
                           batch: object, batch_idx: int) -> None:
        self._training.micro_batch_end()
        if trainer.global_step != self._seen:
            self._seen = trainer.global_step
            self._training.step()

    def on_train_end(self, trainer: "Trainer", pl_module: "LightningModule") -> None:
        self._training.stop()

    def on_exception(self, trainer: "Trainer", pl_module: "LightningModule",
                     exception: BaseException) -> None:
        self._training.stop()
