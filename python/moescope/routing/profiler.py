# SPDX-License-Identifier: Apache-2.0
"""MoEProfiler: where the tokens of a model go, layer by layer and step by step."""
import sys
import warnings
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Optional, Union

from torch import nn

from .. import api, checks, errors, frames, runs
from .._types import Json, Path
from ..logs.live import SECONDS, Logs
from . import capture
from .detect import find_routers
from .metrics import COLUMNS, LayerProfile
from .samples import Watcher
from .session import Session, running_session

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy import ndarray
    from pandas import DataFrame

MODES = ("counts", "tokens")
_SUMMARY = [("steps", "total_steps"), ("tokens", "total_tokens_profiled"), ("k", "k_mean"),
            ("load cv", "expert_load_cv"), ("gini", "expert_load_gini"),
            ("entropy", "expert_load_entropy"), ("FLOPs/step", "flops_total_mean"),
            ("gate ms", "latency_mean_ms"), ("confidence of k", "router_confidence_k_mean")]


def _forget_compiled() -> None:
    """Code compiled by torch.compile does not notice new or removed hooks: it is recompiled."""
    dynamo = sys.modules.get("torch._dynamo")
    if dynamo is not None and dynamo.utils.counters:
        dynamo.reset()


class _State:
    """What must be undone, kept apart from the profiler so that collecting it undoes everything."""

    def __init__(self) -> None:
        self.held: list[runs.Recording] = []
        self.session: Optional[Session] = None
        self.watchers: list[Watcher] = []
        self.recording: Optional[runs.Recording] = None
        self.logs = Logs()

    def stop(self) -> None:
        session, self.session = self.session, None
        if session is None:
            return
        for site in session.sites:
            site.unwatch(self.watchers)
        session.owners -= 1
        if session.owners == 0:
            session.detach()
            _forget_compiled()
        if self.recording is not None:
            runs.release(self.recording)
            self.logs.finish()  # unless it has closed the run, and thereby ended them

    def dispose(self) -> None:
        self.stop()
        while self.held:
            self.held.pop().let_go()


