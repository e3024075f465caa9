# SPDX-License-Identifier: Apache-2.0
"""Who shares a run: nobody loses what he asked to keep, and what nobody keeps goes away."""
import gc
import glob
import json
import os
import subprocess
import sys

import pytest

import moescope
from moescope import _library as lib

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
from moe_models import Recount, ids, make  # noqa: E402

CPU = [torch.profiler.ProfilerActivity.CPU]


@pytest.fixture
def model():
    return make("Mixtral")


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    """Temporary runs lie where the test sees them."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    yield
    running = moescope.recording()
    moescope.stop()
    assert not running
    gc.collect()
    assert glob.glob(str(tmp_path / "tmp" / "moescope-*")) == []


def forward(model, *lengths):
    with torch.no_grad():
        for length in lengths:
            model(ids(1, length))


def tokens(run, layer=0):
    return [one["tokens"] for row in lib.table("routing", run, "--layer", str(layer))["rows"]
            for one in row["series"]]


def shown(profiler):
    return [row["tokens"] for row in profiler.wrappers[0].metrics._series()]


def steps(run):
    return [row["step"] for row in lib.table("steps", run)["rows"]]


def with_profile(run):
    profiler = moescope.profile(activities=CPU, run=run)
    with profiler:
        yield
        profiler.step(tokens=3)
    assert profiler.run == os.path.abspath(run or f"moescope-{os.getpid()}.mscope")


def with_start(run):
    assert moescope.start(run) == os.path.abspath(run or f"moescope-{os.getpid()}.mscope")
    yield
    moescope.step(tokens=3)
    moescope.stop()


def with_training(_run):
    training = moescope.integrations.training.TrainingProfile(
        "traces", wait_steps=0, warmup_steps=0, active_steps=3, profile_memory=False)
    training.start(0)
    yield
    training.step(3)
    training.stop()
    assert os.path.dirname(training.profiler.run) == os.path.abspath("traces")


def with_gpu_profiler(_run):
    with moescope.AdvancedGPUProfiler(output_dir="gpu") as profiler:
        yield
        profiler.step(tokens=3)
    assert profiler.run == os.path.abspath("gpu/run.mscope")


KEEPERS = [(with_profile, "a.mscope"), (with_profile, None), (with_start, "a.mscope"),
           (with_start, None), (with_training, None), (with_gpu_profiler, None)]


@pytest.mark.parametrize("keeper, run", KEEPERS)
@pytest.mark.parametrize("order", ["inside", "outlives"])
def test_what_is_to_stay_stays(model, keeper, run, order):
    """A profiler without a run of its own comes first; the run of the other is found afterwards."""
    import moescope.integrations.training  # noqa: F401
    profiler = moescope.MoEProfiler(model).start()
    forward(model, 4)
    other = keeper(run)
    next(other)
    (link,) = glob.glob("*.mscope") + glob.glob("*/*.mscope")
    assert lib.load().moescope_flush() == 0
    assert os.path.islink(link) and tokens(link) == [4]  # there at once
    forward(model, 5)
    if order == "inside":
        next(other, None)
        if moescope.recording():
            forward(model, 6)
        profiler.close()
    else:
        assert shown(profiler) == [4, 5]
        profiler.close()
        next(other, None)
    del profiler
    assert not os.path.islink(link) and os.path.isdir(link)
    assert tokens(link)[:2] == [4, 5]
    assert [row["tokens"] for row in lib.table("steps", link)["rows"]][:2] == [4, 3]


def test_a_temporary_run_goes_with_the_last_who_reads_it(model):
    first = moescope.MoEProfiler(model).start()
    forward(model, 4)
    second = moescope.MoEProfiler(make("Mixtral"))
    with second:
        forward(second._model, 5)
    first.close()
    assert shown(second) == [5]
    second.close()


def test_a_profile_that_is_over_does_not_end_the_routing(model):
    with moescope.profile(activities=CPU, run="a.mscope", schedule=moescope.schedule(
            wait=1, warmup=0, active=1)) as profile:
        profiler = moescope.MoEProfiler(model).start()
        for length in (4, 5):  # also in the step that the profile does not record
            forward(model, length)
            profile.step()
    forward(model, 6)
    assert shown(profiler) == [4, 5, 6]
    assert [row["step"] for row in profiler.wrappers[0].metrics._series()] == [0, 1, 2]
    profiler.stop()
    assert tokens("a.mscope") == [4, 5, 6] and steps("a.mscope") == [0, 1, 2]
    profiler.close()
    assert os.path.isdir("a.mscope")


def test_a_kept_run_joins_one_that_is_there(model):
    for length in (4, 5):
        with moescope.MoEProfiler(model) as profiler, moescope.profile(activities=CPU,
                                                                       run="a.mscope"):
            forward(model, length)
        assert shown(profiler) == [length]
        profiler.close()
    assert sorted(tokens("a.mscope")) == [9] and len(glob.glob("a.mscope/*.mst")) == 2


def test_reports_do_not_land_in_the_layers_of_a_model(model):
    with moescope.MoEProfiler(model, run="a.mscope") as profiler, \
            moescope.AdvancedGPUProfiler(num_experts=4, output_dir="gpu") as reporter:
        forward(model, 4)
        reporter.profile_expert_routing([0, 1, 2], 3)
        reporter.profile_expert_routing([1, 1], 2, layer=1)
        forward(model, 5)
    assert shown(profiler) == [4, 5]
    assert [sum(view.metrics.loads) for view in profiler.wrappers] == [18, 18]
    assert [sum(tokens("a.mscope", layer)) for layer in range(4)] == [9, 9, 3, 2]
    with moescope.AdvancedGPUProfiler(num_experts=4, output_dir="gpu") as reporter:
        reporter.profile_expert_routing([0, 1, 2], 3, layer=2)
    assert tokens(reporter.run, 2) == [3]  # alone: the caller's own numbers


OPEN_STEP = """
import json, sys, torch
import moescope
from moe_models import Recount, ids, make
model = make("Mixtral")
with Recount(model) as recount, moescope.MoEProfiler(model, steps="manual") as profiler, \\
        torch.no_grad():
    for i in range(5):
        model(ids(1, 4 + i))
        moescope.step(tokens=4 + i)
    shown = [view.get_summary()["total_steps"] for view in profiler.wrappers]
    print(json.dumps([shown, [v.metrics.loads for v in profiler.wrappers] == recount.counts()]))
