# SPDX-License-Identifier: Apache-2.0
"""PyTorch's caching allocator: live, reserved and peak bytes, its blocks, slack, fragmentation.

Only CUDA builds keep such an account. On the CPU PyTorch uses the system's malloc and counts
nothing, so the figures are None there, with a reason. This module never imports torch: a program
that has not imported it has no allocator to query.
"""
import sys
from typing import Any, Optional

from .._types import Json

NO_TORCH = "torch is not imported in this program"
NO_CUDA = "PyTorch counts memory on CUDA devices only, and none is in use"


def cuda() -> Any:
    """torch.cuda if the program already uses it, else None; looking must not create a CUDA context.
    """
    torch: Any = sys.modules.get("torch")
    # Not is_available(): that queries the driver, and this is on hot paths.
    return torch.cuda if hasattr(torch, "cuda") and torch.cuda.is_initialized() else None


def why_no_cuda() -> str:
    return NO_CUDA if "torch" in sys.modules else NO_TORCH


def put(into: Json, key: str, value: object, reason: str) -> None:
    """into[key] = value; an absent value gets its reason in the sibling key."""
    into[key] = value
    if value is None:
        into[key + "_reason"] = reason


def free_blocks(segments: list[Json], device: int) -> tuple[int, int]:
    """Total and largest free bytes inside the allocator's segments of a device.

    Neighbouring free blocks of one segment are one hole: an allocation can use them together.
    """
    total = largest = 0
    for segment in segments:
        if segment.get("device", 0) != device:
            continue
        hole = 0
        for block in segment["blocks"]:
            hole = hole + block["size"] if block["state"] == "inactive" else 0
            total += block["size"] if block["state"] == "inactive" else 0
            largest = max(largest, hole)
    return total, largest


def fragmentation_pct(total: int, largest: int) -> Optional[float]:
    """1 - largest free block / free bytes, in percent; None if nothing is free."""
    return 100.0 * (1 - largest / total) if total else None


def counts(device: Optional[int] = None) -> Json:
    """Live, reserved and peak bytes: cheap, no walk over blocks, no synchronisation."""
    found = cuda()
    names = ("allocated_bytes", "reserved_bytes", "peak_allocated_bytes", "peak_reserved_bytes")
    out: Json = {"device": None}
    if found is None:
        for name in names:
            put(out, name, None, why_no_cuda())
        return out
    index = found.current_device() if device is None else device
    stats = found.memory_stats(index)
    out["device"] = index
    # A device without any allocation has no entries: that is a measured zero.
    for name, key in zip(names, ("allocated_bytes.all.current", "reserved_bytes.all.current",
                                 "allocated_bytes.all.peak", "reserved_bytes.all.peak")):
        out[name] = int(stats.get(key, 0))
    return out


def memory_snapshot(device: Optional[int] = None, blocks: bool = False) -> Json:
    """What the allocator holds now on one device (None: the current one).

    Bytes live, reserved and at the peak; allocations and frees so far; cache slack (reserved but
    not live) and fragmentation, which are different things; with `blocks`, a list of all blocks
    with the place in the program that requested each, if
    `torch.cuda.memory._record_memory_history()` is on. Walks all blocks: milliseconds in large
    programs, so not for every step.
    """
    out = counts(device)
    found = cuda()
    absent = ("cache_slack_pct", "fragmentation_pct", "free_bytes", "largest_free_bytes",
              "allocations", "frees", "total_bytes", "outside_allocator_bytes")
    if found is None:
        for name in absent + (("blocks",) if blocks else ()):
            put(out, name, None, why_no_cuda())
        return out
    index = out["device"]
    segments = found.memory_snapshot()
    total, largest = free_blocks(segments, index)
    reserved = out["reserved_bytes"]
    put(out, "cache_slack_pct",
        100.0 * (reserved - out["allocated_bytes"]) / reserved if reserved else None,
        "the allocator holds nothing")
    put(out, "fragmentation_pct", fragmentation_pct(total, largest),
        "the allocator has no free block")
    out["free_bytes"], out["largest_free_bytes"] = total, largest
    stats = found.memory_stats(index)
    out["allocations"] = int(stats.get("allocation.all.allocated", 0))
    out["frees"] = int(stats.get("allocation.all.freed", 0))
    unused, out["total_bytes"] = found.mem_get_info(index)
    # Whole device: includes contexts, libraries, the profiler and other processes.
    out["outside_allocator_bytes"] = max(0, out["total_bytes"] - unused - reserved)
    if blocks:
        out["blocks"] = block_rows(segments, index)
    return out


def block_rows(segments: list[Json], device: int) -> list[Json]:
    """One row per block: address, bytes, state, and the innermost frame of its allocation."""
    rows = []
    for segment in segments:
        if segment.get("device", 0) != device:
            continue
        address = segment["address"]
        for block in segment["blocks"]:
            rows.append({"address": block.get("address", address), "bytes": block["size"],
                         "requested_bytes": block.get("requested_size"),
                         "state": block["state"], "stream": segment.get("stream"),
                         "site": python_site(block.get("frames") or [])})
            address += block["size"]
    return rows


def python_site(frames: list[Json]) -> Optional[str]:
    """The first frame in a Python file: C++ library frames say little to a user."""
    for frame in frames:
        if str(frame.get("filename", "")).endswith(".py"):
            return f"{frame['filename']}:{frame.get('line')} {frame.get('name')}"
    return None


def live_by_site(device: Optional[int] = None) -> Optional[dict[str, int]]:
    """Live bytes by allocating site; None unless the allocator's history is on."""
    found = cuda()
    if found is None:
        return None
    index = found.current_device() if device is None else device
    sites: dict[str, int] = {}
    known = False
    for row in block_rows(found.memory_snapshot(), index):
        if row["state"] == "inactive":
            continue
        known = known or row["site"] is not None
        name = row["site"] or "unknown place"
        sites[name] = sites.get(name, 0) + row["bytes"]
    return sites if known else None
