# SPDX-License-Identifier: Apache-2.0
"""profile: torch.profiler.profile's shape, over a run of moescope.

The run has steps, phases, ranges and operations, read by `moescope report`, `steps`, `ops` and
`export`; other parts of moescope add routing and device work to it. With profile_memory it also has
the allocator's history if there is a CUDA device (memory/history.py). torch collects the operations
(operations.py), and they go into the run when their window closes (into_run.py). key_averages()
shows what torch has of them, with memory and stacks, which have no place in the run.
"""
import json
import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Callable, Optional

from .. import _library as lib
from .. import api, checks, errors, runs
from ..logs.live import SECONDS, Logs
from ..memory.allocator import cuda
from ..memory.history import record_memory
from . import into_run, operations
from .events import Averages
from .export import TraceFile, json_for_torch, name_run
from .phases import Phases
from .ranges import annotated
from .schedule import ProfilerAction

if TYPE_CHECKING:
    from torch.autograd.profiler_util import EventList
    from torch.profiler import profile as TorchProfile

_RECORDED = (ProfilerAction.RECORD.value, ProfilerAction.RECORD_AND_SAVE.value)


class profile:
    """Records operations, phases and steps; use it like torch.profiler.profile.

    `run` is the run directory to write; by default a new one in the current directory. If a run is
    already being written, it continues and gets the records of both. A run started here ends with
    the last one who records into it.
    """

    def __init__(self, *, activities: Optional[Iterable[Any]] = None,
                 schedule: Optional[Callable[[int], Any]] = None,
                 on_trace_ready: Optional[Callable[["profile"], object]] = None,
                 record_shapes: bool = False, profile_memory: bool = False,
                 with_stack: bool = False, with_flops: bool = False, with_modules: bool = False,
                 acc_events: bool = False, run: Optional[str] = None) -> None:
        self.on_trace_ready = on_trace_ready
        self.flags = {"record_shapes": record_shapes, "profile_memory": profile_memory,
                      "with_stack": with_stack, "with_flops": with_flops,
                      "with_modules": with_modules}
        self.run: Optional[str] = run
        self._named = run is not None
        self._collector = operations.collector(activities, schedule, self._trace_ready, self.flags,
                                               acc_events)
        self._trace = TraceFile(self._collector)  # of the last window
        self._phases = Phases()
        self._memory = record_memory() if profile_memory else None
        self._metadata: dict[str, str] = {}  # JSON, for the run that is not open yet
        self._started = False
        self._recording: Optional[runs.Recording] = None
        self._step_of_run = 0
        self._logs = Logs()

    @property
    def step_num(self) -> int:
        """Steps that have ended since the profiler was created."""
        return int(self._collector.step_num)

    @property
    def current_action(self) -> ProfilerAction:
        return ProfilerAction(self._collector.current_action.value)

    def start(self) -> None:
        """Starts with step 0. A second start changes nothing."""
        if self._started:
            return
        operations.check_free()
        self._open_run()
        name_run(self._collector, self.run)
        for key, value in self._metadata.items():
            api.info(key, value)
        try:
            self._collector.start()
        except BaseException:
            self._close_run()
            raise
        self._started = api.stepping = True  # steps are made here, not by others in the run
        self._begin_step()
        if self._recording is not None:
            self._logs.start(self._recording.shard)

    def log_to(self, target: Any, *, seconds: float = SECONDS, first_step: int = 0,
               run_id: Optional[str] = None, every_step: bool = False) -> None:
        """Writes the figures of each step to TensorBoard, W&B, MLflow or a function, from start to
        stop; see moescope.log_to."""
        recorded = self._recording if self._started else None
        self._logs.add(target, seconds, first_step, run_id, every_step,
                       recorded.shard if recorded else None)

    def step(self, tokens: int = 0) -> None:
        """One step has ended, the next begins; it processed `tokens`, 0: unknown.

        on_trace_ready runs between the two steps.
        """
        if not self._started:
            raise errors.ProfilerClosed("the profiler is not running; call start() or use 'with'")
        self._phases.remove()
        lib.load().moescope_step_end(tokens)
        self._with_memory("note")
        self._collector.step()
        self._begin_step()

    def stop(self) -> None:
        """Ends recording; the program is as it was before start()."""
        if not self._started:
            return
        self._started = api.stepping = False
        self._phases.remove()
        if self.step_num == 0:  # no step() in the whole block: the block is the step
            lib.load().moescope_step_end(0)
        else:  # what began with the last step() is not a step
            lib.load().moescope_step_cancel()
        try:
            self._collector.stop()
        finally:
            self._with_memory("stop")
            self._close_run()

    def __enter__(self) -> "profile":
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def events(self) -> "EventList":
        """Each operation with its times: torch's EventList."""
        self._check_recorded()
        return self._collector.events()

    def key_averages(self, group_by_input_shape: bool = False,
                     group_by_stack_n: int = 0) -> Averages:
        """Operations of the last recorded window, summed by name; with acc_events, of all windows
        so far."""
        self._check_recorded()
        if group_by_input_shape and not self.flags["record_shapes"]:
            raise ValueError("shapes were not recorded; use profile(record_shapes=True)")
        if group_by_stack_n and not self.flags["with_stack"]:
            raise ValueError("stacks were not recorded; use profile(with_stack=True)")
        return Averages(self._collector.key_averages(group_by_input_shape, group_by_stack_n),
                        self.flags, group_by_input_shape, group_by_stack_n)

    def export_chrome_trace(self, path: str) -> None:
        """The last window as trace-event JSON, compressed if the name ends with .gz."""
        self._check_recorded()
        self._trace.write(path)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Folded stacks for flame graphs."""
        self._check_recorded()
        if not self.flags["with_stack"]:
            raise ValueError("stacks were not recorded; use profile(with_stack=True)")
        self._collector.export_stacks(path, metric)

    def export_memory_timeline(self, path: str, device: Optional[str] = None) -> None:
        """Memory by category over time, as in torch: .html, .json, .json.gz or .raw.json.gz.

        Needs record_shapes, profile_memory and with_stack.
        """
        self._check_recorded()
        missing = [name for name in ("record_shapes", "profile_memory", "with_stack")
                   if not self.flags[name]]
        if missing:
            raise ValueError("a timeline of memory needs what was not recorded; use profile("
                             + ", ".join(f"{name}=True" for name in missing) + ")")
        if not hasattr(self._collector, "export_memory_timeline"):
            raise errors.NotCaptured("this version of torch has no timeline of memory; 'moescope "
                                     "memory' and 'moescope plot' show that of the run")
        self._collector.export_memory_timeline(path, device)

    def add_metadata(self, key: str, value: str) -> None:
        """A text for the trace files and for the run, where it is a fact in the report."""
        self._add_metadata(key, checks.text("value", value), json.dumps(value))

    def add_metadata_json(self, key: str, value: str) -> None:
        """The same with a value that is JSON itself."""
        try:
            json.loads(checks.text("value", value))
        except ValueError as why:
            raise ValueError(f"the value of '{key}' is no JSON ({why}); use json.dumps, or "
                             "add_metadata for a plain text") from None
        self._add_metadata(key, value, value)

    def preset_metadata_json(self, key: str, value: str) -> None:
        """add_metadata_json by another name: either may be called before start()."""
        self.add_metadata_json(key, value)

    def toggle_collection_dynamic(self, enable: bool, activities: Iterable[Any]) -> None:
        """Turns operations (CPU) or device work (CUDA) of torch's collector on or off from here on;
        the device work that moescope itself records continues."""
        found = operations.activities_of_torch(activities)
        if self._collector.profiler is not None:
            self._collector.toggle_collection_dynamic(enable, found)

    def _add_metadata(self, key: str, fact: str, value: str) -> None:
        """torch forgets what comes while it does not record, unless it was given before."""
        value = json_for_torch(value)
        self._collector.preset_metadata_json(checks.text("key", key), value)
        if not self._started:
            self._metadata[key] = fact
            return
        api.info(key, fact)
        if self._collector.profiler is not None:
            self._collector.add_metadata_json(key, value)

    def _repr_html_(self) -> str:
        if self._collector.profiler is None or self._started:
            return f"<p>moescope profile, run {self.run or 'not started'}: no window closed yet</p>"
        return self.key_averages()._repr_html_()

    def _trace_ready(self, collector: "TorchProfile") -> None:
        self._trace = TraceFile(collector)
        into_run.write(collector.profiler.kineto_results.events(), annotated, self._phases.spans)
        self._phases.spans.clear()
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def _check_recorded(self) -> None:
        inner = self._collector.profiler
        if inner is None or inner.kineto_results is None:
            raise errors.NotCaptured("no recorded step has ended yet; call this in on_trace_ready "
                                     "or after stop(), and see that the schedule has active steps")

    def _begin_step(self) -> None:
        library = lib.load()
        recorded = self._collector.current_action.value in _RECORDED
        if self._recording is not None:
            self._recording.pause(not recorded)
        if recorded:
            self._phases.install()
            if cuda():  # from the first recorded step on which there is a device
                self._with_memory("start")
        library.moescope_step_begin(self._step_of_run)
        self._step_of_run += 1

    def _with_memory(self, call: str) -> None:
        """The allocator's history is torch's own business and differs between versions: if it
        fails, the program and the other records continue without it."""
        if self._memory is None:
            return
        try:
            getattr(self._memory, call)()
        except Exception as why:
            self._memory = None
            warnings.warn(f"moescope: no history of the allocator from here on: {why}", stacklevel=2)

    def _open_run(self) -> None:
        self._recording = runs.acquire(self.run, "trace", named=self._named)
        self.run = self._recording.kept or self._recording.path or None
        self._step_of_run = max(self._step_of_run, lib.load().moescope_current_step() + 1)

    def _close_run(self) -> None:
        if self._recording is not None:
            self._recording.pause(False)
            runs.release(self._recording)
            self._recording = None
            self._logs.finish()
