# SPDX-License-Identifier: Apache-2.0
"""schedule, and when on_trace_ready is called: torch.profiler is the reference."""
import itertools
import warnings

import pytest

import moescope

torch = pytest.importorskip("torch")

PARAMETERS = list(itertools.product((0, 1, 3), (0, 1, 2), (1, 2, 3), (0, 1, 2), (0, 2), (0, 1)))
NAMES = ("wait", "warmup", "active", "repeat", "skip_first", "skip_first_wait")


def torch_schedule(**options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns when there is no warm-up
        return torch.profiler.schedule(**options)


def test_schedule_gives_the_actions_of_torch():
    for values in PARAMETERS:
        options = dict(zip(NAMES, values))
        theirs = torch_schedule(**options)
        ours = moescope.schedule(**options)
        assert [ours(i).value for i in range(40)] == [theirs(i).value for i in range(40)], options


@pytest.mark.parametrize("wrong", [{"active": 0}, {"wait": -1}, {"warmup": -1}, {"repeat": -1},
                                   {"skip_first": -1}])
def test_schedule_refuses_what_has_no_meaning(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        moescope.schedule(**{**dict(wait=0, warmup=0, active=1), **wrong})


def calls(make, schedule, steps):
    """When on_trace_ready was called, and how many multiplications that window has."""
    seen = []
    x = torch.ones(2, 2)

    def ready(profiler):
        counts = {row.key: row.count for row in profiler.key_averages()}
        seen.append((profiler.step_num, counts.get("aten::mm", 0)))
    with make(schedule=schedule, on_trace_ready=ready,
              activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        for _ in range(steps):
            torch.mm(x, x)
            profiler.step()
    return seen


@pytest.mark.parametrize("options, steps", [
    (dict(wait=1, warmup=1, active=2, repeat=1), 8),
    (dict(wait=1, warmup=1, active=2, repeat=2), 10),
    (dict(wait=0, warmup=0, active=1), 3),
    (dict(wait=1, warmup=0, active=2, skip_first=2), 9),
    (dict(wait=0, warmup=1, active=3), 3),  # cut inside the window
    (dict(wait=5, warmup=2, active=3), 4),  # never comes to a window
    (dict(wait=0, warmup=3, active=3), 2),  # cut in the warm-up
])
def test_windows_are_those_of_torch(tmp_path, options, steps):
    def ours(**kwargs):
        return moescope.profile(run=str(tmp_path / "a.mscope"), **kwargs)
    expected = calls(torch.profiler.profile, torch_schedule(**options), steps)
    assert calls(ours, moescope.schedule(**options), steps) == expected


def test_without_a_schedule_the_block_is_one_window(tmp_path):
    def ours(**kwargs):
        return moescope.profile(run=str(tmp_path / "a.mscope"), **kwargs)
    assert calls(ours, None, 3) == calls(torch.profiler.profile, None, 3) == [(3, 3)]


def test_schedules_of_torch_and_functions_of_the_user_are_taken(tmp_path):
    def ours(**kwargs):
        return moescope.profile(run=str(tmp_path / "a.mscope"), **kwargs)
    expected = calls(ours, moescope.schedule(wait=1, warmup=0, active=1, repeat=1), 4)
    assert calls(ours, torch_schedule(wait=1, warmup=0, active=1, repeat=1), 4) == expected
    action = moescope.ProfilerAction
    assert calls(ours, lambda step: action.RECORD_AND_SAVE if step == 1 else action.NONE,
                 4) == expected == [(2, 1)]


def test_a_schedule_that_gives_something_else_is_named(tmp_path):
    with pytest.raises(ValueError, match="ProfilerAction"):
        moescope.profile(schedule=lambda step: "record", run=str(tmp_path / "a.mscope"))


def test_importing_moescope_imports_neither_torch_nor_pandas():
    import subprocess
    import sys
    code = ("import sys, moescope; moescope.schedule(wait=0, warmup=0, active=1); "
            "moescope.add_arguments; moescope.record_function; "
            "print([n for n in ('torch', 'numpy', 'pandas', 'transformers') if n in sys.modules])")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
