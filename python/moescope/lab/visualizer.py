# SPDX-License-Identifier: Apache-2.0
"""Plots and a page for an experiment or a sweep. `moescope plot` and `moescope summary` draw; this
module decides where the files go."""
import base64
import glob
import html
import json
import os
from typing import Callable, Optional

from .. import _library as lib
from .. import errors
from .._types import Json, Path

# Takes the experiment's directory and the file to write.
Plot = Callable[[str, str], None]

TRACE, POINTS = "trace.mscope", "points"
# end of the file's name, plot of the tool, title
PLOTS = (("kernel_time", "kernels", "Kernel time"), ("cuda_api", "api", "CUDA API"),
         ("dashboard", "dashboard", "Dashboard"))


class Visualizer:
    """results_dir: the directory of an experiment or a sweep. Plots go to `visualization` next to
    it, or to output_dir. `missing` says what could not be drawn and why."""

    def __init__(self, results_dir: Path, output_dir: Optional[Path] = None) -> None:
        self.results_dir = os.path.abspath(os.fspath(results_dir))
        if not os.path.isdir(self.results_dir):
            raise errors.MoescopeError(f"{self.results_dir} is not a directory; give the directory of an "
                                       "experiment")
        self.name = os.path.basename(self.results_dir)
        self.output_dir = os.fspath(output_dir) if output_dir is not None else os.path.join(
            os.path.dirname(self.results_dir), "visualization")
        self.missing: dict[str, str] = {}
        self._added: list[tuple[str, str, Plot]] = []

    def add_plot(self, name: str, plot: Plot, title: Optional[str] = None) -> None:
        """plot(directory, path) writes a PNG file; it is drawn and shown with the others."""
        self._added.append((name, title or name, plot))

    def create_all_visualizations(self) -> dict[str, str]:
        """The files written, by name."""
        os.makedirs(self.output_dir, exist_ok=True)
        self.missing, made = {}, {}
        if os.path.isdir(os.path.join(self.results_dir, POINTS)):
            made.update(self._draw_sweep())
        else:
            made.update(self._draw_trace())
        for name, _, draw in self._added:
            try:
                draw(self.results_dir, self._path(name))
                made[name] = self._path(name)
            except Exception as why:  # one plot less, with its reason
                self.missing[name] = f"{type(why).__name__}: {why}"
        return made

    def _draw_trace(self) -> dict[str, str]:
        made = {}
        for name, plot, _ in PLOTS:
            path = self._path(name)
            if not os.path.isdir(os.path.join(self.results_dir, TRACE)):
                self.missing[name] = "the experiment has no trace; run it with profile_mode trace"
                continue
            try:
                lib.run_tool("plot", os.path.join(self.results_dir, TRACE), plot, "-o", path)
                made[name] = path
            except errors.ToolError as why:
                self.missing[name] = str(why)
        return made

    def _draw_sweep(self) -> dict[str, str]:
        """What the tool draws for a sweep, under its own names."""
        folder = os.path.join(self.output_dir, self.name)
        lib.run_tool("summary", self.results_dir, "-o", folder)
        return {os.path.basename(path)[:-4]: path
                for path in sorted(glob.glob(os.path.join(glob.escape(folder), "**", "*.png"),
                                             recursive=True))}

    def generate_report_html(self) -> str:
        """Returns the path of a page with everything in it: result, figures, configuration, plots.
        """
        pictures = self.create_all_visualizations()
        path = os.path.join(self.output_dir, f"{self.name}_report.html")
        with open(path + ".tmp", "w", encoding="utf-8") as file:
            file.write(self._page(pictures))
        os.replace(path + ".tmp", path)
        return path

    def _path(self, name: str) -> str:
        return os.path.join(self.output_dir, f"{self.name}_{name}.png")

    def _page(self, pictures: dict[str, str]) -> str:
        summary = self._read("summary.json")
        metrics = summary.get("metrics") or self._read("metrics.json")
        head = {key: summary.get(key) for key in ("status", "error", "engine", "model", "start",
                                                  "duration_s")}
        parts = [f"<h1>{html.escape(self.name)}</h1>"]
        comparison = os.path.join(self.output_dir, self.name, "batch_summary.md")
        if os.path.exists(comparison):
            with open(comparison, encoding="utf-8") as file:
                parts.append(f"<pre>{html.escape(file.read())}</pre>")
        else:
            parts += [_table(head), "<h2>Figures</h2>", _table(_flat(metrics)),
                      "<h2>Configuration</h2>", _table(summary.get("config") or {})]
        titles = {name: title for name, _, title in PLOTS}
        titles.update({name: title for name, title, _ in self._added})
        for name, picture in pictures.items():
            with open(picture, "rb") as file:
                data = base64.b64encode(file.read()).decode()
            title = html.escape(titles.get(name, name))
            parts.append(f"<h2>{title}</h2><img alt=\"{title}\" src=\"data:image/png;base64,{data}\">")
        for name, why in self.missing.items():
            title = html.escape(titles.get(name, name))
            parts.append(f"<h2>{title}</h2><p>Not drawn: {html.escape(why)}</p>")
        return _PAGE.format(title=html.escape(self.name), body="\n".join(parts))

    def _read(self, name: str) -> Json:
        try:
            with open(os.path.join(self.results_dir, name), encoding="utf-8") as file:
                found = json.load(file)
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as why:
            path = os.path.join(self.results_dir, name)
            raise errors.MoescopeError(f"{path} cannot be read: {why}") from why
        return found if isinstance(found, dict) else {}


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>body {{ font: 16px/1.5 sans-serif; margin: 2em auto; max-width: 75em; padding: 0 1em }}
table {{ border-collapse: collapse }} td {{ border-bottom: 1px solid #ccc; padding: .2em 1em .2em 0;
vertical-align: top; white-space: pre-wrap; overflow-wrap: anywhere }} img {{ max-width: 100% }}</style>
</head><body>
{body}
</body></html>
"""


def _flat(values: Json, before: str = "") -> Json:
    """Nested figures as one list, so that each has a line; lists are in the JSON files."""
    flat: Json = {}
    for key, value in values.items():
        if isinstance(value, dict):
            flat.update(_flat(value, f"{before}{key}."))
        elif not isinstance(value, list):
            flat[before + key] = value
    return flat


def _table(values: Json) -> str:
    rows = []
    for key, value in values.items():
        if key.endswith("_reason"):
            continue
        reason = values.get(key + "_reason")
        if value is None and not reason:
            continue
        words = f"n/a ({reason})" if value is None else \
            f"{value:.6g}" if isinstance(value, float) else str(value)
        rows.append(f"<tr><td>{html.escape(key)}</td><td>{html.escape(words)}</td></tr>")
    return "<table>" + "\n".join(rows) + "</table>"
