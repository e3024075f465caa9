# SPDX-License-Identifier: Apache-2.0
"""What was captured of one layer, read back from the run.

Counts come from the run through `moescope routing RUN --json --layer N`; latency, memory and wall
time come from this process, which alone knows them.
"""
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Optional, Union

from .. import errors, frames
from .._types import Json
from ..runs import Recording, series, token_experts
from . import summary
from .samples import Watcher

if TYPE_CHECKING:
    from numpy import ndarray
    from pandas import DataFrame

    from .detect import Router
    from .session import Session

COLUMNS = ["step", "flops_total", "flops_router", "flops_expert", "active_experts", "k_avg",
           "latency_ms", "router_conf", "memory_mb", "timestamp", "device", "layer"]


class RouterMetrics:
    """The steps of one layer. Figures are read from the run on demand."""

    def __init__(self, view: "View") -> None:
        self._view = view
        self._read: tuple[Any, list[Json]] = (None, [])

    def _series(self) -> list[Json]:
        view = self._view
        source = view.source()
        if source is None:
            return []
        steps = view.watcher.samples
        recording, layer, manual = source
        key = (source, len(steps), max(steps, default=-1), view.first_row, recording.version())
        if self._read[0] != key:
            if manual:
                rows = series(recording, layer, None)[view.first_row:]
            else:
                rows = series(recording, layer, set(steps)) if steps else []
            self._read = (key, rows)
        return self._read[1]

    def rows(self) -> list[Json]:
        """One dictionary per step, with the columns of the CSV."""
        rows = []
        for one in self._series():
            sample = self._view.watcher.samples.get(one["step"]) if not self._view.manual else None
            router, expert = one["flops_router"], one["flops_expert"]
            rows.append({
                "step": one["step"],
                "flops_total": None if router is None or expert is None else router + expert,
                "flops_router": router, "flops_expert": expert,
                "active_experts": sum(1 for n in one["load"] if n), "k_avg": one["k_mean"],
                "latency_ms": sample.latency_ms if sample else None,
                "router_conf": one["router_confidence"],
                "router_conf_k": one["router_confidence_k"],
                "memory_mb": sample.memory_mb if sample else None,
                "timestamp": sample.time if sample else None,
                "device": sample.device if sample else self._view.device,
                "layer": self._view.key,
            })
        return rows

    @property
    def loads(self) -> list[int]:
        rows = self._series()
        size = max((len(row["load"]) for row in rows), default=self._view.num_experts)
        return [sum(row["load"][e] for row in rows if e < len(row["load"])) for e in range(size)]

    @property
    def expert_loads(self) -> dict[int, int]:
        """Assignments by expert, including experts that got none."""
        return dict(enumerate(self.loads))

    @property
    def k_hist(self) -> list[int]:
        rows = self._series()
        size = max((len(row["k_hist"]) for row in rows), default=0)
        return [sum(row["k_hist"][k] for row in rows if k < len(row["k_hist"]))
                for k in range(size)]

    @property
    def k_distribution(self) -> list[list[int]]:
        """For every step the number of experts of each of its tokens. Within a step they are
        ascending, not in token order: the run keeps their histogram."""
        return [[k for k, n in enumerate(row["k_hist"]) for _ in range(n)]
                for row in self._series()]

    def token_experts(self) -> dict[int, "ndarray"]:
        """{step: numpy array [tokens, k]} of a profiler with mode="tokens": the experts of each
        token in token order; -1 in padding rows, -2 in slots that a token did not use, -3 if the
        expert was full."""
        source, steps = self._view.source(), [row["step"] for row in self._series()]
        if source is None or not steps:
            return {}
        found = token_experts(source[0], source[1])
        if not found:
            raise errors.NotCaptured("the experts of each token were not kept; give the profiler "
                                     'mode="tokens"')
        return {step: found[step] for step in steps if step in found}

    @property
    def device(self) -> str:
        return self._view.watcher.samples.device or self._view.device

    def to_df(self) -> Union[frames.Rows, "DataFrame"]:
        """A pandas DataFrame, or a list of dictionaries without pandas."""
        return frames.frame(self.rows(), COLUMNS)

    def _repr_html_(self) -> str:
        return frames.html_table(COLUMNS, ([row[c] for c in COLUMNS] for row in self.rows()))


class View:
    """What a user sees of a layer: its figures, and which steps are watched."""

    key = "layer_0"
    num_experts = 0
    manual = False
    hidden_dim: Optional[int] = None
    expert_dim: Optional[int] = None
    device = "cpu"
    first_row = 0
    watcher: Watcher
    metrics: "RouterMetrics"

    def source(self) -> Optional[tuple[Recording, int, bool]]:
        """(run, number of the layer in it, steps are the program's own), or None before any."""
        raise NotImplementedError

    @property
    def warmup_steps(self) -> int:
        """Steps at the start that are not captured."""
        return self.watcher.warmup_steps

    @warmup_steps.setter
    def warmup_steps(self, steps: int) -> None:
        if steps < 0:
            raise ValueError("warmup_steps is 0 or more")
        self.watcher.set(steps, self.watcher.sampling_rate)

    @property
    def sampling_rate(self) -> int:
        """Every n-th step is captured."""
        return self.watcher.sampling_rate

    @sampling_rate.setter
    def sampling_rate(self, rate: int) -> None:
        if rate < 1:
            raise ValueError("sampling_rate is 1 or more: 10 captures every tenth step")
        self.watcher.set(self.watcher.warmup_steps, rate)

    def get_summary(self) -> Json:
        """Statistics over the captured steps; None for what was not measured."""
        metrics = self.metrics
        return summary.summarise(metrics.rows(), metrics.loads, metrics.k_hist)

    def reset_metrics(self) -> None:
        """Forgets the steps so far."""
        if self.manual:
            self.first_row += len(self.metrics._series())
        self.watcher.samples.clear()

    def _calculate_gini_coefficient(self, loads: Sequence[float]) -> Optional[float]:
        return summary.gini(loads)

    def _calculate_entropy(self, loads: Sequence[float]) -> Optional[float]:
        return summary.entropy(loads)

    def _calculate_cv(self, loads: Sequence[float]) -> Optional[float]:
        return summary.cv(loads)


class LayerProfile(View):
    """One MoE layer of a profiled model."""

    def __init__(self, router: "Router", manual: bool, warmup_steps: int, sampling_rate: int) -> None:
        self.router, self._manual = router, manual
        self.session: Optional[Session] = None
        self.watcher = Watcher()
        self.warmup_steps, self.sampling_rate = warmup_steps, sampling_rate
        self.key, self.name = f"layer_{router.layer}", router.name
        found = router.found
        self.num_experts, self.top_k = found.experts, found.k or None
        self.hidden_dim, self.expert_dim = found.sizes.hidden or None, found.sizes.inner or None
        self.device = router.device
        self.metrics = RouterMetrics(self)
        self.place: Optional[tuple[Recording, int]] = None
        self.not_captured = ""

    @property
    def manual(self) -> bool:  # type: ignore[override]
        """Steps are not made here: the program makes them, or the replays of a CUDA graph."""
        session = self.session
        return self._manual or (session is not None and (session.others or session.graphs))

    def source(self) -> Optional[tuple[Recording, int, bool]]:
        if self.session is not None:
            self.session.fetch()
        return None if self.place is None else (*self.place, self.manual)
