# SPDX-License-Identifier: Apache-2.0
"""The configuration of an experiment. Names, types and defaults are the tool's own table
(`moescope bench --list-parameters --json`), and the tool reads and checks the files."""
import copy
import difflib
import json
import os
from collections.abc import Mapping
from functools import cache
from typing import Any, Optional

from .. import _library as lib
from .. import errors
from .._types import Json, Path

NOT_SHOWN = "(not shown)"  # what the tool prints for a literal key in a file


def _ask(*options: str) -> dict[str, Json]:
    """Every parameter by name, with its `value`; empty text is None."""
    answer = json.loads(lib.run_tool("bench", *options, "--list-parameters", "--json"))
    return {row["key"]: dict(row, value=_or_none(answer["config"][row["key"]]))
            for row in answer["rows"]}


def _or_none(value: object) -> Any:
    return None if value == "" else value


@cache
def parameters() -> dict[str, Json]:
    """Every parameter by name: type, default, help, choices."""
    return {key: dict(row, default=row["value"] if row["default"] else _empty(row["type"]))
            for key, row in _ask().items()}


def _empty(kind: str) -> Any:
    return {"list": [], "map": {}}.get(kind)


@cache
def _aliases() -> dict[str, str]:
    return {alias: key for key, row in parameters().items() for alias in row.get("aliases") or []}


class ExperimentConfig:
    """Parameters by name: ExperimentConfig(model_path=..., max_tokens=300). A parameter that was
    not given has its default; an unknown name is an error that suggests the nearest one. The
    tool checks values when the experiment runs."""

    _values: Json

    def __init__(self, **values: Any) -> None:
        object.__setattr__(self, "_values", {})
        for key, value in values.items():
            try:
                setattr(self, key, value)
            except AttributeError as why:
                raise TypeError(str(why)) from None

    def __setattr__(self, key: str, value: Any) -> None:
        key = _aliases().get(key, key)
        if key not in parameters():
            raise AttributeError(_unknown(key))
        if isinstance(value, os.PathLike):
            value = os.fspath(value)
        self._values[key] = value

    def __getattr__(self, key: str) -> Any:
        if key.startswith("_"):
            raise AttributeError(key)
        key = _aliases().get(key, key)
        if key not in parameters():
            raise AttributeError(_unknown(key))
        return self._values[key] if key in self._values else \
            copy.copy(parameters()[key]["default"])

    def __dir__(self) -> list[str]:
        return sorted([*super().__dir__(), *parameters()])

    def given(self) -> Json:
        """The given parameters, without the defaults."""
        return dict(self._values)

    def to_dict(self) -> Json:
        """Every parameter."""
        return {key: getattr(self, key) for key in parameters()}

    def replace(self, **values: Any) -> "ExperimentConfig":
        """A copy with other values."""
        return ExperimentConfig(**{**self._values, **values})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExperimentConfig) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"ExperimentConfig({', '.join(f'{k}={v!r}' for k, v in self._values.items())})"


def _unknown(key: str) -> str:
    near = difflib.get_close_matches(key, parameters(), 1)
    return f"an experiment has no parameter '{key}'" + (f"; did you mean '{near[0]}'?" if near else "")


class ConfigManager:
    """Configurations as YAML files."""

    @staticmethod
    def load_config(path: Path) -> ExperimentConfig:
        """A wrong file is a ToolError: file, line, column and what to write instead."""
        shown = _ask("--config", os.fspath(path))
        if shown["api_key"]["given"] and shown["api_key"]["value"] == NOT_SHOWN:
            raise errors.MoescopeError(f"{path}: the tool hands out no keys; write api_key: $NAME, and "
                                       "set that variable")
        return ExperimentConfig(**{key: row["value"] for key, row in shown.items() if row["given"]})

    @staticmethod
    def save_config(config: ExperimentConfig, path: Path) -> None:
        """Saves the given parameters; the rest keep their defaults. The file appears whole or not
        at all."""
        path = os.fspath(path)
        temporary = f"{path}.{os.getpid()}.tmp"
        try:
            with open(temporary, "w", encoding="utf-8") as file:
                file.write(yaml_text(config.given()))
            os.replace(temporary, path)
        except OSError:
            if os.path.exists(temporary):
                os.unlink(temporary)
            raise


def yaml_text(values: Mapping[str, Any]) -> str:
    """One line per key. JSON values are YAML; a value of None is left out."""
    lines = []
    for key, value in values.items():
        if value is None:
            continue
        try:
            lines.append(f"{key}: {json.dumps(_plain(value), ensure_ascii=False)}\n")
        except TypeError:
            raise errors.MoescopeError(f"'{key}' cannot be {value!r}; give a text, a number, a list or "
                                       "a dictionary") from None
    return "".join(lines)


def _plain(value: Any) -> Any:
    """NumPy numbers and paths as plain values."""
    if isinstance(value, (set, frozenset, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    item: Optional[Any] = getattr(value, "item", None)
    return item() if callable(item) else value
