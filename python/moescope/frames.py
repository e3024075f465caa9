# SPDX-License-Identifier: Apache-2.0
"""Results as tables: a pandas DataFrame if pandas is installed, else a list of dictionaries that
does the little a notebook needs."""
import csv
import html
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Union

from ._types import Json, Path

if TYPE_CHECKING:
    from pandas import DataFrame


class Rows(list[Json]):
    """A list of dictionaries with the same keys; row by number, column by name."""

    def __init__(self, rows: Iterable[Json], columns: Sequence[str]) -> None:
        super().__init__(rows)
        self.columns = list(columns)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return [row[key] for row in self]
        return super().__getitem__(key)

    def to_csv(self, path: Path, index: bool = True) -> None:
        """Like pandas: with a first column of row numbers unless index=False; absent is empty."""
        head = ([""] if index else []) + self.columns
        with open(path, "w", newline="") as file:
            out = csv.writer(file)
            out.writerow(head)
            for i, row in enumerate(self):
                out.writerow(([i] if index else []) + [_cell(row[c]) for c in self.columns])

    def _repr_html_(self) -> str:
        return html_table(self.columns, ([row[c] for c in self.columns] for row in self))


def _cell(value: object) -> object:
    return "" if value is None else value


def frame(rows: Sequence[Json], columns: Sequence[str]) -> Union["Rows", "DataFrame"]:
    """The rows as a DataFrame, or as Rows without pandas."""
    try:
        import pandas
    except ImportError:
        return Rows(rows, columns)
    return pandas.DataFrame(list(rows), columns=list(columns))


def text(value: object) -> str:
    """A figure for people; absent is n/a."""
    if value is None:
        return "n/a"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e6 else f"{value:.4e}"
    return str(value)


def text_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    cells: list[list[str]] = [list(columns)] + [[text(v) for v in row] for row in rows]
    width = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    return "\n".join("  ".join(cell.rjust(w) for cell, w in zip(row, width)) for row in cells)


def html_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    head = "".join(f"<th>{html.escape(str(c))}</th>" for c in columns)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(text(v))}</td>" for v in row) + "</tr>"
                   for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
