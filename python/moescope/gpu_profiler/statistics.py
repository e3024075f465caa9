# SPDX-License-Identifier: Apache-2.0
"""The live figures of AdvancedGPUProfiler: what the program has reported so far, in bounded memory.

Not locked here: the profiler holds its lock around every call. Definitions are the tool's
(`moescope explain NAME`), which recomputes them from the run; the tests compare the two.
"""
import math
import time
from collections import deque
from typing import NamedTuple, Optional

from .._types import Json
from ..memory.allocator import put
from ..routing import summary

MB = 1e6
LEAK_STEPS = 10
OTHER = "(other)"  # for further names once the history is full


class Sample(NamedTuple):
    """One row of the memory history; None: unknown."""

    timestamp: float
    allocated_bytes: int
    reserved_bytes: Optional[int]
    peak_bytes: int
    fragmentation_pct: Optional[float]


class Leak(NamedTuple):
    """A site whose live bytes grow with the steps."""

    site: str
    bytes_per_step: float
    live_bytes: int
    grew_steps: int


class LeakSuspects(list[Leak]):
    """The suspects, largest growth first. `known` is False if there was too little data."""

    def __init__(self, items: list[Leak], reason: Optional[str] = None) -> None:
        super().__init__(items)
        self.known = reason is None
        self.reason = reason

    def __repr__(self) -> str:
        return list.__repr__(self) if self.known else f"<not known: {self.reason}>"


class LeakWatch:
    """Live bytes of each site at the ends of the last steps.

    A suspect grew in at least 8 of the last 10 steps and by more than 1% in total.
    """

    def __init__(self) -> None:
        self.steps: deque[dict[str, int]] = deque(maxlen=LEAK_STEPS + 1)

    def step(self, live: dict[str, int]) -> None:
        self.steps.append(dict(live))

    def suspects(self) -> LeakSuspects:
        if len(self.steps) <= LEAK_STEPS:
            return LeakSuspects([], f"fewer than {LEAK_STEPS + 1} steps: call profiler.step() once "
                                "for each iteration")
        found = []
        for site in self.steps[-1]:
            series = [live.get(site, 0) for live in self.steps]
            grew = sum(after > before for before, after in zip(series, series[1:]))
            if grew >= 8 and series[-1] > 1.01 * series[0]:
                found.append(Leak(site, (series[-1] - series[0]) / LEAK_STEPS, series[-1], grew))
        return LeakSuspects(sorted(found, key=lambda leak: (-leak.bytes_per_step, leak.site)))


Key = tuple[Optional[int], str, int]  # expert, operation, bytes of one allocation


