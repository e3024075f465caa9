# SPDX-License-Identifier: Apache-2.0
"""The history of PyTorch's caching allocator, written to the run.

PyTorch can record what its allocator does, for well under a microsecond per call without stacks.
This module turns that on for a part of the program and, at its end, writes it to the run with
PyTorch's own times: what was live before, every allocation and free, and the segments that the
allocator takes from the driver. So `moescope memory` can replay it.

Allocation sizes are those requested, as in PyTorch's requested_bytes; allocated_bytes, whose peak
is PyTorch's max_memory_allocated, rounds them up to blocks. Both peaks are in the run as the
allocator's own account, next to the replay.
"""
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Optional

from .. import _library as lib
from .. import api, clock, errors
from .._types import Json
from .allocator import cuda, python_site, why_no_cuda

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer

MAX_ENTRIES = 4_000_000  # about 1 GB of host memory in PyTorch, if all are used

ALLOC, FREE, RESERVE, RELEASE = range(4)
# free_requested is when the program releases it, and when PyTorch takes it off its account
_EVENTS = {"alloc": ALLOC, "free_requested": FREE, "segment_alloc": RESERVE,
           "segment_map": RESERVE, "segment_free": RELEASE, "segment_unmap": RELEASE}
# the allocator's account: name in the run, name in PyTorch
_ACCOUNT = (("allocated_bytes", "allocated_bytes.all.current"),
            ("reserved_bytes", "reserved_bytes.all.current"),
            ("peak_allocated_bytes", "allocated_bytes.all.peak"),
            ("peak_reserved_bytes", "reserved_bytes.all.peak"),
            ("peak_requested_bytes", "requested_bytes.all.peak"))

Row = tuple[int, int, int, int, int, Optional[str]]  # ns, event, address, bytes, device, site


def live_rows(segments: Iterable[Json], now_ns: int) -> Iterator[Row]:
    """What the allocator held before its history began."""
    for segment in segments:
        device = segment.get("device", 0)
        yield (now_ns, RESERVE, segment["address"], segment["total_size"], device, None)
        address = segment["address"]
        for block in segment["blocks"]:
            if block["state"] == "active_allocated":
                yield (now_ns, ALLOC, block.get("address", address),
                       block.get("requested_size", block["size"]), device,
                       python_site(block.get("frames") or []))
            address += block["size"]


def trace_rows(traces: list[list[Json]], to_monotonic_ns: int) -> Iterator[Row]:
    for device, trace in enumerate(traces):
        for entry in trace:
            event = _EVENTS.get(entry["action"])
            if event is not None:
                yield (int(entry["time_us"]) * 1000 + to_monotonic_ns, event, entry["addr"],
                       entry["size"], device, python_site(entry.get("frames") or []))


def uses_of(model: Optional["nn.Module"], optimizer: Optional["Optimizer"]) -> dict[int, int]:
    """Addresses of live parameters, gradients and optimizer state."""
    uses: dict[int, int] = {}

    def note(tensor: "Tensor", use: str) -> None:
        if hasattr(tensor, "untyped_storage"):
            uses[tensor.untyped_storage().data_ptr()] = lib.MEMORY_USES[use]

    for parameter in model.parameters() if model is not None else ():
        note(parameter, "parameters")
        if parameter.grad is not None:
            note(parameter.grad, "gradients")
    for state in optimizer.state.values() if optimizer is not None else ():
        for value in state.values():
            note(value, "optimizer")
    return uses


def write_rows(rows: list[Row], uses: dict[int, int]) -> None:
    """Writes to the run. Only what is live at the end has a known use: the last allocation of an
    address."""
    array = (lib.PastMemory * len(rows))()
    seen = set()
    for i in range(len(rows) - 1, -1, -1):
        time_ns, event, address, size, device, site = rows[i]
        use = 0
        if event in (ALLOC, FREE) and address not in seen:
            seen.add(address)
            use = uses.get(address, 0) if event == ALLOC else 0
        array[i] = lib.PastMemory(time_ns=time_ns, address=address, bytes=size, device=device,
                                  event=event, use=use, site=api.intern(site) if site else 0)
    lib.load().moescope_past_memory(array, len(rows))


class record_memory:
    """Records the allocator's history while its body runs; `with moescope.record_memory(): …`.

    sites: record the Python line that requested each block, for a microsecond or two per
    allocation. model, optimizer: to distinguish parameters, gradients and state. note() writes the
    allocator's own account to the run, for example once per step; so does the end. A history that
    the program turned on itself stays on and is only read.
    """

    def __init__(self, model: Optional["nn.Module"] = None, optimizer: Optional["Optimizer"] = None,
                 sites: bool = False, max_entries: int = MAX_ENTRIES) -> None:
        self.model, self.optimizer = model, optimizer
        self.sites, self.max_entries = sites, max_entries
        self._running = self._theirs = False
        self._before: list[Row] = []
        self._begin_ns = 0

    def start(self) -> "record_memory":
        if self._running:
            return self
        if cuda() is None:
            raise errors.NotCaptured(f"no history of the allocator: {why_no_cuda()}")
        memory = sys.modules["torch"].cuda.memory
        self._theirs = _history_is_on()
        if not self._theirs:
            memory._record_memory_history(enabled="all", context="alloc" if self.sites else None,
                                          stacks="python", max_entries=self.max_entries)
        self._begin_ns = clock.monotonic_ns()
        self._before = list(live_rows(cuda().memory_snapshot(), self._begin_ns))
        self._running = True
        self.note()
        return self

    def note(self) -> None:
        """The allocator's own account, as device readings."""
        found = cuda()
        for device in range(found.device_count()) if self._running and found else ():
            stats = found.memory_stats(device)
            if stats.get("allocated_bytes.all.peak"):
                for name, key in _ACCOUNT:
                    lib.load().moescope_device_sample(device, api.intern(name),
                                                      float(stats.get(key, 0)))

    def stop(self) -> None:
        if not self._running:
            return
        self.note()
        self._running = False
        memory = sys.modules["torch"].cuda.memory
        traces = memory._snapshot()["device_traces"]
        if not self._theirs:
            memory._record_memory_history(enabled=None)
        # A history that was already on goes further back than the list of live blocks.
        rows = [row for row in trace_rows(traces, clock.to_monotonic_ns())
                if row[0] >= self._begin_ns]
        if not self._theirs and any(len(trace) >= self.max_entries for trace in traces):
            api.info("memory", f"the allocator's history holds {self.max_entries} events; older "
                               "ones are lost, so that what lived then is not seen freed")
        rows.sort(key=lambda row: row[0])
        write_rows(self._before + rows, uses_of(self.model, self.optimizer))
        self._before = []

    def __enter__(self) -> "record_memory":
        return self.start()

    def __exit__(self, *exception: object) -> None:
        self.stop()


def _history_is_on() -> bool:
    asked = getattr(sys.modules["torch"]._C, "_cuda_isHistoryEnabled", None)
    return bool(asked and asked())
