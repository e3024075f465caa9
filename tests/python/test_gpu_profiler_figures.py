# SPDX-License-Identifier: Apache-2.0
"""The live figures of AdvancedGPUProfiler by hand counts, and their bounds."""
import pytest

from moescope import errors
from moescope.gpu_profiler import dashboard, indices
from moescope.gpu_profiler.statistics import (Allocations, Execution, Executions, LeakWatch,
                                              Routings, Transfers)
from moescope.routing.summary import cv as variation
from moescope.gpu_profiler.timing import Clock

REFERENCE = [90, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86]


def test_reference_value_of_cv():
    assert variation(REFERENCE) == pytest.approx(0.588993, abs=1e-6)
    assert variation([0, 0]) is None


def test_routing_summary():
    routings = Routings(4, 10)
    assert routings.summary()["load_balance_score"] is None
    assert routings.summary()["expert_utilization"] is None
    routings.add(8, [12, 4, 0, 0], 2)
    found = routings.summary()
    assert found["expert_utilization"] == [75.0, 25.0, 0.0, 0.0]
    cv = variation([12, 4, 0, 0])
    assert found["load_balance_score"] == pytest.approx(4 / 12)  # 1 is even
    assert found["load_cv"] == cv
    assert found["routing_efficiency"] == pytest.approx(100 - 10 * cv)
    assert found["imbalanced_experts"] == [0, 2, 3]  # under half or over 1.5 of the mean, 4
    assert found["avg_tokens_per_expert"] == 4
    assert (found["total_routing_decisions"], found["invalid_assignments"]) == (16, 2)
    # chance at T=8, k=2, E=4: sqrt(2/16)
    assert found["load_balance_excess"] == pytest.approx((cv * cv - 2 / 16) ** 0.5)


def test_frees_end_the_allocation_with_the_same_description():
    live = Allocations(4)
    first = live.add(100, 1, "expert")
    second = live.add(100, 1, "expert")
    other = live.add(50, None, "attention")
    assert len({first, second, other}) == 3
    assert live.remove(100, 1, "expert") == [first]
    assert live.expert_bytes == [0, 100, 0, 0]
    assert live.remove(50, None, "attention") == [other]
    assert (live.live_bytes, live.peak_bytes, live.unmatched_frees) == (100, 250, 0)
    assert live.remove(100, 2, "expert") == []
    assert live.unmatched_frees == 1 and live.live_bytes == 100


def test_one_free_of_several_allocations():
    live = Allocations(1)
    addresses = [live.add(size, None, "cache") for size in (30, 20, 20)]
    assert sorted(live.remove(50, None, "cache")) == sorted(addresses[:2])
    assert (live.live_bytes, live.unmatched_frees) == (20, 0)
    live.remove(70, None, "cache")
    assert (live.live_bytes, live.unmatched_frees) == (0, 1)
    assert live.site_bytes == {}


def test_allocations_that_come_and_go_leave_nothing_behind():
    live = Allocations(1)
    for size in range(1, 2000):
        live.add(size, 0, "work")
        live.remove(size, 0, "work")
    assert live._live == {} and live.site_bytes == {}


def test_leaks_need_growth_in_eight_of_ten_steps():
    watch = LeakWatch()
    for step in range(10):
        watch.step({"grows": 100 * step, "stays": 500, "once": 0 if step < 5 else 900})
        assert not watch.suspects().known
    watch.step({"grows": 1000, "stays": 500, "once": 900})
    found = watch.suspects()
    assert found.known and [leak.site for leak in found] == ["grows"]
    assert (found[0].bytes_per_step, found[0].live_bytes, found[0].grew_steps) == (100, 1000, 10)


def test_growth_below_one_percent_is_no_leak():
    watch = LeakWatch()
    for step in range(11):
        watch.step({"slow": 100000 + 90 * step})
    assert watch.suspects() == [] and watch.suspects().known


