# SPDX-License-Identifier: Apache-2.0
"""A run in a notebook: Run(path) shows its head figures and verdicts, show(run) the whole page.

Names in a run may contain anything. They are escaped, and the table has no script; the page has, in a
frame that can reach nothing outside itself.
"""
import html
import os
import re
import tempfile
import unicodedata
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from . import _library as lib
from . import checks
from ._types import Json, Path

# Readable on white and on black; everything else has the notebook's own colours.
COLOURS = {"critical": "#d9443f", "warning": "#b7791f", "note": "#3d86c6"}
_LINE = "border:1px solid #8888;padding:2px 8px;text-align:left"
_UNITS = (("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0))
_MOST = 5  # verdicts


class Run:
    """A run on disk. The figures are read once, when they are first shown."""

    def __init__(self, path: Path) -> None:
        self.path = os.fspath(path)

    @cached_property
    def report(self) -> Json:
        """`moescope report --json`, with at most 100 rows of each table."""
        return lib.table("report", self.path, "--limit", "100")

    def __repr__(self) -> str:
        return f"moescope.Run({self.path!r})"

    def _heading(self) -> str:
        return _harmless(f"{self.report['run']['name']}: {self.report['run']['command'] or ''}")[:200]

    def _verdicts(self) -> list[tuple[str, str, str]]:
        """(severity, title, advice) of those that ask for something, the most severe first."""
        return [(v["severity"], _harmless(v["title"]), _harmless(v["advice"] or ""))
                for v in self.report["verdicts"] if v["severity"] in COLOURS]

    def _repr_html_(self) -> str:
        rows = "".join(f'<tr><th style="{_LINE}">{html.escape(name)}</th>'
                       f'<td style="{_LINE}">{html.escape(value)}</td></tr>'
                       for name, value in figures(self.report))
        verdicts = self._verdicts()
        items = "".join(
            f'<li><b style="color:{COLOURS[severity]}">{html.escape(severity)}</b> '
            f"{html.escape(title)}<br><small>{html.escape(advice)}</small></li>"
            for severity, title, advice in verdicts[:_MOST])
        return (f"<div><p><b>{html.escape(self._heading())}</b></p>"
                f'<table style="border-collapse:collapse"><tbody>{rows}</tbody></table>'
                + (f"<ul>{items}</ul>" if items else "<p>nothing found to improve</p>")
                + f"<p><small>{html.escape(_more(self.path, len(verdicts)))}</small></p></div>")

    def _repr_markdown_(self) -> str:
        verdicts = self._verdicts()
        lines = [f"**{_plain(self._heading())}**", "", "| | |", "|---|---|"]
        lines += [f"| {_plain(name)} | {_plain(value)} |" for name, value in figures(self.report)]
        lines += ["", *(f"- **{severity}** {_plain(title)}. {_plain(advice)}"
                        for severity, title, advice in verdicts[:_MOST])]
        return "\n".join([*lines, "", _plain(_more(self.path, len(verdicts)))])


def _more(path: str, verdicts: int) -> str:
    rest = f"{verdicts - _MOST} more verdicts. " if verdicts > _MOST else ""
    return _harmless(f"{rest}All of it: moescope.show({path!r}), or 'moescope report' in a terminal")


def figures(report: Json) -> Iterator[tuple[str, str]]:
    """Head figures for people; those that the run does not have are left out."""
    run = report["run"]
    dropped = sum(n for key, n in report["loss"].items() if key.startswith("dropped_"))
    yield "duration", _time(run["duration_ns"])
    if run["devices"]:
        yield "devices", ", ".join(_harmless(_name(device)) for device in run["devices"])
    if len(run["ranks"]) > 1:
        yield "ranks", str(len(run["ranks"]))
    steps = _at(report, "steps", "total")
    if steps and steps["steps"]:
        yield "steps", str(steps["steps"])
        if steps["time"] and steps["time"]["p50_ns"] is not None:
            yield "step time", (f"{_time(steps['time']['p50_ns'])} median, "
                                f"{_time(steps['time']['p95_ns'])} p95")
        if steps["tokens_per_s"] is not None:
            yield "tokens per second", f"{steps['tokens_per_s']:,.0f}"
    layers = [row for row in _at(report, "routing", "rows") or () if row["imbalance"] is not None]
    if layers:
        worst = max(layers, key=lambda row: float(row["cv_excess"] or 0))  # as in the verdict
        yield "MoE layers", str(len({row["layer"] for row in layers}))
        yield "most uneven layer", (f"layer {worst['layer']}, {worst['phase']}: the busiest expert "
                                    f"has {worst['imbalance']:.2f} times the mean")
        yield "dropped assignments", str(sum(row["dropped"] for row in layers))
    for row in _at(report, "memory", "rows") or ():
        if row["peak_allocated_bytes"]:
            place = "host" if row["device"] < 0 else f"GPU {row['device']}"
            rank = f" of rank {row['rank']}" if len(run["ranks"]) > 1 else ""
            yield f"peak memory, {place}{rank}", f"{row['peak_allocated_bytes'] / 1e9:.3g} GB"
    yield "dropped records", str(dropped)


def _name(device: Any) -> str:
    return str(device.get("name")) if isinstance(device, dict) else str(device)


def _at(report: Json, *keys: str) -> Any:
    found: Any = report
    for key in keys:
        found = None if found is None else found.get(key)
    return found


def _time(ns: float) -> str:
    for unit, size in _UNITS:
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return "0 s"


def _harmless(text: str) -> str:
    """Without characters that act instead of being seen, as in the tool's own text."""
    return "".join("?" if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") else c
                   for c in str(text))


def _plain(text: str) -> str:
    """For Markdown: nothing in it is mark-up."""
    return re.sub(r"([\\`*_{}\[\]()#+!|~$])", r"\\\1", html.escape(text, quote=False))


class Page:
    """The page of `moescope report --html` in a frame."""

    def __init__(self, run: str, height: int) -> None:
        self.run, self.height = run, height
        with tempfile.TemporaryDirectory(prefix="moescope-") as folder:
            path = os.path.join(folder, "page.html")
            lib.run_tool("report", run, "--html", path)
            with open(path, encoding="utf-8") as file:
                # Links within the page lead to itself, not to the notebook.
                self.page = file.read().replace("<head>", '<head>\n<base href="about:srcdoc">', 1)

    def __repr__(self) -> str:
        return f"moescope.show({self.run!r})"

    def _repr_html_(self) -> str:
        return (f'<iframe title="moescope" sandbox="allow-scripts allow-downloads" '
                f'style="width:100%;height:{self.height}px;border:1px solid #8888" '
                f'srcdoc="{html.escape(self.page)}"></iframe>')


def show(run: Any, height: int = 640) -> Page:
    """The whole page of a run, for the last line of a cell. run: a path, a Run, or a profiler."""
    path = getattr(run, "path", None) or getattr(run, "run", None) or run
    return Page(os.fspath(path), checks.whole("height", height))
