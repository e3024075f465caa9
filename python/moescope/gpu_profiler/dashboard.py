# SPDX-License-Identifier: Apache-2.0
"""The dashboard of AdvancedGPUProfiler as text. Unknown figures are n/a, never zero."""
from collections.abc import Sequence
from typing import Callable, Optional, TypeVar

from .._types import Json

T = TypeVar("T")

SHOWN_EXPERTS = 16
# More than this share of free memory fragmented, or cv beyond chance, and the word for it.
FRAGMENTATION = ((50.0, "High"), (20.0, "Medium"), (0.0, "Low"))
BALANCE = ((0.3, "Poor"), (0.1, "Fair"), (0.0, "Good"))


def word(value: float, scale: Sequence[tuple[float, str]]) -> str:
    return next(name for limit, name in scale if value > limit or limit == 0.0)


def gb(mb: Optional[float]) -> str:
    if mb is None:
        return "n/a"
    return f"{mb / 1e3:.1f} GB" if mb >= 1e3 else f"{mb:.1f} MB"


def number(value: Optional[float], form: str) -> str:
    return "n/a" if value is None else form.format(value)


def listed(values: Optional[list[T]], form: Callable[[T], str]) -> str:
    if values is None:
        return "n/a"
    shown = [form(value) for value in values[:SHOWN_EXPERTS]]
    more = len(values) - len(shown)
    return "[" + ", ".join(shown) + (f", ... {more} more" if more else "") + "]"


def text(stats: Json) -> str:
    memory, kernel = stats["memory"], stats["kernel"]
    moved, routing = stats["data_movement"], stats["expert_routing"]
    peak, total = memory["peak_memory_mb"], memory["total_memory_mb"]
    fragmentation = memory["fragmentation_percent"]
    score, excess = routing["load_balance_score"], routing["load_balance_excess"]
    share = f" ({100 * peak / total:.1f}%)" if peak is not None and total else ""
    lines = [
        "moescope: GPU profiler",
        "======================",
        "Memory",
        f"  Peak usage:          {gb(peak)} / {gb(total)}{share}",
        "  Fragmentation:       " + number(fragmentation, "{:.1f}%")
        + (f" ({word(fragmentation, FRAGMENTATION)})" if fragmentation is not None else ""),
        f"  Expert memory:       {listed(memory['expert_memory_distribution'], gb)}",
        f"  Leak suspects:       {_leaks(memory)}",
        "Kernels",
        f"  Attention kernels:   {number(kernel['attention_time_ms'], '{:.3f} ms on average')}",
        f"  Expert kernels:      {number(kernel['expert_time_ms'], '{:.3f} ms on average')}",
        f"  Memory bandwidth:    {number(moved['gpu_memory_bandwidth_gbps'], '{:.1f} GB/s')}",
        "Data movement",
        f"  PCIe bandwidth:      {number(moved['pcie_bandwidth_gbps'], '{:.2f} GB/s')}",
        f"  Moved:               {gb(moved['total_transfers_mb'])}",
        f"  Cache hit rate:      {number(moved['cache_hit_rate'], '{:.1f}%')}",
        "Expert routing",
        "  Expert utilization:  " + listed(routing["expert_utilization"],
                                           lambda pct: f"{pct:.1f}%"),
        "  Load balance score:  " + number(score, "{:.2f}")
        + (f" ({word(excess, BALANCE)}; 1 is even)" if excess is not None else ""),
        f"  Routing efficiency:  {number(routing['routing_efficiency'], '{:.1f}')} "
        "(legacy: 100 - 10 cv; dead experts hardly move it)",
    ]
    return "\n".join(lines)


def _leaks(memory: Json) -> str:
    leaks = memory["leak_suspects"]
    if leaks is None:
        return f"n/a ({memory['leak_suspects_reason']})"
    if not leaks:
        return "none"
    first = leaks[0]
    return f"{len(leaks)}, first {first['site']}: {first['bytes_per_step']:.0f} bytes a step"
