# SPDX-License-Identifier: Apache-2.0
"""What guides on profiling a PyTorch training show, with only the import or the program changed."""
import csv
import glob
import gzip
import json
import os
import subprocess
import sys

import pytest

import moescope
from moescope import _library

torch = pytest.importorskip("torch")

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "train_with_profiling.py")


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # runs and traces go to the current directory


def train(*flags):
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    package = os.path.dirname(os.path.dirname(os.path.abspath(moescope.__file__)))
    path = os.pathsep.join([package, *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run([sys.executable, SCRIPT, *flags], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def recorded_steps(folder):
    (run,) = glob.glob(f"{folder}/*.mscope")
    return [row["step"] for row in _library.table("steps", run)["rows"] if row["recorded"]]


def test_a_script_with_profiling_on():
    train("--enable-profiling")
    assert len(glob.glob("profiler_traces/*.pt.trace.json")) == 1
    assert recorded_steps("profiler_traces") == [7, 8, 9]  # after 5 of waiting and 2 of warm-up


def test_a_script_with_every_flag():
    lines = train(
        "--max-steps", "14", "--enable-profiling", "--profiler-output-dir", "./my_traces",
        "--profiler-wait-steps", "3", "--profiler-warmup-steps", "1", "--profiler-active-steps",
        "2", "--profiler-repeat", "2", "--enable-memory-logging", "--memory-log-steps", "5")
    assert recorded_steps("my_traces") == [4, 5, 10, 11]
    assert len(glob.glob("my_traces/*.pt.trace.json")) == 2
    assert not os.path.exists("profiler_traces")
    logged = {line.split("]")[0] for line in lines if line.startswith("[Step ")}
    assert logged == {"[Step 5", "[Step 10"}


def test_programmatic_analysis():
    from moescope import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
                 record_shapes=True) as prof:
        torch.nn.Linear(64, 64)(torch.randn(8, 64)).sum().backward()

    by_cpu = prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=10)
    by_gpu = prof.key_averages().table(sort_by="cuda_time_total", row_limit=10)
    by_memory = prof.key_averages().table(sort_by="self_cpu_memory_usage", row_limit=10)
    assert "aten::addmm" in prof.key_averages().table(row_limit=-1)
    assert all(len(table.splitlines()) == 3 + 10 + 1 + 3 for table in (by_cpu, by_gpu, by_memory))

    prof.export_chrome_trace("trace.json")
    with open("trace.json", encoding="utf-8") as file:
        names = {event["name"] for event in json.load(file)["traceEvents"]}
    assert {"aten::addmm", "forward", "backward"} <= names


def test_sections():
    from moescope import ProfilerActivity, profile, record_function

    model = torch.nn.Linear(16, 16)
    optimizer = torch.optim.AdamW(model.parameters())
    inputs = {"input": torch.randn(4, 16)}
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as prof:
        with record_function("forward_pass"):
            outputs = model(**inputs)
            loss = outputs.sum()
        with record_function("backward_pass"):
            loss.backward()
        with record_function("optimizer_step"):
            optimizer.step()

    print(prof.key_averages().table(sort_by="cuda_time_total", row_limit=10))
    rows = {row.key: row for row in prof.key_averages()}
    for name in ("forward_pass", "backward_pass", "optimizer_step"):
        assert rows[name].count == 1 and rows[name].cpu_time_total > 0
    step = _library.table("steps", prof.run)["rows"][0]
    assert all(step["phases"][phase] > 0 for phase in ("forward", "backward", "optimizer"))


def test_a_trace_for_tensorboard():
    with moescope.profile(
            schedule=moescope.schedule(wait=5, warmup=2, active=3, repeat=1),
            on_trace_ready=moescope.tensorboard_trace_handler("./profiler_traces", use_gzip=True),
            record_shapes=True, profile_memory=True, with_stack=True, with_flops=True) as prof:
        for _ in range(11):
            torch.randn(4, 4) @ torch.randn(4, 4)
            prof.step()
    (path,) = glob.glob("profiler_traces/*.pt.trace.json.gz")
    with gzip.open(path, "rt") as file:
        names = [event["name"] for event in json.load(file)["traceEvents"]]
    assert [n for n in names if n.startswith("ProfilerStep")] == [
        "ProfilerStep#7", "ProfilerStep#8", "ProfilerStep#9"]


def test_gpu_readings_as_csv():
    columns = ("timestamp,name,utilization.gpu,utilization.memory,memory.used,memory.free,"
               "temperature.gpu")
    done = subprocess.run(
        [_library.tool_path(), "smi", f"--query-gpu={columns}", "--format=csv", "-l", "1",
         "--count", "2"], capture_output=True, text=True)
    if done.returncode != 0:
        assert done.stderr.startswith("moescope")
        pytest.skip(done.stderr.strip())
    header, *rows = csv.reader(done.stdout.splitlines(), skipinitialspace=True)
    assert [name.split(" ")[0] for name in header] == columns.split(",")
    assert len(rows) >= 2 and all(len(row) == len(header) for row in rows)


def test_host_memory_beside_a_profile():
    import tracemalloc

    from moescope import profile

    tracemalloc.start()
    with profile():
        kept = [bytearray(1 << 20) for _ in range(4)]
    current, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak >= current > len(kept) << 20


def test_callbacks_by_their_short_names():
    transformers = pytest.importorskip("transformers")
    from moescope import ProfilerCallback, SimpleGPUMemoryCallback

    callback = ProfilerCallback(
        output_dir="./profiler_traces", wait_steps=10, warmup_steps=2, active_steps=3,
        repeat_times=1, record_shapes=False, profile_memory=False, with_stack=False,
        with_flops=False)
    assert isinstance(callback, transformers.TrainerCallback)
    assert isinstance(SimpleGPUMemoryCallback(), transformers.TrainerCallback)
