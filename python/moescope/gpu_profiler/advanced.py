# SPDX-License-Identifier: Apache-2.0
"""AdvancedGPUProfiler: the program reports allocations, kernels, transfers and routing by calls.

Every report goes to the C library, into a run inside the output directory that the moescope tool
reads, and into live figures that any thread can query at any time. Without CUDA, NVML or matplotlib
it works with what there is and says what is missing. One lock guards the figures; a thread samples
PyTorch's allocator and keeps its own cost below 1%.
"""
import functools
import logging
import os
import sys
import threading
import time
import warnings
from collections import deque
from typing import TYPE_CHECKING, Any, Callable, Optional

from .. import _library as lib
from .. import api, checks, errors, runs
from .._types import Function, Json
from ..memory import allocator
from . import dashboard, indices, reports
from .memory_figures import memory_summary
from .statistics import (
    Allocations,
    Execution,
    Executions,
    LeakSuspects,
    LeakWatch,
    Routings,
    Sample,
    Transfers,
)
from .timing import Clock, Timed

if TYPE_CHECKING:
    from torch import Tensor

_log = logging.getLogger("moescope.gpu_profiler")
SAMPLE_S = 0.5
TORCH_SITE = "PyTorch's allocator, device"


class AdvancedGPUProfiler:
    """A profiler that the program reports to.

    num_experts: experts per layer, at most 32768. enable_profiling: if False, every call is a
    no-op. output_dir: where the reports and the run go. max_history: how many samples, kernel
    executions and routings are kept individually; sums cover all. level: how much of it goes into
    the run (counts, steps, trace, full).
    """

    def __init__(self, num_experts: int = 8, enable_profiling: bool = True,
                 output_dir: str = "profiler_output", max_history: int = 1000,
                 level: str = "trace") -> None:
        num_experts = checks.whole("num_experts", num_experts, None)
        if not 1 <= num_experts <= 32768:
            raise errors.BadDimensions(f"num_experts is {num_experts}; give the number of experts "
                                       "of a layer, from 1 to 32768")
        if checks.whole("max_history", max_history, None) < 1:
            raise errors.BadDimensions(f"max_history is {max_history}; give 1 or more")
        checks.one_of("level", level, api.LEVELS)
        self.num_experts = num_experts
        self.enable_profiling = enable_profiling
        self.output_dir = output_dir
        self.max_history = max_history
        self.level = level
        self.debug = False
        self.run: Optional[str] = None  # the run directory, once started
        self.report_files: dict[str, str] = {}
        self._lock = threading.RLock()
        self._active = False
        self._quit = threading.Event()
        self._sampler: Optional[threading.Thread] = None
        self._started = self._stopped = 0.0
        self._reset()

    def _reset(self) -> None:
        self._allocations = Allocations(self.num_experts)
        self._executions = Executions(self.max_history)
        self._transfers = Transfers()
        self._routings = Routings(self.num_experts, self.max_history)
        self._memory: deque[Sample] = deque(maxlen=self.max_history)
        self._leaks = LeakWatch()
        self._clock = Clock(self.max_history)
        self._arriving: deque[Any] = deque()

    # ------------------------------------------------------------- life

    @property
    def is_profiling(self) -> bool:
        return self._active

    def start_profiling(self) -> None:
        """Starts recording. If already started, does nothing. After a stop, figures start from
        zero."""
        with self._lock:
            if self._active or not self.enable_profiling:
                return
            os.makedirs(self.output_dir, exist_ok=True)
            self._recording = runs.acquire(_fresh_run(self.output_dir), self.level,
                                                named=False)
            self.run = self._recording.kept or self._recording.path
            self._layers: dict[int, int] = {}  # the caller's number: the run's
            self._library = lib.load()
            self._reset()
            self._started, self._stopped = time.time(), 0.0
            self._active = True
            self._quit.clear()
            self._sampler = threading.Thread(target=self._sample_for_ever, daemon=True,
                                             name="moescope-memory")
            self._sampler.start()
        self._say(f"recording into {self.run}"
                  + ("" if allocator.cuda() else "; " + allocator.why_no_cuda()))

    def stop_profiling(self) -> dict[str, str]:
        """Stops, and writes the reports; returns their paths by kind. If already stopped, does
        nothing."""
        with self._lock:
            if not self._active:
                return {}
            self._sample()
            self._arrived(wait=True)
            self._clock.collect(wait=True)
            self._active = False
            self._stopped = time.time()
            sampler, self._sampler = self._sampler, None
            self._quit.set()
            runs.release(self._recording)
        if sampler is not None and sampler is not threading.current_thread():
            sampler.join()
        return self.generate_reports()

    def __enter__(self) -> "AdvancedGPUProfiler":
        self.start_profiling()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None:
            self.stop_profiling()
            return
        try:
            self.stop_profiling()
        except Exception as why:  # the program's own exception must be the visible one
            warnings.warn(f"moescope: the profiler could not write its reports: {why}",
                          RuntimeWarning, stacklevel=2)

    # ---------------------------------------------------------- reports

    def profile_memory_allocation(self, size_bytes: int, expert_id: Optional[int] = None,
                                  operation: str = "unknown") -> None:
        """The program has allocated `size_bytes` for this expert and operation."""
        if not self._active:
            return
        expert = self._expert(expert_id)
        size = _size(size_bytes)
        checks.text("operation", operation)
        with self._lock:
            address = self._allocations.add(size, expert, operation)
            self._library.moescope_alloc(
                address, size, -1, lib.MEMORY_USES.get(operation, 0),
                api.intern(Allocations.site(expert, operation)))
            self._note_reported()
        self._say(f"allocated {size} bytes, {Allocations.site(expert, operation)}")

    def profile_memory_deallocation(self, size_bytes: int, expert_id: Optional[int] = None,
                                    operation: str = "unknown") -> None:
        """The program has freed what it reported with the same size, expert and operation."""
        if not self._active:
            return
        expert = self._expert(expert_id)
        size = _size(size_bytes)
        checks.text("operation", operation)
        with self._lock:
            for address in self._allocations.remove(size, expert, operation):
                self._library.moescope_free(address, -1)
            self._note_reported()

    def profile_kernel_execution(self, kernel_name: str, expert_id: Optional[int] = None,
                                 operation_type: str = "unknown") -> Timed:
        """Counts an execution; used with `with`, times the body and makes it a range of the run.

        Called plainly, its time stays unknown: the profiler does not know when the work began.
        """
        if not self._active:
            return Timed()
        execution = Execution(checks.text("kernel_name", kernel_name), self._expert(expert_id),
                              checks.text("operation_type", operation_type))
        with self._lock:
            calls = self._executions.begin(execution)
        self._library.moescope_counter(f"executions of {kernel_name}".encode(errors="replace"),
                                       calls)

        def done(ms: float) -> None:
            with self._lock:
                self._executions.time(execution, ms)
        return self._timed(kernel_name, execution.expert, operation_type, done)

    def profile_data_transfer(self, size_bytes: int, transfer_type: str) -> Timed:
        """Bytes moved: host_to_device, device_to_host, device_to_device, or another word.

        Used with `with`, it times the body, which gives the bandwidth.
        """
        if not self._active:
            return Timed()
        size = _size(size_bytes)
        checks.text("transfer_type", transfer_type)
        with self._lock:
            total = self._transfers.add(transfer_type, size)
        self._library.moescope_counter(f"{transfer_type} bytes".encode(errors="replace"), total)

        def done(ms: float) -> None:
            with self._lock:
                self._transfers.time(transfer_type, size, ms, allocator.cuda() is not None)
        return self._timed(transfer_type, None, "transfer", done)

    def profile_expert_routing(self, expert_indices: Any, token_count: int,
                               layer: int = 0) -> None:
        """Where `token_count` tokens went.

        expert_indices: one expert per token and slot, row by row (list, array or tensor); or, if
        there are fewer than tokens, the experts that all of them went to. A CUDA tensor is fetched
        without waiting.
        """
        if not self._active:
            return
        tokens = checks.whole("token_count", token_count, None)
        layer = checks.whole("layer", layer)
        if indices.on_device(expert_indices):
            self._fetch(expert_indices, tokens, layer)
        else:
            self._route(expert_indices, tokens, layer)

    def step(self, tokens: int = 0) -> None:
        """One iteration ends here. Leak detection compares steps."""
        if not self._active:
            return
        tokens = checks.whole("tokens", tokens)
        with self._lock:
            self._arrived()
            live = dict(self._allocations.site_bytes)
            device = allocator.counts()
            if device["allocated_bytes"] is not None:
                live[f"{TORCH_SITE} {device['device']}"] = device["allocated_bytes"]
            self._leaks.step(live)
            api.step(tokens)

    # ---------------------------------------------------------- results

    def get_current_stats(self) -> Json:
        """memory, kernel, data_movement and expert_routing, as of now.

        An unknown value is None, with the reason in a key with the suffix `_reason`.
        """
        with self._lock:
            if self._active:
                self._arrived()
                self._clock.collect()
            return {"memory": memory_summary(self._allocations, self._leaks.suspects()),
                    "kernel": dict(self._executions.summary(), lost_times=self._clock.lost),
                    "data_movement": self._transfers.summary(),
                    "expert_routing": self._routings.summary()}

    def detect_memory_leaks(self) -> LeakSuspects:
        """Sites whose live bytes grew in 8 of the last 10 steps, and by over 1% in total.

        Empty and `.known` False, with a `.reason`, before eleven calls of step().
        """
        with self._lock:
            return self._leaks.suspects()

    def print_dashboard(self) -> None:
        print(dashboard.text(self.get_current_stats()))

    def generate_reports(self) -> dict[str, str]:
        """Writes JSON, CSV and plots into the output directory; returns their paths by kind."""
        if not self.enable_profiling:
            return {}
        stats = self.get_current_stats()
        with self._lock:
            histories = reports.Histories(list(self._memory), list(self._executions.history),
                                          list(self._routings.history), self.num_experts)
            duration = (self._stopped or time.time()) - self._started if self._started else 0.0
            closed = self.run if self.run and api.run_dir() is None else None
        self.report_files = reports.write(self.output_dir, stats, duration, histories, closed,
                                          self.run)
        for path in self.report_files.values():
            self._say(f"wrote {path}")
        return self.report_files

    # ----------------------------------------------------------- inside

    def _say(self, words: str) -> None:
        if self.debug:
            print(f"moescope: {words}", file=sys.stderr)
        _log.debug(words)

    def _expert(self, expert: Optional[int]) -> Optional[int]:
        if expert is None:
            return None
        number = checks.whole("expert_id", expert, None)
        if not 0 <= number < self.num_experts:
            raise errors.BadDimensions(f"expert_id {expert} is not one of {self.num_experts} "
                                       "experts; give num_experts to the profiler")
        return number

    def _timed(self, name: str, expert: Optional[int], operation: str,
               done: Callable[[float], None]) -> Timed:
        library = self._library

        def begin() -> Any:
            library.moescope_range_begin(api.intern(name), -1, -1 if expert is None else expert,
                                         api.PHASES.get(operation, lib.NO_PHASE))
            return self._clock.begin()

        def end(begun: Any) -> None:
            with self._lock:
                self._clock.end(begun, done)
            library.moescope_range_end()
        return Timed(begin, end)

    def _route(self, chosen: Any, tokens: int, layer: int) -> None:
        *counts, invalid = indices.count(chosen, tokens, self.num_experts)
        with self._lock:
            if layer not in self._layers:  # a MoEProfiler may have that number in this run
                self._layers[layer] = self._recording.take_layer(layer)
                if self._layers[layer] != layer:
                    api.info(f"moe layer {self._layers[layer]}", f"AdvancedGPUProfiler layer {layer}")
            number = self._layers[layer]
        indices.route(self._library, chosen, tokens, self.num_experts, number)
        with self._lock:
            self._routings.add(tokens, counts, invalid)

    def _fetch(self, tensor: "Tensor", tokens: int, layer: int) -> None:
        indices.slots_of(tensor.numel(), tokens)  # bad input is rejected here, not later
        device = allocator.cuda()
        with self._lock:
            if len(self._arriving) >= self.max_history:
                self._arrived()
            if len(self._arriving) >= self.max_history or (
                    device is not None and device.is_current_stream_capturing()):
                self._routings.lost += 1
                return
            self._arriving.append((indices.Waiting(tensor, tokens), layer))

    def _arrived(self, wait: bool = False) -> None:
        """Takes the routing that the device has delivered, in order."""
        while self._arriving:
            waiting, layer = self._arriving[0]
            if wait:
                waiting.wait()
            elif not waiting.ready():
                return
            self._arriving.popleft()
            self._route(waiting.host, waiting.tokens, layer)

    def _note_reported(self) -> None:
        """A history row per report, if PyTorch has no account of its own."""
        if allocator.cuda() is None:
            self._memory.append(Sample(time.time(), self._allocations.live_bytes, None,
                                       self._allocations.peak_bytes, None))

    def _sample(self) -> None:
        if allocator.cuda() is None:
            return
        found = allocator.memory_snapshot()
        self._memory.append(Sample(time.time(), found["allocated_bytes"], found["reserved_bytes"],
                                   found["peak_allocated_bytes"], found["fragmentation_pct"]))
        for name in ("allocated_bytes", "reserved_bytes"):
            api.counter(f"torch {name}", found[name])

    def _sample_for_ever(self) -> None:
        pause = SAMPLE_S
        while not self._quit.wait(pause):
            begun = time.perf_counter()
            with self._lock:
                if not self._active:
                    return
                self._sample()
                self._arrived()
                self._clock.collect()
            pause = max(SAMPLE_S, 100 * (time.perf_counter() - begun))