def test_executions_without_a_time_are_unknown_not_zero():
    executions = Executions(4)
    for _ in range(3):
        executions.begin(Execution("plain", 2, "expert"))
    timed = Execution("timed", 1, "attention")
    executions.begin(timed)
    executions.time(timed, 2.0)
    found = executions.summary()
    assert found["average_kernel_times"] == {"plain": None, "timed": 2.0}
    assert found["expert_performance"][2] == {"avg_time_ms": None, "total_calls": 3}
    assert found["slowest_kernel"] == "timed" and found["attention_time_ms"] == 2.0
    assert found["total_kernels_profiled"] == 4 and found["timed_kernels"] == 1


def test_names_and_history_are_bounded():
    executions = Executions(5)
    for i in range(100):
        executions.begin(Execution(f"kernel {i}", None, "x"))
    assert len(executions.history) == 5
    assert len(executions.names) == 6 and executions.names["(other)"].calls == 95
    assert executions.total == 100


def test_bandwidth_only_of_what_the_device_timed():
    transfers = Transfers()
    transfers.add("host_to_device", 4_000_000_000)
    assert transfers.summary()["pcie_bandwidth_gbps"] is None
    transfers.time("host_to_device", 4_000_000_000, 500.0, on_device=False)
    assert "host's clock" in transfers.summary()["pcie_bandwidth_gbps_reason"]
    assert transfers.summary()["transfer_breakdown"]["host_to_device"]["bandwidth_gbps"] == 8.0
    transfers.time("host_to_device", 4_000_000_000, 500.0, on_device=True)
    assert transfers.summary()["pcie_bandwidth_gbps"] == 8.0
    assert transfers.summary()["gpu_memory_bandwidth_gbps"] is None


def test_two_forms_of_indices():
    assert indices.count([0, 1], 10, 4) == [10, 10, 0, 0, 0]
    assert indices.count([[0, 1], [1, 3]], 2, 4) == [1, 2, 0, 1, 0]
    assert indices.count([0, 1, 1, 9], 2, 4) == [1, 2, 0, 0, 1]
    for bad, tokens in (([0, 1, 2], 2), ([], 3), ([0], 0)):
        with pytest.raises(errors.BadDimensions):
            indices.count(bad, tokens, 4)


class FakeEvent:
    """A CUDA event that passes when the test says so."""

    def __init__(self, enable_timing=False):
        self.passed = False

    def record(self):
        pass

    def query(self):
        return self.passed

    def synchronize(self):
        self.passed = True

    def elapsed_time(self, _end):
        return 3.0


class FakeCuda:
    Event = FakeEvent
    capturing = False

    @classmethod
    def is_current_stream_capturing(cls):
        return cls.capturing


def test_events_are_read_when_the_device_has_passed_them(monkeypatch):
    monkeypatch.setattr("moescope.gpu_profiler.timing.cuda", lambda: FakeCuda)
    clock, times = Clock(2), []
    begun = clock.begin()
    clock.end(begun, times.append)
    clock.collect()
    assert times == []  # not passed: nothing waits
    clock.collect(wait=True)
    assert times == [3.0]
    for _ in range(4):
        clock.end(clock.begin(), times.append)
    assert clock.lost == 2 and len(clock._waiting) == 2
    monkeypatch.setattr(FakeCuda, "capturing", True)
    assert clock.begin() is None
    clock.end(None, times.append)
    assert times == [3.0]


def test_dashboard_says_na():
    from moescope.gpu_profiler.memory_figures import memory_summary
    stats = {"memory": memory_summary(Allocations(2), LeakWatch().suspects()),
             "kernel": Executions(2).summary(), "data_movement": Transfers().summary(),
             "expert_routing": Routings(2, 2).summary()}
    text = dashboard.text(stats)
    for line in ("Attention kernels:   n/a", "PCIe bandwidth:      n/a", "Cache hit rate:      n/a",
                 "Load balance score:  n/a", "Expert utilization:  n/a"):
        assert line in text
    stats["expert_routing"].update(load_balance_score=0.4, load_balance_excess=0.35,
                                   expert_utilization=[70.0, 30.0])
    text = dashboard.text(stats)
    assert "0.40 (Poor; 1 is even)" in text and "[70.0%, 30.0%]" in text
    assert dashboard.word(0.0, dashboard.BALANCE) == "Good"