class MoEProfiler:
    """Finds the routers of a model and records what they choose.

    mode: "counts" keeps the load of every expert in every step, "tokens" also the experts of each
    token. run: the run directory; None makes one that lives as long as this object, and under
    `moescope run` it is that run. routers, pattern: see find_routers. warmup_steps, sampling_rate:
    which steps; each of `wrappers` can be set separately. weights: also the router's weights, for
    its confidence; scores: in mode "tokens" also the full rows of probabilities. steps: "auto"
    makes each forward of the model a step unless the program calls moescope.step, "manual" leaves
    steps to the program from the beginning. max_tokens: tokens per layer and step kept individually
    on a CUDA device.
    """

    def __init__(self, model: nn.Module, mode: str = "counts", run: Optional[str] = None,
                 routers: Optional[Iterable[Union[str, nn.Module]]] = None,
                 pattern: Optional[str] = None, warmup_steps: int = 0, sampling_rate: int = 1,
                 weights: bool = True, scores: bool = False, steps: str = "auto",
                 max_tokens: int = 16384) -> None:
        if not isinstance(model, nn.Module):
            got = "None" if model is None else f"a {type(model).__name__}"
            raise TypeError(f"MoEProfiler got {got} as its model; give a torch.nn.Module")
        checks.one_of("mode", mode, MODES)
        checks.one_of("steps", steps, ("auto", "manual"))
        self._model = getattr(model, "_orig_mod", model)
        self._mode, self._weights = mode, weights
        self._scores = scores and mode == "tokens"
        self._manual, self._max_tokens = steps == "manual", max_tokens
        found = find_routers(self._model, routers, pattern)
        self.wrappers = [LayerProfile(r, self._manual, warmup_steps, sampling_rate) for r in found]
        self._wanted_run = run
        self._base: dict[runs.Recording, int] = {}
        self._closed = False
        self._state = _State()
        self._state.watchers = [w.watcher for w in self.wrappers]
        self._end = weakref.finalize(self, self._state.dispose)

    @property
    def run(self) -> str:
        """The run directory with the results; "" before the first start without a `run`."""
        where = self._state.recording
        return self._wanted_run or "" if where is None else where.kept or where.path

    @property
    def running(self) -> bool:
        return self._state.session is not None

    def _level(self) -> str:
        """On a device the recorder keeps what it was opened for, whatever the level; a higher one
        would only enable device records, which cost time and have nothing to do with routing."""
        if all(wrapper.router.device.startswith("cuda") for wrapper in self.wrappers):
            return "counts"
        return "full" if self._mode == "tokens" else "trace" if self._weights else "counts"

    def start(self) -> "MoEProfiler":
        """Starts capturing. A second start is harmless."""
        if self._closed:
            raise errors.ProfilerClosed("this profiler is closed; make a new MoEProfiler")
        if self.running:
            return self
        # Without its own run it continues where it was.
        where = runs.acquire(self._wanted_run or self.run or None, self._level(),
                             temporary=self._wanted_run is None)
        if where not in self._state.held:
            where.hold()
            self._state.held.append(where)
        try:
            self._state.recording = where
            self._state.session = self._attach(where)
        except BaseException:
            runs.release(where)
            raise
        self._state.logs.start(where.shard)
        return self

    def log_to(self, target: Any, *, seconds: float = SECONDS, first_step: int = 0,
               run_id: Optional[str] = None, every_step: bool = False) -> "MoEProfiler":
        """Writes the figures of each step to TensorBoard, W&B, MLflow or a function, from start to
        stop; see moescope.log_to. Returns the profiler."""
        where = self._state.recording if self.running else None
        self._state.logs.add(target, seconds, first_step, run_id, every_step,
                             where.shard if where else None)
        return self

    def _attach(self, where: runs.Recording) -> Session:
        session = running_session(self._model)
        if session is not None:
            known = {site.router.name: site for site in session.sites}
            if all(w.name in known for w in self.wrappers):
                for view in self.wrappers:
                    site = known[view.name]
                    site.watch(view.watcher)
                    view.place, view.session = (where, site.layer), session
                session.owners += 1
                return session
        if where not in self._base:
            self._base[where] = where.take_layers(len(self.wrappers))
        base = self._base[where]
        session = Session(self._model, where, self._manual,
                          self._max_tokens if self._mode == "tokens" else 0, self._weights)
        for view in self.wrappers:
            number = base + view.router.layer
            session.sites.append(capture.Site(session, view.router, number, view.watcher,
                                              self._weights, self._scores))
            view.place, view.session = (where, number), session
            api.info(f"moe layer {number}", f"{view.name} ({view.router.source})")
        _forget_compiled()
        session.attach()
        return session

    def stop(self) -> "MoEProfiler":
        """Stops capturing and restores the model."""
        session = self._state.session
        if session is None:
            return self
        silent = [s for s in session.sites if session.index > 0 and not s.recorded and not s.broken
                  and any(w.wants(i) for w in s.watchers for i in range(session.index))]
        broken = {site.router.name: site.broken for site in session.sites}
        for view in self.wrappers:
            view.not_captured = broken[view.name]
        self._state.stop()
        if silent:
            warnings.warn(
                f"MoE layer {silent[0].layer} ('{silent[0].router.name}')"
                + (f" and {len(silent) - 1} more" if len(silent) > 1 else "")
                + " recorded nothing: it did not run, or it ran in compiled code that cannot be "
                "listened to; profile without torch.compile", RuntimeWarning, stacklevel=2)
        return self

    def close(self) -> None:
        """Stops, and removes a temporary run."""
        self.stop()
        self._closed = True
        self._end()

    def __enter__(self) -> "MoEProfiler":
        return self.start()

    def __exit__(self, kind: object, *_exc: object) -> None:
        if kind is not None:
            self._state.stop()  # the model's own exception says what is wrong
        self.stop()

    def _check_open(self) -> None:
        if self._closed:
            raise errors.ProfilerClosed("this profiler is closed and its figures with it; read "
                                        "them before close()")

    def get_metrics(self) -> Json:
        """{"layer_0": metrics, …}; each has to_df()."""
        self._check_open()
        return {view.key: view.metrics for view in self.wrappers}

    def token_experts(self, layer: int = 0) -> dict[int, "ndarray"]:
        """With mode="tokens": {step: numpy array [tokens, k]}, the experts of each token."""
        self._check_open()
        if not 0 <= layer < len(self.wrappers):
            raise ValueError(f"layer {layer} is not one of 0 to {len(self.wrappers) - 1}")
        return self.wrappers[layer].metrics.token_experts()

    def to_df(self) -> Union[frames.Rows, "DataFrame"]:
        """All layers in one table."""
        self._check_open()
        return frames.frame([row for v in self.wrappers for row in v.metrics.rows()], COLUMNS)

    def save_csv(self, path: Path) -> None:
        """One line per layer and step."""
        self.to_df().to_csv(path, index=False)

    def _table(self) -> list[list[object]]:
        self._check_open()
        rows = []
        for view in self.wrappers:
            figures = view.get_summary()
            rows.append([view.key, view.name, *(figures[key] for _, key in _SUMMARY)])
        return rows

    def print_summary(self) -> None:
        """One line per layer."""
        print(frames.text_table(["layer", "name", *(title for title, _ in _SUMMARY)],
                                self._table()))
        for view in self.wrappers:
            if view.not_captured:
                print(f"{view.key}: not captured: {view.not_captured}")

    def _repr_html_(self) -> str:
        return frames.html_table(["layer", "name", *(t for t, _ in _SUMMARY)], self._table())

    def plot(self, kind: str = "sheet", layer: int = 0) -> "Figure":
        """A matplotlib figure: flops, latency, k, loads, k_histogram or sheet."""
        from . import plots
        self._check_open()
        if not 0 <= checks.whole("layer", layer) < len(self.wrappers):
            raise IndexError(f"layer {layer} is not one of the model's {len(self.wrappers)} MoE "
                             f"layers; give 0 to {len(self.wrappers) - 1}")
        return plots.draw(kind, self.wrappers[layer])
