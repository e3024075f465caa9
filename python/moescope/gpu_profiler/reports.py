# SPDX-License-Identifier: Apache-2.0
"""The files of AdvancedGPUProfiler: a JSON report, three CSV tables, two plots.

All files of one call have the same time in their names. Empty cells and null are unknown values.
Device figures (copies, busy time) are read from the run with the moescope tool once it is closed.
"""
import csv
import json
import os
import time
from collections.abc import Iterable
from typing import Any, NamedTuple, Optional

from .. import _library as lib
from .._types import Json
from ..memory.allocator import put
from .statistics import MB, Execution, Routed, Sample, balance

NO_COUNTERS = "needs hardware counters, which were not collected"


class Histories(NamedTuple):
    memory: list[Sample]
    kernels: list[Execution]
    routing: list[Routed]
    experts: int


def write(folder: str, stats: Json, duration_s: float, histories: Histories,
          closed_run: Optional[str], run: Optional[str]) -> dict[str, str]:
    """The paths written, by kind: report, memory, kernels, routing, and the plots."""
    os.makedirs(folder, exist_ok=True)
    now = time.localtime()
    stamp = _stamp(folder, time.strftime("%Y%m%d_%H%M%S", now))

    def path(name: str, suffix: str) -> str:
        return os.path.join(folder, f"{name}_{stamp}.{suffix}")

    files = {"memory": path("memory_stats", "csv"), "kernels": path("kernel_stats", "csv"),
             "routing": path("expert_routing", "csv"), "report": path("profiler_report", "json")}
    _csv(files["memory"], ("timestamp", "allocated_mb", "reserved_mb", "peak_mb",
                           "fragmentation_percent"), map(_memory_row, histories.memory))
    _csv(files["kernels"], ("timestamp", "kernel_name", "execution_time_ms", "occupancy_percent",
                            "memory_bandwidth_gbps", "expert_id", "operation_type"),
         map(_kernel_row, histories.kernels))
    _csv(files["routing"], ("timestamp", "token_count", "active_experts", "load_balance_score",
                            *(f"expert_{e}" for e in range(histories.experts))),
         map(_routing_row, histories.routing))
    document: Json = {"timestamp": time.strftime("%Y-%m-%d_%H:%M:%S", now),
                                "profiling_duration": duration_s, "stats": stats, "run": run}
    if closed_run is not None:
        _device_figures(closed_run, document)
    else:
        put(document, "devices", None, "the run is still being recorded; 'moescope report' shows "
            "them when it is closed")
    plots = _plots(path, stats, histories, document)
    with open(files["report"], "w", encoding="utf-8") as out:
        json.dump(document, out, indent=2, allow_nan=False)
        out.write("\n")
    return {**files, **plots}


def _stamp(folder: str, stamp: str) -> str:
    """Two reports within a second must not overwrite each other."""
    name, n = stamp, 1
    while os.path.exists(os.path.join(folder, f"profiler_report_{name}.json")):
        n += 1
        name = f"{stamp}_{n}"
    return name


def _csv(path: str, columns: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    with open(path, "w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(["" if cell is None else cell for cell in row] for row in rows)


def _memory_row(sample: Sample) -> list[object]:
    reserved = sample.reserved_bytes
    return [sample.timestamp, sample.allocated_bytes / MB,
            None if reserved is None else reserved / MB, sample.peak_bytes / MB,
            sample.fragmentation_pct]


def _kernel_row(execution: Execution) -> list[object]:
    # Occupancy and bandwidth of a kernel need counters that were not collected: empty.
    return [execution.timestamp, execution.name, execution.time_ms, None, None, execution.expert,
            execution.operation]


def _routing_row(routed: Routed) -> list[object]:
    return [routed.timestamp, routed.tokens, sum(n > 0 for n in routed.counts),
            balance(routed.counts), *routed.counts]


def _device_figures(run: str, document: Json) -> None:
    """What the run recorded on the device, if anything."""
    report = lib.table("report", run)
    moved = document["stats"]["data_movement"]
    copies = [row for row in (report["transfers"] or {"rows": []})["rows"]
              if row["kind"] in ("HtoD", "DtoH") and row["time_ns"]]
    if copies:
        moved["pcie_bandwidth_gbps"] = (sum(row["bytes"] for row in copies)
                                        / sum(row["time_ns"] for row in copies))
        moved.pop("pcie_bandwidth_gbps_reason", None)
    devices = report["timeline"]["devices"] if report.get("timeline") else []
    put(document, "devices", devices or None,
        "no device was recorded: run the program under 'moescope run' on a machine with a GPU")
    document["verdicts"] = report["verdicts"]
    document["loss"] = {name: n for name, n in report["loss"].items() if n}
    _counter_figures(run, document["stats"])


def _counter_figures(run: str, stats: Json) -> None:
    """Hardware counters of the run: of the device over time, and of single kernels."""
    hardware = lib.table("hardware", run)
    kernels = lib.table("counters", run, "--by", "kernel")["rows"]
    moved, kernel = stats["data_movement"], stats["kernel"]
    rate = _mean_of(row["dram_bytes_per_s"] for row in hardware["total"]["traffic"])
    per_kernel = _mean(kernels, "dram_bytes_per_s")
    _found(moved, "gpu_memory_bandwidth_gbps", per_kernel if rate is None else rate, 1e9)
    hits = _mean_of(row["mean"] for row in hardware["rows"] if row["counter"] == "l2_hit_pct")
    _found(moved, "cache_hit_rate", _mean(kernels, "l2_hit_pct") if hits is None else hits)
    _found(kernel, "occupancy_percent", _mean(kernels, "achieved_occupancy_pct"))
    _found(kernel, "memory_bandwidth_gbps", per_kernel, 1e9)


def _mean_of(figures: Iterable[Optional[float]]) -> Optional[float]:
    """Over the GPUs that have it."""
    known = [figure for figure in figures if figure is not None]
    return sum(known) / len(known) if known else None


def _mean(kernels: list[Json], key: str) -> Optional[float]:
    """Over the kernels that have it, by their time."""
    known = [(row[key], row["launches"] * (row["mean_ns"] or 0)) for row in kernels if row[key] is not None]
    weight = sum(time_ns for _, time_ns in known)
    return sum(value * time_ns for value, time_ns in known) / weight if weight else None


def _found(into: Json, key: str, value: Optional[float], unit: float = 1) -> None:
    into.pop(key + "_reason", None)
    put(into, key, None if value is None else value / unit, NO_COUNTERS)


def _plots(path: Any, stats: Json, histories: Histories,
           document: Json) -> dict[str, str]:
    from .. import plots
    made: dict[str, str] = {}
    if not plots.available():
        put(document, "plots", None, "matplotlib is not installed, so no plots were made; 'pip "
            "install matplotlib' and generate_reports() again")
        return made
    utilization = stats["expert_routing"]["expert_utilization"]
    if histories.memory:
        made["memory_plot"] = path("memory_usage", "png")
        plots.memory_usage(histories.memory, made["memory_plot"])
    if utilization is not None:
        made["expert_plot"] = path("expert_utilization", "png")
        plots.expert_utilization(utilization, made["expert_plot"])
    document["plots"] = [os.path.basename(name) for name in made.values()]
    missing = [why for have, why in ((histories.memory, "no memory was reported or sampled"),
                                     (utilization, "no routing was reported")) if not have]
    if missing:
        document["plots_reason"] = "not all plots were made: " + "; ".join(missing)
    return made
