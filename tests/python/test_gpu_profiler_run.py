# SPDX-License-Identifier: Apache-2.0
"""AdvancedGPUProfiler as a program uses it: its run, its files, its life."""
import csv
import json
import os
import subprocess
import sys
import threading

import pytest

import moescope
from moescope import AdvancedGPUProfiler, ProfilerContext, errors, profile_function
from moescope import _library as lib
from moescope.gpu_profiler import reports


@pytest.fixture
def profiler(tmp_path):
    made = AdvancedGPUProfiler(num_experts=4, output_dir=str(tmp_path / "out"))
    yield made
    made.stop_profiling()


def test_the_tool_finds_the_same_figures(profiler):
    """The live figures and those of the run are computed apart and must agree."""
    profiler.start_profiling()
    for step in range(14):
        profiler.profile_memory_allocation(1000, operation="history")
        profiler.profile_memory_allocation(5000, expert_id=1, operation="activations")
        profiler.profile_expert_routing([0, 1], token_count=10)
        profiler.profile_expert_routing([[0, 2], [0, 3], [0, 7]], token_count=3)
        profiler.profile_memory_deallocation(5000, expert_id=1, operation="activations")
        with profiler.profile_kernel_execution("attention_kernel", 2, "attention"):
            pass
        profiler.step(13)
    stats = profiler.get_current_stats()
    leaks = profiler.detect_memory_leaks()
    profiler.stop_profiling()

    row = lib.table("routing", profiler.run)["rows"][0]
    mine = stats["expert_routing"]
    assert row["load"] == mine["tokens_per_expert"] == [14 * 13, 140, 14, 14]
    assert row["utilization_pct"] == pytest.approx(mine["expert_utilization"])
    assert row["balancedness"] == pytest.approx(mine["load_balance_score"])
    assert row["cv"] == pytest.approx(mine["load_cv"])
    assert row["legacy"]["routing_efficiency"] == pytest.approx(mine["routing_efficiency"])
    assert row["cv_excess"] == pytest.approx(mine["load_balance_excess"])
    assert row["invalid"] == mine["invalid_assignments"] == 14
    assert row["tokens"] == mine["total_tokens"] == 14 * 13

    memory = lib.table("memory", profiler.run)["rows"][0]
    assert memory["peak_allocated_bytes"] == 14000 + 5000
    assert memory["peak_allocated_bytes"] == stats["memory"]["peak_memory_mb"] * 1e6
    assert [leak["site"] for leak in memory["leaks"]] == [leak.site for leak in leaks]
    assert leaks[0].bytes_per_step == memory["leaks"][0]["bytes_per_step"] == 1000

    ops = {row["name"]: row["count"] for row in lib.table("ops", profiler.run)["rows"]}
    assert ops["attention_kernel"] == 14


def test_files_and_their_columns(profiler):
    with ProfilerContext(profiler) as p:
        p.profile_memory_allocation(2_000_000, expert_id=0, operation="attention")
        p.profile_kernel_execution("plain", 1, "expert")
        with p.profile_kernel_execution("timed", operation_type="attention"):
            pass
        p.profile_data_transfer(3_000_000, "host_to_device")
        p.profile_expert_routing([0, 1], token_count=10)
    files = profiler.report_files
    with open(files["report"], encoding="utf-8") as text:
        report = json.load(text)
    assert set(report) >= {"timestamp", "profiling_duration", "stats"}
    stats = report["stats"]
    assert set(stats["memory"]) >= {"peak_memory_mb", "current_allocated_mb",
                                    "fragmentation_percent", "allocation_efficiency",
                                    "expert_memory_distribution"}
    assert set(stats["kernel"]) >= {"average_kernel_times", "expert_performance",
                                    "total_kernels_profiled", "slowest_kernel"}
    assert set(stats["data_movement"]) >= {"pcie_bandwidth_gbps", "gpu_memory_bandwidth_gbps",
                                           "total_transfers_mb", "cache_hit_rate",
                                           "transfer_breakdown"}
    assert set(stats["expert_routing"]) >= {"expert_utilization", "load_balance_score",
                                            "routing_efficiency", "imbalanced_experts",
                                            "avg_tokens_per_expert", "total_routing_decisions"}
    assert stats["memory"]["expert_memory_distribution"] == [2.0, 0.0, 0.0, 0.0]
    for part in stats.values():
        for key, value in part.items():
            if value is None and not key.endswith("_reason") and key != "source":
                assert part[key + "_reason"], key

    def rows(kind):
        with open(files[kind], newline="", encoding="utf-8") as text:
            return list(csv.DictReader(text))

    assert list(rows("memory")[0]) == ["timestamp", "allocated_mb", "reserved_mb", "peak_mb",
                                       "fragmentation_percent"]
    kernels = rows("kernels")
    assert list(kernels[0]) == ["timestamp", "kernel_name", "execution_time_ms",
                                "occupancy_percent", "memory_bandwidth_gbps", "expert_id",
                                "operation_type"]
    assert kernels[0]["execution_time_ms"] == "" and kernels[0]["expert_id"] == "1"
    assert float(kernels[1]["execution_time_ms"]) >= 0 and kernels[1]["expert_id"] == ""
    assert rows("routing")[0]["expert_1"] == "10"
    for name in files.values():
        assert os.path.basename(name).rsplit("_", 2)[0] in (
            "profiler_report", "memory_stats", "kernel_stats", "expert_routing", "memory_usage",
            "expert_utilization")


