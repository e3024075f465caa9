# SPDX-License-Identifier: Apache-2.0
"""Runs experiments with the tool: `moescope bench` for one, `moescope sweep` for many."""
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from typing import Any, Callable, Optional

from .. import _library as lib
from .. import errors
from .._types import Json, Path
from .config import ExperimentConfig, yaml_text

# Takes an experiment's directory and its results; its return value is added to them.
Analyzer = Callable[[str, Json], object]


class _Runner:
    def __init__(self, config: ExperimentConfig) -> None:
        self.config = config
        self.analyzers: list[tuple[str, Analyzer]] = []

    def add_analyzer(self, name: str, analyzer: Analyzer) -> None:
        """Called after a successful experiment, with its directory and its results; its return
        value becomes results["analyses"][name], and an exception becomes {"error": ...}."""
        self.analyzers.append((name, analyzer))

    def _analyze(self, results: Json) -> None:
        if results.get("status") != "success":
            return
        analyses = results.setdefault("analyses", {}) if self.analyzers else {}
        for name, analyzer in self.analyzers:
            try:
                analyses[name] = analyzer(results["directory"], results)
            except Exception as why:  # the measurement stands, whatever happens to its analysis
                analyses[name] = {"error": f"{type(why).__name__}: {why}"}


class ExperimentRunner(_Runner):
    """One experiment. run() returns the content of summary.json."""

    def run(self) -> Json:
        """"status" says what happened: success, failed or timeout. A configuration that cannot run
        at all is a ToolError with the tool's message."""
        done = _call(self.config, "bench", "--json")
        # 1: the experiment failed, and the results say why.
        if done.returncode not in (0, 1) or not done.stdout.strip():
            raise _error("bench", done)
        results: Json = json.loads(done.stdout)
        self._analyze(results)
        return results


class BatchRunner(_Runner):
    """Many experiments that differ in some parameters."""

    def run_parameter_sweep(self, values: Mapping[str, Iterable[Any]]) -> Json:
        """All combinations of these lists. Returns the content of batch_summary.json
        (total_experiments, successful, failed, experiments and more), with its `directory` and
        that of each experiment."""
        return self._sweep("--parameter-sweep", sweep_text(values))

    def run_preset(self, name: str) -> Json:
        """quick, comprehensive or scaling."""
        return self._sweep("--preset", name)

    def resume(self, directory: Path, retry_failed: bool = False) -> Json:
        """Continues an interrupted sweep."""
        directory = os.fspath(directory)
        done = _call(None, "sweep", "--resume", directory,
                     *(["--retry-failed"] if retry_failed else []))
        return self._finish(directory, done)

    def _sweep(self, *options: str) -> Json:
        # Named here, so that the tool's output is known.
        config, stamp = self.config, time.strftime("%Y%m%d_%H%M%S")
        model = config.model_name or os.path.basename((config.model_path or config.model or
                                                       config.engine).rstrip("/"))
        if not config.experiment_name:
            config = config.replace(experiment_name=f"{model}_{config.profile_mode}_sweep_{stamp}")
        done = _call(config, "sweep", *options)
        return self._finish(os.path.join(config.output_dir, config.experiment_name), done)

    def _finish(self, directory: str, done: "subprocess.CompletedProcess[str]") -> Json:
        # 1 with points in the folder: some of them failed, which is a result.
        if done.returncode not in (0, 1) or not os.path.isdir(os.path.join(directory, "points")):
            raise _error("sweep", done)
        summary: Json = json.loads(lib.run_tool("summary", directory, "--json"))
        summary["directory"] = os.path.abspath(directory)
        for experiment in summary["experiments"]:
            experiment["directory"] = os.path.join(summary["directory"], "points", experiment["name"])
            self._analyze(experiment)
        return summary


def sweep_text(values: Mapping[str, Iterable[Any]]) -> str:
    """{"batch_size": [1, 2]} as batch_size:1,2"""
    parts = []
    for key, choices in values.items():
        if isinstance(choices, (str, bytes)) or not isinstance(choices, Iterable):
            raise errors.MoescopeError(f"'{key}' needs a list of values to try, not {choices!r}")
        texts = [str(value).lower() if isinstance(value, bool) else str(value) for value in choices]
        for text in texts:
            if any(mark in text for mark in ",;"):
                raise errors.MoescopeError(f"'{key}': {text!r} has a comma or a semicolon in it, which "
                                           "separate values; run it as an experiment of its own")
        parts.append(f"{key}:{','.join(texts)}")
    return ";".join(parts)


def environment() -> dict[str, str]:
    """The driver runs in this Python and finds this package, so a trace has routing too."""
    env = dict(os.environ)
    env.setdefault("MOESCOPE_PYTHON", sys.executable)
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [env.get("PYTHONPATH"), package]))
    return env


def _call(config: Optional[ExperimentConfig], *words: str) -> "subprocess.CompletedProcess[str]":
    """Runs the tool with these words and this configuration, and waits for it."""
    with tempfile.TemporaryDirectory(prefix="moescope-lab-") as folder:
        command = [lib.tool_path(), *words]
        if config is not None:
            path = os.path.join(folder, "config.yaml")
            with open(path, "w", encoding="utf-8") as file:
                file.write(yaml_text(config.given()))
            command += ["--config", path]
        return subprocess.run(command, capture_output=True, text=True, errors="replace",
                              env=environment(), check=False)


def _error(command: str, done: "subprocess.CompletedProcess[str]") -> errors.ToolError:
    return errors.ToolError(done.stderr.strip() or f"moescope {command}: status {done.returncode}")
