# SPDX-License-Identifier: Apache-2.0
"""Runs experiments by the tool: `moescope bench` for one, `moescope sweep` for many."""
import json
import os
import subprocess
import sys
import tempfile
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Tuple

from .. import _library as lib
from .. import errors
from .config import ExperimentConfig, yaml_text

# Of an experiment's directory and its results; what it returns is added to them.
Analyzer = Callable[[str, Dict[str, Any]], Any]


class _Runner:
    def __init__(self, config: ExperimentConfig) -> None:
        self.config = config
        self.analyzers: List[Tuple[str, Analyzer]] = []

    def add_analyzer(self, name: str, analyzer: Analyzer) -> None:
        """Called after an experiment that succeeded, with its directory and its results; what it
        returns stands in results["analyses"][name], and an exception of it as {"error": ...}."""
        self.analyzers.append((name, analyzer))

    def _analyze(self, results: Dict[str, Any]) -> None:
        if results.get("status") != "success":
            return
        analyses = results.setdefault("analyses", {}) if self.analyzers else {}
        for name, analyzer in self.analyzers:
            try:
                analyses[name] = analyzer(results["directory"], results)
            except Exception as why:  # the measurement stands, whatever becomes of what is made of it
                analyses[name] = {"error": f"{type(why).__name__}: {why}"}


class ExperimentRunner(_Runner):
    """One experiment. run() returns what summary.json has, and `directory`."""

    def run(self) -> Dict[str, Any]:
        """"status" says what happened: success, failed or timeout. A configuration that cannot be run
        at all is a ToolError with the tool's words."""
        results = _call("bench", self.config)
        self._analyze(results)
        return results


class BatchRunner(_Runner):
    """Many experiments that differ in some parameters."""

    def run_parameter_sweep(self, values: Mapping[str, Iterable[Any]]) -> Dict[str, Any]:
        """All combinations of these lists, as batch_summary.json has them: total_experiments,
        successful, failed, experiments."""
        return self._finish(_call("sweep", self.config, "--parameter-sweep", sweep_text(values)))

    def run_preset(self, name: str) -> Dict[str, Any]:
        """quick, comprehensive or scaling."""
        return self._finish(_call("sweep", self.config, "--preset", name))

    def resume(self, directory: str) -> Dict[str, Any]:
        """Goes on where a sweep ended."""
        return self._finish(_call("sweep", None, "--resume", directory))

    def _finish(self, summary: Dict[str, Any]) -> Dict[str, Any]:
        for experiment in summary["experiments"]:
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


def environment() -> Dict[str, str]:
    """The driver runs in this Python and finds this package, so that a trace has routing, too."""
    env = dict(os.environ)
    env.setdefault("MOESCOPE_PYTHON", sys.executable)
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [env.get("PYTHONPATH"), package]))
    return env


def _call(command: str, config: Optional[ExperimentConfig], *options: str) -> Dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="moescope-lab-") as folder:
        words = [lib.tool_path(), command, "--json", *options]
        if config is not None:
            path = os.path.join(folder, "config.yaml")
            with open(path, "w", encoding="utf-8") as file:
                file.write(yaml_text(config.given()))
            words += ["--config", path]
        done = subprocess.run(words, capture_output=True, text=True, env=environment())
    # 0: all is well; 1: an experiment failed, and the results say which; else there are no results.
    if done.returncode in (0, 1) and done.stdout.strip():
        return json.loads(done.stdout)
    raise errors.ToolError(done.stderr.strip() or f"moescope {command}: status {done.returncode}")