def test_hardware_counters(profiler, tmp_path):
    """What a kernel profiler counted in the same run, by kernels' time."""
    with profiler as p:
        p.profile_memory_allocation(1000)
    before = json.load(open(profiler.report_files["report"], encoding="utf-8"))["stats"]
    assert before["kernel"]["occupancy_percent"] is None and "counters" in before["kernel"]["occupancy_percent_reason"]
    table = tmp_path / "ncu.csv"
    table.write_text(
        '"ID","Process ID","Kernel Name","Device","CC","gpu__time_duration.sum","dram__bytes.sum",'
        '"sm__warps_active.avg.pct_of_peak_sustained_active","lts__t_sector_hit_rate.pct"\n'
        '"","","","","","ns","byte","%","%"\n"0","5","a","0","9.0","3000","6000","80","10"\n'
        '"1","5","b","0","9.0","1000","6000","40","50"\n', encoding="utf-8")
    lib.run_tool("import", str(table), "-o", str(tmp_path / "counted.mscope"))
    for shard in (tmp_path / "counted.mscope").glob("*.mst"):
        shard.rename(os.path.join(profiler.run, shard.name))
    after = json.load(open(profiler.generate_reports()["report"], encoding="utf-8"))["stats"]
    assert after["kernel"]["occupancy_percent"] == pytest.approx(70)
    assert after["kernel"]["memory_bandwidth_gbps"] == pytest.approx(3)
    assert after["data_movement"]["gpu_memory_bandwidth_gbps"] == pytest.approx(3)
    assert after["data_movement"]["cache_hit_rate"] == pytest.approx(20)
    assert "cache_hit_rate_reason" not in after["data_movement"]


def test_plots(profiler):
    pytest.importorskip("matplotlib")
    with profiler as p:
        p.profile_memory_allocation(1000)
        p.profile_expert_routing([0, 1], token_count=10)
    for kind in ("memory_plot", "expert_plot"):
        with open(profiler.report_files[kind], "rb") as image:
            assert image.read(8) == b"\x89PNG\r\n\x1a\n"


def test_without_matplotlib_the_report_says_so(profiler, monkeypatch):
    monkeypatch.setattr("moescope.plots.available", lambda: False)
    with profiler as p:
        p.profile_memory_allocation(1000)
    assert "memory_plot" not in profiler.report_files
    with open(profiler.report_files["report"], encoding="utf-8") as text:
        report = json.load(text)
    assert report["plots"] is None and "pip install matplotlib" in report["plots_reason"]


def test_start_and_stop_twice(profiler):
    assert profiler.stop_profiling() == {}
    profiler.start_profiling()
    first = profiler.run
    profiler.profile_kernel_execution("a")
    profiler.start_profiling()
    assert profiler.run == first
    assert profiler.get_current_stats()["kernel"]["total_kernels_profiled"] == 1
    assert profiler.stop_profiling()
    assert profiler.stop_profiling() == {}
    assert profiler.get_current_stats()["kernel"]["total_kernels_profiled"] == 1
    profiler.start_profiling()  # anew, in a run of its own
    assert profiler.run != first
    assert profiler.get_current_stats()["kernel"]["total_kernels_profiled"] == 0
    reports_of_a_second = profiler.generate_reports(), profiler.generate_reports()
    assert reports_of_a_second[0]["report"] != reports_of_a_second[1]["report"]


def test_switched_off_it_does_nothing(tmp_path):
    profiler = AdvancedGPUProfiler(enable_profiling=False, output_dir=str(tmp_path / "none"))
    with ProfilerContext(profiler) as p:
        p.profile_memory_allocation(10)
        with p.profile_kernel_execution("x"):
            pass
        p.profile_expert_routing([0], token_count=1)
        assert p.get_current_stats()["kernel"]["total_kernels_profiled"] == 0
    assert not os.path.exists(tmp_path / "none")
    assert moescope.run_dir() is None


