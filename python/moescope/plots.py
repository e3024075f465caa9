# SPDX-License-Identifier: Apache-2.0
"""Plots with matplotlib, which is imported when one is drawn and never before.

Figures are made without pyplot: the program's own figures, backend and display stay unchanged.
"""
import importlib.util
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Optional

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

BLUE, ORANGE, GREEN, RED, GREY = "#2f6db5", "#d9822b", "#3c8d40", "#c23b35", "#8a8a8a"


def available() -> bool:
    return importlib.util.find_spec("matplotlib") is not None


def figure(width: float = 9.0, height: float = 4.5) -> tuple["Figure", "Axes"]:
    """A figure with one pair of axes, and the axes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    fig = Figure(figsize=(width, height), dpi=120, constrained_layout=True)
    FigureCanvasAgg(fig)
    axes = fig.add_subplot()
    axes.grid(True, axis="y", color="#dddddd", linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return fig, axes


def memory_usage(samples: Sequence[Any], path: str) -> None:
    """Live, reserved and peak memory over time; samples as in gpu_profiler.statistics.Sample."""
    first = samples[0].timestamp
    seconds = [sample.timestamp - first for sample in samples]
    largest = max(max(s.peak_bytes, s.reserved_bytes or 0) for s in samples)
    unit, name = (1e9, "GB") if largest >= 1e9 else (1e6, "MB") if largest >= 1e6 else (1e3, "kB")
    span = seconds[-1]
    scale, time_name = (1e3, "ms") if span < 1 else (1.0, "s")
    at = [s * scale for s in seconds]
    fig, axes = figure()
    axes.step(at, [s.allocated_bytes / unit for s in samples], where="post", color=BLUE,
              linewidth=1.8, label="allocated")
    axes.fill_between(at, [s.allocated_bytes / unit for s in samples], step="post", color=BLUE,
                      alpha=0.15, linewidth=0)
    if any(s.reserved_bytes is not None for s in samples):
        axes.step(at, [_or_nan(s.reserved_bytes, unit) for s in samples], where="post",
                  color=ORANGE, linewidth=1.5, label="reserved")
    axes.step(at, [s.peak_bytes / unit for s in samples], where="post", color=GREY,
              linestyle="--", linewidth=1.2, label="peak so far")
    axes.set_ylim(bottom=0)
    axes.set_title("Memory over time")
    axes.set_xlabel(f"time since the first sample ({time_name})")
    axes.set_ylabel(f"memory ({name})")
    axes.legend(loc="best", frameon=False)
    fig.savefig(path)


def expert_utilization(percent: Sequence[float], path: str) -> None:
    """Each expert's share of the assignments, with the mean and the limits of low and high."""
    n = len(percent)
    mean = 100.0 / n
    fig, axes = figure(width=min(18.0, max(7.0, 0.3 * n + 3)))
    colors = [RED if p > 1.5 * mean else ORANGE if p < 0.5 * mean else BLUE for p in percent]
    axes.bar(range(n), percent, color=colors, width=0.8)
    axes.axhline(mean, color=GREY, linestyle="--", linewidth=1.2)
    axes.set_title("Share of the tokens of each expert")
    axes.set_xlabel("expert")
    axes.set_ylabel("assignments (%)")
    axes.set_xlim(-0.7, n - 0.3)
    axes.set_ylim(0, max(1.25 * max(percent), 1.6 * mean))
    if n <= 32:
        axes.set_xticks(range(n))
        for expert, p in enumerate(percent):
            axes.annotate(f"{p:.1f}" if n <= 16 else f"{p:.0f}", (expert, p), ha="center",
                          va="bottom", fontsize=8)
    axes.legend(handles=_legend(colors, mean), loc="upper right", frameon=False, fontsize=9,
                ncol=2)
    fig.savefig(path)


def _legend(colors: list[str], mean: float) -> list["Line2D"]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Line2D] = [Line2D([], [], color=GREY, linestyle="--",
                                 label=f"even share, {mean:.1f}%")]
    for color, words in ((RED, "over 1.5 times"), (ORANGE, "under half"),
                         (BLUE, "half to 1.5 times")):
        if color in colors:
            handles.append(Patch(color=color, label=words))
    return handles


def _or_nan(value: Optional[int], unit: float) -> float:
    return float("nan") if value is None else value / unit