"""


def test_figures_right_behind_the_loop_under_moescope_run():
    here = os.path.dirname(os.path.abspath(__file__))
    done = subprocess.run(
        [lib.tool_path(), "run", "-o", "r.mscope", "--", sys.executable, "-c", OPEN_STEP],
        capture_output=True, text=True,
        env=dict(os.environ, PYTHONPATH=os.pathsep.join([here, os.environ["PYTHONPATH"]])))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [[5, 5], True]
    document = lib.table("steps", "r.mscope")
    assert [row["tokens"] for row in document["rows"]] == [4, 5, 6, 7, 8]
    assert document["total"]["with_set_up"] == 0  # the profiler's start is the program's


def test_a_router_by_itself_leaves_the_steps_of_the_program_alone():
    wrapper = moescope.SimpleRouterWrapper(torch.nn.Linear(4, 4), num_experts=4, top_k=2,
                                           warmup_steps=0)
    moescope.start("a.mscope")
    for rows in (3, 2):
        wrapper(torch.ones(rows, 4))
        wrapper(torch.ones(rows, 4))
        moescope.step()
    moescope.stop()
    assert sum(tokens("a.mscope")) == 10
    assert steps("a.mscope")[-1] == len(steps("a.mscope")) - 1
    del wrapper


def test_the_recount_is_what_the_profiler_shows(model):
    with Recount(model) as recount, moescope.MoEProfiler(model) as profiler:
        forward(model, 4, 5)
        assert [view.metrics.loads for view in profiler.wrappers] == recount.counts()
    recount.remove()


def test_every_call_is_a_step_in_a_program_that_never_starts():
    """Under `moescope run` its first step began with the library: a step with its tokens, whose time
    nobody knows."""
    code = "import moescope\nfor _ in range(8):\n    moescope.step(tokens=5)\n"
    done = subprocess.run([lib.tool_path(), "run", "-o", "r.mscope", "--", sys.executable, "-c", code],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    document = lib.table("steps", "r.mscope")
    assert [row["step"] for row in document["rows"]] == list(range(8))
    total = document["total"]
    assert (total["steps"], total["tokens"], total["with_set_up"]) == (8, 40, 1)
    assert total["time"]["count"] == 7
    assert document["rows"][0]["tokens_per_s"] is None
    assert "set-up" in lib.run_tool("steps", "r.mscope")