def test_a_run_that_goes_already_is_shared_and_left_open(tmp_path):
    run = moescope.start(str(tmp_path / "outer.mscope"))
    try:
        with AdvancedGPUProfiler(num_experts=2, output_dir=str(tmp_path / "out")) as p:
            p.profile_expert_routing([0, 1], token_count=5)
            assert p.run == run
        assert moescope.run_dir() == run
        with open(p.report_files["report"], encoding="utf-8") as text:
            assert "still being recorded" in json.load(text)["devices_reason"]
    finally:
        moescope.stop()
    assert lib.table("routing", run)["rows"][0]["load"] == [5, 5]


def test_the_programs_error_is_the_one_seen(profiler, monkeypatch):
    def fails(*_args):
        raise OSError("disk full")
    monkeypatch.setattr(reports, "write", fails)
    with pytest.warns(RuntimeWarning, match="disk full"):
        with pytest.raises(KeyError, match="the model"):
            with ProfilerContext(profiler):
                raise KeyError("the model")
    assert not profiler.is_profiling and moescope.run_dir() is None


def test_decorated_functions(profiler):
    @profile_function(profiler, "work")
    def work(x, *, y):
        """Adds."""
        if y is None:
            raise ValueError("no y")
        return x + y

    assert work(1, y=2) == 3 and work.__doc__ == "Adds."
    profiler.start_profiling()
    assert work(1, y=2) == 3
    with pytest.raises(ValueError, match="no y"):
        work(1, y=None)
    kernel = profiler.get_current_stats()["kernel"]
    assert kernel["total_kernels_profiled"] == 2
    assert kernel["average_kernel_times"]["work"] > 0


def test_reports_from_many_threads(profiler):
    profiler.start_profiling()

    def work():
        for i in range(200):
            profiler.profile_memory_allocation(10, expert_id=i % 4, operation="t")
            with profiler.profile_kernel_execution("k", i % 4):
                pass
            profiler.profile_expert_routing([i % 4], token_count=1)
            profiler.get_current_stats()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stats = profiler.get_current_stats()
    assert stats["expert_routing"]["tokens_per_expert"] == [200] * 4
    assert stats["kernel"]["timed_kernels"] == 800
    assert stats["memory"]["reported"]["live_mb"] == pytest.approx(800 * 10 / 1e6)


def test_history_is_bounded(tmp_path):
    with AdvancedGPUProfiler(2, output_dir=str(tmp_path), max_history=3) as p:
        for _ in range(10):
            p.profile_memory_allocation(1)
            p.profile_kernel_execution("k")
            p.profile_expert_routing([0], token_count=1)
        assert len(p._memory) == len(p._executions.history) == len(p._routings.history) == 3
        assert p.get_current_stats()["expert_routing"]["total_routing_decisions"] == 10


def test_bad_input(profiler, tmp_path):
    with pytest.raises(errors.BadDimensions, match="num_experts"):
        AdvancedGPUProfiler(num_experts=0)
    with pytest.raises(errors.BadDimensions, match="max_history"):
        AdvancedGPUProfiler(max_history=0)
    profiler.start_profiling()
    with pytest.raises(errors.BadDimensions, match="expert_id 4"):
        profiler.profile_memory_allocation(10, expert_id=4)
    with pytest.raises(errors.BadDimensions, match="negative"):
        profiler.profile_memory_allocation(-1)
    with pytest.raises(errors.BadDimensions, match="do not divide"):
        profiler.profile_expert_routing([0, 1, 2], token_count=2)


def test_tensors_and_many_tokens(profiler):
    torch = pytest.importorskip("torch")
    profiler.start_profiling()
    profiler.profile_expert_routing(torch.tensor([[0, 1], [1, 2], [1, -1]]), token_count=3)
    profiler.profile_expert_routing((3,), token_count=10_000)  # more than one piece
    assert profiler.get_current_stats()["expert_routing"]["tokens_per_expert"] == [1, 3, 1, 10_000]
    profiler.stop_profiling()
    assert lib.table("routing", profiler.run)["rows"][0]["load"] == [1, 3, 1, 10_000]


def test_debug_speaks_on_stderr_only(profiler, capsys):
    profiler.debug = True
    with profiler as p:
        p.profile_memory_allocation(10, operation="x")
    seen = capsys.readouterr()
    assert seen.out == "" and "recording into" in seen.err and "wrote" in seen.err


def test_import_needs_nothing_heavy():
    code = ("import sys, moescope; moescope.AdvancedGPUProfiler; "
            "print([m for m in ('torch', 'numpy', 'pandas', 'matplotlib') if m in sys.modules])")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