class ProfilerContext:
    """`with ProfilerContext(profiler) as p:` starts it, and at the end stops it and writes its
    reports."""

    def __init__(self, profiler: AdvancedGPUProfiler) -> None:
        self.profiler = profiler

    def __enter__(self) -> AdvancedGPUProfiler:
        return self.profiler.__enter__()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.profiler.__exit__(kind, error, trace)


def profile_function(profiler: AdvancedGPUProfiler,
                     name: Optional[str] = None) -> Callable[[Function], Function]:
    """Decorator: each call of the function is a timed execution of that name."""
    def decorate(function: Function) -> Function:
        label = name or function.__qualname__

        @functools.wraps(function)
        def call(*args: object, **kwargs: object) -> object:
            with profiler.profile_kernel_execution(label, operation_type="function"):
                return function(*args, **kwargs)
        return call
    return decorate


def _size(size: int) -> int:
    number = checks.whole("size_bytes", size, None)
    if number < 0:
        raise errors.BadDimensions(f"a size of {size} bytes; sizes are not negative, a free is "
                                   "reported with profile_memory_deallocation")
    return number


def _fresh_run(folder: str) -> str:
    """run.mscope, or run-2.mscope and so on: a run of an earlier session is never extended."""
    path, n = os.path.join(folder, "run.mscope"), 1
    while os.path.exists(path):
        n += 1
        path = os.path.join(folder, f"run-{n}.mscope")
    return path
