# SPDX-License-Identifier: Apache-2.0
"""Where figures can go: TensorBoard, Weights & Biases, MLflow, or a function.

A target is found by what the given object can do, so nothing is imported that the program has not
imported itself, unless it is asked for by name.
"""
import inspect
from collections.abc import Sequence
from time import sleep, time
from types import ModuleType
from typing import Any, Callable, Optional

from .figures import Figures

NAMES = ("tensorboard", "wandb", "mlflow")
_MANY = 1000  # metrics that MLflow takes in one call


class Target:
    """Takes figures, step by step, on one thread at a time."""

    name = ""

    def write(self, figures: Sequence[Figures]) -> None:
        """Some steps of a run that still goes on."""
        raise NotImplementedError

    def write_all(self, figures: Sequence[Figures]) -> None:
        """All steps of a finished run."""
        self.write(figures)

    def flush(self) -> None:
        """What was written can be seen by others."""

    def close(self) -> None:
        """No more comes; the program's own objects stay open."""
        self.flush()


class TensorBoard(Target):
    """An add_scalar(name, value, step): PyTorch's, tensorboardX's or TensorBoard's own."""

    name = "TensorBoard"

    def __init__(self, writer: Any, ours: bool = False) -> None:
        self._writer, self._ours = writer, ours
        self._timed = "walltime" in inspect.signature(writer.add_scalar).parameters

    def write(self, figures: Sequence[Figures]) -> None:
        add = self._writer.add_scalar
        for step, at, values in figures:
            more = {"walltime": at} if self._timed and at is not None else {}
            for name, value in values.items():
                add(name, value, step, **more)
            sleep(0)  # lets the program have Python's lock

    def flush(self) -> None:
        if hasattr(self._writer, "flush"):
            self._writer.flush()

    def close(self) -> None:
        self.flush()
        if self._ours:
            self._writer.close()


class WeightsAndBiases(Target):
    """W&B counts the rows of a run, and drops what the program logs with a smaller step=. So figures
    join the program's own rows, which it commits: one step of each time. `every_step` is for programs
    that leave the counting to W&B: each step has a row of its own. So it has in a finished run, which
    has no program."""

    name = "W&B"

    def __init__(self, run: Any, every_step: bool) -> None:
        self._run, self._every_step = run, every_step
        run.define_metric("moescope/*", step_metric="moescope/step")

    def write(self, figures: Sequence[Figures]) -> None:
        if self._every_step:
            self.write_all(figures)
            return
        fullest = max(figures, key=lambda one: (len(one.values), one.step))
        self._log(fullest, commit=False)

    def write_all(self, figures: Sequence[Figures]) -> None:
        for one in figures:
            self._log(one, commit=True)

    def _log(self, figures: Figures, commit: bool) -> None:
        self._run.log({**figures.values, "moescope/step": figures.step}, commit=commit)


class MLflow(Target):
    """A run of MLflow, through a client, which is not bound to a thread as `mlflow.log_metric` is."""

    name = "MLflow"

    def __init__(self, client: Any, run_id: str) -> None:
        from mlflow.entities import Metric
        self._client, self._run_id, self._metric = client, run_id, Metric

    def write(self, figures: Sequence[Figures]) -> None:
        rows = [self._metric(name, value, int(1000 * (time() if at is None else at)), step)
                for step, at, values in figures for name, value in values.items()]
        for first in range(0, len(rows), _MANY):
            self._client.log_batch(self._run_id, metrics=rows[first:first + _MANY])


class Function(Target):
    """f(step, {name: value})."""

    def __init__(self, function: Callable[[int, dict[str, float]], object]) -> None:
        self._function = function
        self.name = getattr(function, "__qualname__", type(function).__name__)

    def write(self, figures: Sequence[Figures]) -> None:
        for step, _, values in figures:
            self._function(step, values)


def find(target: Any, run_id: Optional[str] = None, every_step: bool = False) -> Target:
    """The target that an object or a name stands for. run_id: of MLflow, for its client. every_step: W&B
    gets rows of its own for them."""
    if isinstance(target, str):
        if target not in NAMES:
            raise ValueError(f"log_to knows no '{target}'; give " + ", ".join(repr(n) for n in NAMES)
                             + ", a writer, a run or a function")
        return _by_name(target, run_id, every_step)
    if isinstance(target, ModuleType):
        last = target.__name__.split(".")[0]
        if last in ("wandb", "mlflow"):
            return _of_module(last, target, run_id, every_step)
    if hasattr(target, "add_scalar"):
        return TensorBoard(target)
    if hasattr(target, "define_metric") and hasattr(target, "log"):
        return WeightsAndBiases(target, every_step)
    if hasattr(target, "log_batch"):
        return MLflow(target, run_id or _active_mlflow(_imported("mlflow")))
    if hasattr(getattr(target, "info", None), "run_id"):
        return MLflow(_imported("mlflow").MlflowClient(), target.info.run_id)
    if callable(target) and not isinstance(target, type):
        return Function(target)
    raise TypeError(f"log_to got {target!r:.80}, which is no writer of TensorBoard, no run of W&B or "
                    "MLflow, and no function; give one, or 'tensorboard', 'wandb' or 'mlflow'")


def _by_name(name: str, run_id: Optional[str], every_step: bool) -> Target:
    if name != "tensorboard":
        return _of_module(name, _imported(name), run_id, every_step)
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        try:
            from tensorboardX import SummaryWriter
        except ImportError as why:
            raise ImportError("log_to('tensorboard') needs TensorBoard; install it with 'pip install "
                              "tensorboard'") from why
    return TensorBoard(SummaryWriter(), ours=True)


def _imported(name: str) -> Any:
    try:
        return __import__(name)
    except ImportError as why:
        raise ImportError(f"log_to('{name}') needs {name}; install it with 'pip install {name}'") from why


def _of_module(name: str, module: Any, run_id: Optional[str], every_step: bool) -> Target:
    if name == "mlflow":
        return MLflow(module.MlflowClient(), run_id or _active_mlflow(module))
    if module.run is None:
        raise ValueError("W&B has no run yet; call wandb.init() first, or give its run to log_to")
    return WeightsAndBiases(module.run, every_step)


def _active_mlflow(module: Any) -> str:
    active = module.active_run()
    if active is None:
        raise ValueError("MLflow has no active run on this thread; call mlflow.start_run() first, or "
                         "give run_id to log_to")
    return str(active.info.run_id)
