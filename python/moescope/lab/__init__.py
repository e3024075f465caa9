# SPDX-License-Identifier: Apache-2.0
"""Experiments from Python: one run, a sweep, their plots. The moescope program does the work."""
import importlib
from typing import Any

_HOME = {
    **dict.fromkeys(("ExperimentConfig", "ConfigManager"), "config"),
    **dict.fromkeys(("ExperimentRunner", "BatchRunner"), "runner"),
    "Visualizer": "visualizer",
}
__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'moescope.lab' has no attribute '{name}'")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
