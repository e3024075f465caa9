# SPDX-License-Identifier: Apache-2.0
"""The allocator's history goes into the run. A scripted allocator stands in for a CUDA device; on
one, tests/gpu/agreement_check.py compares the replay with PyTorch's own peak."""
import sys
import time
from types import SimpleNamespace

import pytest

import moescope
from moescope import _library, errors
from moescope.memory import history

KB = 1024


class Allocator:
    """torch.cuda and torch.cuda.memory with one device and a script of events."""

    def __init__(self):
        self.trace, self.on, self.calls = [], False, []
        self.memory = SimpleNamespace(_record_memory_history=self._record,
                                      _snapshot=lambda: {"device_traces": [self.trace]})
        self.stats = {}

    def _record(self, enabled="all", **options):
        self.calls.append(enabled)
        self.on = enabled is not None

    def is_initialized(self):
        return True

    def device_count(self):
        return 1

    def memory_stats(self, device):
        return self.stats

    def memory_snapshot(self):
        return [{"device": 0, "address": 0x10000, "total_size": 64 * KB,
                 "blocks": [{"size": 8 * KB, "requested_size": 8000, "state": "active_allocated"},
                            {"size": 56 * KB, "state": "inactive"}]}]

    def event(self, action, address, size, ago_us=-2):
        self.trace.append({"action": action, "addr": address, "size": size,
                           "time_us": time.time_ns() // 1000 - ago_us})


@pytest.fixture
def allocator(monkeypatch):
    made = Allocator()
    torch = SimpleNamespace(cuda=made, _C=SimpleNamespace(_cuda_isHistoryEnabled=lambda: made.on))
    monkeypatch.setitem(sys.modules, "torch", torch)
    return made


class Tensor:
    grad = None

    def __init__(self, address):
        self._address = address

    def untyped_storage(self):
        return SimpleNamespace(data_ptr=lambda: self._address)


def device_of(run):
    rows = [row for row in _library.table("memory", run)["rows"] if row["device"] == 0]
    assert len(rows) == 1
    return rows[0]


def test_history_is_replayed(allocator, tmp_path):
    run = str(tmp_path / "a.mscope")
    moescope.start(run)
    model = SimpleNamespace(parameters=lambda: [Tensor(0x10000)])
    with moescope.record_memory(model=model) as memory:
        assert allocator.calls == ["all"]
        allocator.event("alloc", 0x12000, 3000)
        allocator.event("segment_alloc", 0x40000, 128 * KB)
        allocator.event("alloc", 0x40000, 100_000)
        allocator.event("free_requested", 0x12000, 3000)
        allocator.event("free_completed", 0x12000, 3000)
        allocator.stats = {"allocated_bytes.all.peak": 111_104,
                           "allocated_bytes.all.current": 108_544,
                           "reserved_bytes.all.current": 192 * KB,
                           "requested_bytes.all.peak": 111_000}
        memory.note()
    assert allocator.calls == ["all", None]
    moescope.stop()
    device = device_of(run)
    assert device["peak_allocated_bytes"] == 8000 + 3000 + 100_000
    assert device["allocated_bytes"] == 8000 + 100_000
    assert device["reserved_bytes"] == 192 * KB
    assert device["account_peak_allocated_bytes"] == 111_104
    assert device["composition"]["parameters"] == 8000


def test_own_history_stays_on(allocator, tmp_path):
    allocator.on = True
    # before: the list of what lives has it, or it is gone
    allocator.event("alloc", 0x999000, 77, ago_us=5000)
    moescope.start(str(tmp_path / "b.mscope"))
    with moescope.record_memory():
        pass
    assert allocator.calls == [] and allocator.on
    moescope.stop()
    assert device_of(str(tmp_path / "b.mscope"))["allocated_bytes"] == 8000


def test_without_a_device_says_why(monkeypatch):
    monkeypatch.setattr(history, "cuda", lambda: None)
    with pytest.raises(errors.NotCaptured, match="no history"):
        moescope.record_memory().start()


def test_a_failing_history_leaves_the_program_alone(monkeypatch, tmp_path):
    pytest.importorskip("torch")
    from moescope.torchlike import profile as module

    class Broken:
        def start(self):
            raise TypeError("another version of torch")

    monkeypatch.setattr(module, "cuda", lambda: True)
    monkeypatch.setattr(module, "record_memory", Broken)
    with pytest.warns(UserWarning, match="another version of torch"):
        with moescope.profile(profile_memory=True, run=str(tmp_path / "c.mscope")) as profiler:
            profiler.step()
    assert profiler.step_num == 1
