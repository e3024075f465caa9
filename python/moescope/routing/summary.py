# SPDX-License-Identifier: Apache-2.0
"""Statistics over the steps of a layer, as `moescope explain` defines them: population deviations,
percentiles between order statistics, absent if nothing was measured."""
import math
from collections.abc import Sequence
from typing import Optional

from .._types import Json


def mean(values: Sequence[float]) -> Optional[float]:
    return sum(values) / len(values) if values else None


def std(values: Sequence[float]) -> Optional[float]:
    if not values:
        return None
    middle = sum(values) / len(values)
    return math.sqrt(sum((v - middle) ** 2 for v in values) / len(values))


def percentile(values: Sequence[float], percent: float) -> Optional[float]:
    if not values:
        return None
    ordered = sorted(values)
    at = (len(ordered) - 1) * percent / 100
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def gini(loads: Sequence[float]) -> Optional[float]:
    """sum (2i-E-1) n_(i) / (E N), ascending, i from 1."""
    total, size = sum(loads), len(loads)
    if not total:
        return None
    return sum((2 * i - size - 1) * n for i, n in enumerate(sorted(loads), 1)) / (size * total)


def entropy(loads: Sequence[float]) -> Optional[float]:
    """-sum p ln p / ln E over all experts: 1 is even."""
    total, size = sum(loads), len(loads)
    if not total or size < 2:
        return None
    return -sum(n / total * math.log(n / total) for n in loads if n) / math.log(size)


def cv(loads: Sequence[float]) -> Optional[float]:
    """Population standard deviation over the mean."""
    deviation, middle = std(loads), mean(loads)
    return deviation / middle if deviation is not None and middle else None


def _known(rows: list[Json], key: str) -> list[float]:
    return [row[key] for row in rows if row[key] is not None]


def summarise(rows: list[Json], loads: Sequence[int],
              k_hist: Sequence[int]) -> Json:
    """rows: as in the CSV. loads: by expert. k_hist[n]: tokens that used n slots."""
    total, latency = _known(rows, "flops_total"), _known(rows, "latency_ms")
    active, sure = _known(rows, "active_experts"), _known(rows, "router_conf")
    memory = _known(rows, "memory_mb")
    tokens = sum(k_hist)
    used = [k for k, n in enumerate(k_hist) if n]
    k_mean = sum(k * n for k, n in enumerate(k_hist)) / tokens if tokens else None
    spread = sum(n * (k - k_mean) ** 2 for k, n in enumerate(k_hist)) if k_mean is not None else 0
    return {
        "flops_total_mean": mean(total), "flops_total_std": std(total),
        "flops_total_p50": percentile(total, 50), "flops_total_p95": percentile(total, 95),
        "flops_total_p99": percentile(total, 99),
        "flops_router_mean": mean(_known(rows, "flops_router")),
        "flops_expert_mean": mean(_known(rows, "flops_expert")),
        "latency_mean_ms": mean(latency), "latency_std_ms": std(latency),
        "latency_min_ms": min(latency, default=None), "latency_max_ms": max(latency, default=None),
        "latency_p50_ms": percentile(latency, 50), "latency_p95_ms": percentile(latency, 95),
        "latency_p99_ms": percentile(latency, 99),
        "active_experts_mean": mean(active), "active_experts_std": std(active),
        "k_mean": k_mean, "k_std": math.sqrt(spread / tokens) if tokens else None,
        "k_min": min(used, default=None), "k_max": max(used, default=None),
        "expert_load_mean": mean(loads), "expert_load_std": std(loads),
        "expert_load_cv": cv(loads), "expert_load_gini": gini(loads),
        "expert_load_entropy": entropy(loads),
        "router_confidence_mean": mean(sure), "router_confidence_std": std(sure),
        "router_confidence_k_mean": mean(_known(rows, "router_conf_k")),
        "memory_mean_mb": mean(memory), "memory_max_mb": max(memory, default=None),
        "total_steps": len(rows), "total_tokens_profiled": tokens,
    }
