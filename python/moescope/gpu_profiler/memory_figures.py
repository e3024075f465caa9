# SPDX-License-Identifier: Apache-2.0
"""The memory part of the figures of AdvancedGPUProfiler."""

from .._types import Json
from ..memory import allocator
from .statistics import MB, Allocations, LeakSuspects


def memory_summary(reported: Allocations, leaks: LeakSuspects) -> Json:
    """PyTorch's account if it keeps one, else what the program reported; `source` says which."""
    found = allocator.memory_snapshot()
    torch_counts = found["allocated_bytes"] is not None
    none = "no allocation was reported, and " + allocator.why_no_cuda()
    put = allocator.put
    out: Json = {"source": "PyTorch's allocator" if torch_counts else
                           "reported by the program" if reported.allocations else None}
    live, peak = ((found["allocated_bytes"], found["peak_allocated_bytes"]) if torch_counts
                  else (reported.live_bytes, reported.peak_bytes) if reported.allocations
                  else (None, None))
    put(out, "peak_memory_mb", None if peak is None else peak / MB, none)
    put(out, "current_allocated_mb", None if live is None else live / MB, none)
    reserved, total = found["reserved_bytes"], found.get("total_bytes")
    put(out, "reserved_mb", None if reserved is None else reserved / MB,
        found.get("reserved_bytes_reason", ""))
    put(out, "total_memory_mb", None if total is None else total / MB,
        found.get("total_bytes_reason", ""))
    put(out, "fragmentation_percent", found["fragmentation_pct"],
        found.get("fragmentation_pct_reason", ""))
    slack = found["cache_slack_pct"]
    put(out, "cache_slack_percent", slack, found.get("cache_slack_pct_reason", ""))
    put(out, "allocation_efficiency", None if slack is None else 100 - slack,
        found.get("cache_slack_pct_reason", ""))
    out["expert_memory_distribution"] = [n / MB for n in reported.expert_bytes]
    out["reported"] = {"allocations": reported.allocations, "frees": reported.frees,
                       "unmatched_frees": reported.unmatched_frees,
                       "live_mb": reported.live_bytes / MB, "peak_mb": reported.peak_bytes / MB}
    put(out, "leak_suspects", [leak._asdict() for leak in leaks] if leaks.known else None,
        leaks.reason or "")
    return out