class Allocations:
    """Allocations and frees as the program reports them, paired.

    A free gives size, expert and operation, but no address. It ends the oldest live allocation with
    the same three; if there is none of that size, allocations of the same expert and operation, as
    far as the bytes go. The rest counts as unmatched. Memory is bounded by the distinct live
    (expert, operation, size), not by the number of allocations.
    """

    def __init__(self, experts: int) -> None:
        self.live_bytes = self.peak_bytes = 0
        self.allocations = self.frees = self.unmatched_frees = 0
        self.expert_bytes = [0] * experts
        self.site_bytes: dict[str, int] = {}
        self._live: dict[Key, list[int]] = {}  # [base address, first live, one past the last]
        self._bases = 0

    @staticmethod
    def site(expert: Optional[int], operation: str) -> str:
        return operation if expert is None else f"{operation}, expert {expert}"

    def add(self, size: int, expert: Optional[int], operation: str) -> int:
        """The address reported to the library."""
        key = (expert, operation, size)
        if key not in self._live:
            self._bases += 1
            # Far from real addresses: above any user-space address.
            self._live[key] = [1 << 63 | self._bases << 32, 0, 0]
        place = self._live[key]
        address = place[0] + place[2]
        place[2] += 1
        self.allocations += 1
        self._change(expert, operation, size)
        self.peak_bytes = max(self.peak_bytes, self.live_bytes)
        return address

    def remove(self, size: int, expert: Optional[int], operation: str) -> list[int]:
        """The addresses that this free ends."""
        self.frees += 1
        addresses = self._take((expert, operation, size), 1)
        left = 0 if addresses else size
        if left:
            for key in sorted((k for k in self._live if k[:2] == (expert, operation)),
                              key=lambda k: -k[2]):
                taken = self._take(key, left // key[2] if key[2] else 0)
                addresses += taken
                left -= len(taken) * key[2]
        self.unmatched_frees += bool(left)
        return addresses

    def _take(self, key: Key, most: int) -> list[int]:
        place = self._live.get(key)
        if place is None:
            return []
        n = min(most, place[2] - place[1])
        addresses = [place[0] + place[1] + i for i in range(n)]
        place[1] += n
        if place[1] == place[2]:
            del self._live[key]
        self._change(key[0], key[1], -n * key[2])
        return addresses

    def _change(self, expert: Optional[int], operation: str, size: int) -> None:
        site = self.site(expert, operation)
        self.live_bytes += size
        self.site_bytes[site] = self.site_bytes.get(site, 0) + size
        if not self.site_bytes[site]:
            del self.site_bytes[site]
        if expert is not None:
            self.expert_bytes[expert] += size


class Execution:
    """One execution of a kernel or other work; time_ms None: not timed (yet)."""

    __slots__ = ("timestamp", "name", "expert", "operation", "time_ms")

    def __init__(self, name: str, expert: Optional[int], operation: str) -> None:
        self.timestamp = time.time()
        self.name, self.expert, self.operation = name, expert, operation
        self.time_ms: Optional[float] = None


class Mean:
    """Calls, and the mean time of those that were timed."""

    __slots__ = ("calls", "timed", "total_ms")

    def __init__(self) -> None:
        self.calls = self.timed = 0
        self.total_ms = 0.0

    def add_time(self, ms: float) -> None:
        self.timed += 1
        self.total_ms += ms

    @property
    def mean_ms(self) -> Optional[float]:
        return self.total_ms / self.timed if self.timed else None


class Executions:
    """By name, by expert and by operation; the last ones individually."""

    UNTIMED = ("executions were reported without a time: use 'with "
               "profiler.profile_kernel_execution(...):' around the work")

    def __init__(self, history: int) -> None:
        self.history: deque[Execution] = deque(maxlen=history)
        self.total = 0
        self._most = max(1, history)
        self.names: dict[str, Mean] = {}
        self.experts: dict[int, Mean] = {}
        self.operations: dict[str, Mean] = {}

    def begin(self, execution: Execution) -> int:
        """Counts it; returns how often this name has come."""
        self.total += 1
        self.history.append(execution)
        for mean in self._means(execution):
            mean.calls += 1
        return self._of(self.names, execution.name).calls

    def time(self, execution: Execution, ms: float) -> None:
        execution.time_ms = ms
        for mean in self._means(execution):
            mean.add_time(ms)

    def _of(self, means: dict[str, Mean], name: str) -> Mean:
        if name not in means and len(means) >= self._most:
            name = OTHER
        return means.setdefault(name, Mean())

    def _means(self, execution: Execution) -> list[Mean]:
        found = [self._of(self.names, execution.name),
                 self._of(self.operations, execution.operation)]
        if execution.expert is not None:
            found.append(self.experts.setdefault(execution.expert, Mean()))
        return found

    def mean_of(self, word: str) -> Optional[float]:
        """Mean time of the operations or names that contain this word."""
        for means in (self.operations, self.names):
            chosen = [mean for name, mean in means.items() if word in name.lower() and mean.timed]
            if chosen:
                return sum(m.total_ms for m in chosen) / sum(m.timed for m in chosen)
        return None

    def expert_mean(self) -> Optional[float]:
        timed = [mean for mean in self.experts.values() if mean.timed]
        if timed:
            return sum(m.total_ms for m in timed) / sum(m.timed for m in timed)
        return self.mean_of("expert")

    def summary(self) -> Json:
        out: Json = {
            "average_kernel_times": {name: mean.mean_ms for name, mean in self.names.items()},
            "expert_performance": {
                expert: {"avg_time_ms": mean.mean_ms, "total_calls": mean.calls}
                for expert, mean in sorted(self.experts.items())},
            "total_kernels_profiled": self.total,
            "timed_kernels": sum(mean.timed for mean in self.names.values()),
        }
        timed = [(mean.mean_ms, name) for name, mean in self.names.items() if mean.timed]
        why = self.UNTIMED if self.total else "no execution was reported"
        put(out, "slowest_kernel", max(timed)[1] if timed else None, why)
        put(out, "attention_time_ms", self.mean_of("attention"), why)
        put(out, "expert_time_ms", self.expert_mean(), why)
        return out


class Transfers:
    """Bytes moved, as the program reports them, and the time of the timed ones."""

    def __init__(self) -> None:
        self.kinds: dict[str, list[float]] = {}  # bytes, count, timed bytes, timed seconds
        self.on_device = False  # the times are the device's

    def add(self, kind: str, size: int) -> float:
        """Bytes of this kind so far."""
        row = self.kinds.setdefault(kind, [0, 0, 0, 0.0])
        row[0] += size
        row[1] += 1
        return row[0]

    def time(self, kind: str, size: int, ms: float, on_device: bool) -> None:
        self.on_device = on_device
        self.kinds[kind][2] += size
        self.kinds[kind][3] += ms / 1e3

    def bandwidth_gbps(self, *kinds: str) -> Optional[float]:
        """Bytes over time of the timed transfers, in 1e9 bytes a second."""
        rows = [self.kinds[kind] for kind in kinds if kind in self.kinds]
        seconds = sum(row[3] for row in rows)
        return sum(row[2] for row in rows) / seconds / 1e9 if seconds > 0 else None

    def summary(self) -> Json:
        out: Json = {}
        link = self.bandwidth_gbps("host_to_device", "device_to_host")
        put(out, "pcie_bandwidth_gbps", link if self.on_device else None,
            "no transfer was timed: use 'with profiler.profile_data_transfer(...):' around it, or "
            "run the program under 'moescope run'" if link is None else
            "transfers were timed by the host's clock, without a device")
        put(out, "gpu_memory_bandwidth_gbps", None,
            "needs hardware counters, which were not collected")
        out["total_transfers_mb"] = sum(row[0] for row in self.kinds.values()) / MB
        put(out, "cache_hit_rate", None, "needs hardware counters, which were not collected")
        out["transfer_breakdown"] = {
            kind: {"count": int(row[1]), "mb": row[0] / MB,
                   "bandwidth_gbps": self.bandwidth_gbps(kind)}
            for kind, row in self.kinds.items()}
        return out


class Routed(NamedTuple):
    """One report of routing."""

    timestamp: float
    tokens: int
    counts: list[int]


def balance(counts: list[int]) -> Optional[float]:
    """Mean load over the largest: 1 is even, 1 / experts is everything on one."""
    return sum(counts) / len(counts) / max(counts) if sum(counts) else None


class Routings:
    """Assignments of tokens to experts."""

    def __init__(self, experts: int, history: int) -> None:
        self.history: deque[Routed] = deque(maxlen=history)
        self.counts = [0] * experts
        self.tokens = self.calls = self.invalid = self.lost = 0

    def add(self, tokens: int, counts: list[int], invalid: int) -> None:
        self.history.append(Routed(time.time(), tokens, counts))
        self.counts = [before + n for before, n in zip(self.counts, counts)]
        self.tokens += tokens
        self.calls += 1
        self.invalid += invalid

    def excess(self) -> Optional[float]:
        """cv beyond what uniform routing of as many tokens would show by chance."""
        cv = summary.cv(self.counts)
        if cv is None or not self.tokens:
            return None
        k = sum(self.counts) / self.tokens
        floor = max(0.0, len(self.counts) - k) / (self.tokens * k)
        return math.sqrt(max(0.0, cv * cv - floor))

    def summary(self) -> Json:
        total, none = sum(self.counts), "no routing was reported"
        mean = total / len(self.counts)
        cv = summary.cv(self.counts)
        out: Json = {}
        put(out, "expert_utilization",
            [100.0 * n / total for n in self.counts] if total else None, none)
        put(out, "load_balance_score", balance(self.counts), none)
        put(out, "load_cv", cv, none)
        put(out, "load_balance_excess", self.excess(), none)
        put(out, "routing_efficiency",
            None if cv is None else min(100.0, max(0.0, 100 - 10 * cv)), none)
        starved = [e for e, n in enumerate(self.counts) if total and n < 0.5 * mean]
        overloaded = [e for e, n in enumerate(self.counts) if total and n > 1.5 * mean]
        out["imbalanced_experts"] = sorted(starved + overloaded)
        out["starved_experts"], out["overloaded_experts"] = starved, overloaded
        out["tokens_per_expert"] = list(self.counts)
        put(out, "avg_tokens_per_expert", mean if total else None, none)
        out["total_routing_decisions"] = total
        out["total_tokens"], out["routing_calls"] = self.tokens, self.calls
        out["invalid_assignments"], out["lost_reports"] = self.invalid, self.lost
        return out
