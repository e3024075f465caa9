# SPDX-License-Identifier: Apache-2.0
"""Plots of a layer with matplotlib, which is imported here and nowhere else."""
from collections.abc import Iterable
from typing import TYPE_CHECKING, Callable, Optional

from .metrics import View

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def _points(values: Iterable[Optional[float]]) -> list[float]:
    return [float("nan") if v is None else v for v in values]


def _flops(axes: "Axes", view: View) -> None:
    rows = view.metrics.rows()
    for key, label in (("flops_total", "total"), ("flops_router", "router"),
                       ("flops_expert", "experts")):
        axes.plot([r["step"] for r in rows], _points(r[key] for r in rows), label=label)
    axes.legend()
    axes.set(title="FLOPs of a step", xlabel="step", ylabel="FLOPs")


def _latency(axes: "Axes", view: View) -> None:
    rows = view.metrics.rows()
    axes.plot([r["step"] for r in rows], _points(r["latency_ms"] for r in rows))
    axes.set(title="Router latency", xlabel="step", ylabel="ms")


def _k(axes: "Axes", view: View) -> None:
    rows = view.metrics.rows()
    axes.plot([r["step"] for r in rows], _points(r["k_avg"] for r in rows))
    axes.set(title="Experts of a token", xlabel="step", ylabel="mean k")


def _loads(axes: "Axes", view: View) -> None:
    loads = view.metrics.loads
    axes.imshow([loads], aspect="auto", cmap="YlOrRd")
    for expert, load in enumerate(loads):
        axes.text(expert, 0, str(load), ha="center", va="center")
    axes.set(title="Load of the experts", xlabel="expert", yticks=[])
    axes.set_xticks(range(len(loads)))


def _k_histogram(axes: "Axes", view: View) -> None:
    hist = view.metrics.k_hist
    hist = hist + [0] * (3 - len(hist))
    bars = axes.bar(range(len(hist)), hist)
    for k in range(3):
        axes.annotate(str(hist[k]), (bars[k].get_x() + bars[k].get_width() / 2, hist[k]),
                      ha="center", va="bottom")
    axes.set(title="Experts of a token", xlabel="k", ylabel="tokens")


KINDS: dict[str, Callable[["Axes", View], None]] = {
    "flops": _flops, "latency": _latency, "k": _k, "loads": _loads, "k_histogram": _k_histogram}


def draw(kind: str, view: View) -> "Figure":
    """A figure of one kind, or the sheet of FLOPs, latency, k and loads."""
    if kind != "sheet" and kind not in KINDS:
        raise ValueError(f"plot '{kind}' is not one of {', '.join([*KINDS, 'sheet'])}")
    import matplotlib.pyplot as pyplot
    if kind == "sheet":
        figure, grid = pyplot.subplots(2, 2, figsize=(12, 8))
        for axes, part in zip(grid.flat, (_flops, _latency, _k, _loads)):
            part(axes, view)
    else:
        figure, axes = pyplot.subplots(figsize=(10, 4))
        KINDS[kind](axes, view)
    figure.suptitle(view.key)
    figure.tight_layout()
    return figure
