# SPDX-License-Identifier: Apache-2.0
"""Trace files for Chrome, Perfetto and TensorBoard."""
import gzip
import json
import os
import re
import warnings

import pytest

import moescope
from moescope import _library

torch = pytest.importorskip("torch")

CPU = [torch.profiler.ProfilerActivity.CPU]


def profiled(run, **options):
    with moescope.profile(activities=CPU, run=run, **options) as profiler:
        with moescope.record_function("mine"):
            torch.nn.Linear(4, 4)(torch.ones(2, 4)).sum().backward()
    return profiler


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_chrome_trace(tmp_path, name):
    run, path = str(tmp_path / "a.mscope"), str(tmp_path / name)
    profiled(run, record_shapes=True).export_chrome_trace(path)
    with (gzip.open if name.endswith(".gz") else open)(path, "rt") as file:
        document = json.load(file)
    spans = {e["name"]: e for e in document["traceEvents"] if e.get("ph") == "X"}
    assert spans["aten::addmm"]["cat"] == "cpu_op"
    assert spans["aten::addmm"]["args"]["Input Dims"][1:3] == [[2, 4], [4, 4]]
    inside = spans["mine"]["ts"], spans["mine"]["ts"] + spans["mine"]["dur"]
    for name in ("forward", "backward", "aten::addmm"):
        assert inside[0] <= spans[name]["ts"] <= inside[1]
    assert document["moescope"] == {"version": moescope.__version__, "run": run}
    assert sorted(os.listdir(tmp_path)) == sorted(["a.mscope", os.path.basename(path)])


def test_a_trace_that_cannot_be_written_leaves_nothing(tmp_path):
    profiler = profiled(str(tmp_path / "a.mscope"))
    with pytest.raises(Exception):
        profiler.export_chrome_trace(str(tmp_path / "no" / "such" / "trace.json"))
    assert os.listdir(tmp_path) == ["a.mscope"]


@pytest.mark.parametrize("name, told", [("größe.mscope", True), ('a"b.mscope', False)])
def test_names_of_runs_leave_the_trace_readable(tmp_path, name, told):
    path = str(tmp_path / "trace.json")
    profiler = profiled(str(tmp_path / name))
    profiler.export_chrome_trace(path)
    with open(path, encoding="utf-8") as file:
        run = json.load(file)["moescope"]["run"]
    assert run == (profiler.run if told else None)


def test_a_trace_can_be_written_twice(tmp_path):
    profiler = profiled(str(tmp_path / "a.mscope"))
    first, second, third = (str(tmp_path / name) for name in ("1.json.gz", "2.json", "3.json.gz"))
    profiler.export_chrome_trace(first)
    profiler.export_chrome_trace(second)
    profiler.export_chrome_trace(third)
    with open(second, "rb") as file:
        text = file.read()
    assert json.loads(text)["traceEvents"]
    for path in (first, third):
        with gzip.open(path, "rb") as file:
            assert file.read() == text
    os.unlink(first)
    with pytest.raises(moescope.NotCaptured, match="keep that file"):
        profiler.export_chrome_trace(third)


@pytest.mark.parametrize("use_gzip", [False, True])
def test_tensorboard_handler_writes_a_file_a_window(tmp_path, use_gzip):
    folder = tmp_path / "new" / "log"
    x = torch.ones(2, 2)
    with moescope.profile(
            activities=CPU, run=str(tmp_path / "a.mscope"),
            schedule=moescope.schedule(wait=0, warmup=1, active=1, repeat=2),
            on_trace_ready=moescope.tensorboard_trace_handler(str(folder), "worker0", use_gzip),
    ) as profiler:
        for _ in range(5):
            x @ x
            profiler.step()
    names = sorted(os.listdir(folder))
    end = r"\.json\.gz" if use_gzip else r"\.json"
    assert len(names) == 2
    assert all(re.fullmatch(r"worker0\.\d+\.pt\.trace" + end, name) for name in names)
    for name, step in zip(names, (1, 3)):
        with (gzip.open if use_gzip else open)(folder / name, "rt") as file:
            document = json.load(file)
        steps = [e["name"] for e in document["traceEvents"] if e["name"].startswith("ProfilerStep")]
        assert steps == [f"ProfilerStep#{step}"]  # what TensorBoard's plugin counts steps by
        assert "schemaVersion" in document and "deviceProperties" in document


def test_the_default_worker_is_this_process(tmp_path):
    profiler = profiled(str(tmp_path / "a.mscope"))
    moescope.tensorboard_trace_handler(str(tmp_path / "log"))(profiler)
    assert re.fullmatch(rf".+_{os.getpid()}\.\d+\.pt\.trace\.json",
                        os.listdir(tmp_path / "log")[0])


def test_metadata_is_in_the_files_and_the_run(tmp_path):
    run = str(tmp_path / "a.mscope")
    prof = moescope.profile(run=run)
    prof.add_metadata("before", "early")
    with prof:
        torch.ones(2) + 1
        prof.add_metadata("said", 'a "word" \\ and\nmore')
        prof.add_metadata_json("sizes", json.dumps({"batch": [1, 2], "path": "C:\\x"}))
        with pytest.raises(ValueError, match="'bad' is no JSON"):
            prof.add_metadata_json("bad", "{")
        with pytest.raises(TypeError, match="value is 3"):
            prof.add_metadata("n", 3)
    path = str(tmp_path / "t.json")
    prof.export_chrome_trace(path)
    with open(path) as f:
        trace = json.load(f)
    assert trace["before"] == "early" and trace["said"] == "a 'word' / and more"
    assert trace["sizes"] == {"batch": [1, 2], "path": "C:/x"}
    rows = json.loads(_library.run_tool("sql", run, "select key, value from facts", "--json"))["rows"]
    facts = dict(rows)
    assert facts["before"] == "early" and facts["said"] == 'a "word" \\ and\nmore'


def test_events_of_all_windows(tmp_path):
    """acc_events: two windows of one step with three additions each."""
    with moescope.profile(run=str(tmp_path / "a.mscope"), acc_events=True,
                          schedule=moescope.schedule(wait=1, warmup=0, active=1)) as prof:
        for _ in range(4):
            for _ in range(3):
                torch.ones(2) + 1
            prof.step()
    assert {row.key: row.count for row in prof.key_averages()}["aten::add"] == 6


def test_collection_off_and_on(tmp_path):
    with moescope.profile(run=str(tmp_path / "a.mscope"),
                          activities=[moescope.ProfilerActivity.CPU]) as prof:
        torch.ones(2) + 1
        prof.toggle_collection_dynamic(False, [moescope.ProfilerActivity.CPU])
        torch.ones(2) * 2
        prof.toggle_collection_dynamic(True, [moescope.ProfilerActivity.CPU])
        torch.ones(2) - 1
    names = {row.key for row in prof.key_averages()}
    assert {"aten::add", "aten::sub"} <= names and "aten::mul" not in names


def test_timeline_of_memory(tmp_path):
    with moescope.profile(run=str(tmp_path / "a.mscope"), record_shapes=True, profile_memory=True,
                          with_stack=True) as prof:
        layer = torch.nn.Linear(8, 8)
        layer(torch.ones(2, 8)).sum().backward()
    path = str(tmp_path / "m.json")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch gives it up some day
        prof.export_memory_timeline(path, device="cpu")
    with open(path) as f:
        times, sizes = json.load(f)
    assert len(times) == len(sizes) > 1
    plain = profiled(str(tmp_path / "b.mscope"))
    with pytest.raises(ValueError, match="record_shapes=True, profile_memory=True, with_stack=True"):
        plain.export_memory_timeline(path)
