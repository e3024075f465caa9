# SPDX-License-Identifier: Apache-2.0
"""The allocator's figures: the arithmetic on blocks, and what is said where there is none."""
import moescope
from moescope.memory import allocator


def segment(device, *blocks):
    return {"device": device, "address": 1000, "stream": 0,
            "blocks": [{"size": size, "state": state} for size, state in blocks]}


def test_fragmentation_joins_neighbouring_holes():
    segments = [segment(0, (10, "inactive"), (20, "inactive"), (5, "active_allocated"),
                        (10, "inactive")),
                segment(0, (20, "inactive"), (1, "active_pending_free")),
                segment(1, (500, "inactive"))]
    total, largest = allocator.free_blocks(segments, 0)
    assert (total, largest) == (60, 30)
    assert allocator.fragmentation_pct(total, largest) == 50.0
    assert allocator.fragmentation_pct(0, 0) is None
    assert allocator.fragmentation_pct(7, 7) == 0.0


def test_blocks_know_their_address_and_site():
    segments = [{"device": 0, "address": 1000, "stream": 3, "blocks": [
        {"size": 8, "state": "active_allocated", "requested_size": 5,
         "frames": [{"filename": "CachingAllocator.cpp", "line": 1, "name": "malloc"},
                    {"filename": "train.py", "line": 12, "name": "step"}]},
        {"size": 4, "state": "inactive"}]}]
    rows = allocator.block_rows(segments, 0)
    assert [row["address"] for row in rows] == [1000, 1008]
    assert rows[0]["site"] == "train.py:12 step" and rows[0]["requested_bytes"] == 5
    assert rows[1]["site"] is None


def test_without_cuda_figures_are_absent_with_a_reason():
    if allocator.cuda() is not None:
        return
    found = moescope.memory_snapshot(blocks=True)
    for key in ("allocated_bytes", "reserved_bytes", "fragmentation_pct", "cache_slack_pct",
                "blocks"):
        assert found[key] is None and found[key + "_reason"]


class FakeCuda:
    """torch.cuda as far as the allocator's figures need it."""

    @staticmethod
    def current_device():
        return 0

    @staticmethod
    def memory_stats(_device):
        return {"allocated_bytes.all.current": 60, "reserved_bytes.all.current": 100,
                "allocated_bytes.all.peak": 90, "reserved_bytes.all.peak": 120,
                "allocation.all.allocated": 7, "allocation.all.freed": 4}

    @staticmethod
    def memory_snapshot():
        return [segment(0, (60, "active_allocated"), (30, "inactive"), (0, "active_allocated"),
                        (10, "inactive"))]

    @staticmethod
    def mem_get_info(_device):
        return 700, 1000


def test_slack_is_not_fragmentation(monkeypatch):
    monkeypatch.setattr(allocator, "cuda", lambda: FakeCuda)
    found = moescope.memory_snapshot()
    assert found["cache_slack_pct"] == 40.0
    assert found["fragmentation_pct"] == 25.0
    assert (found["allocated_bytes"], found["peak_allocated_bytes"]) == (60, 90)
    assert (found["allocations"], found["frees"]) == (7, 4)
    assert found["outside_allocator_bytes"] == 200
