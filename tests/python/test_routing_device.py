# SPDX-License-Identifier: Apache-2.0
"""Calls with few tokens on a device, whose tensors are kept until the step ends: only of layers that
were seen to leave them alone, only in the order of the step's stream, and as exact as those that are
sent at once."""
import csv
import gc
import weakref

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import moescope  # noqa: E402
from moescope import _library as lib  # noqa: E402
from moescope.routing.device import PROOFS  # noqa: E402
from moescope.routing.session import TIMED_EVERY, TIMED_FIRST  # noqa: E402

from scripted_device import cuda  # noqa: E402, F401
from test_routing_few import Model, loads, want  # noqa: E402

TOGETHER, SINGLY = 2, 3  # launches of a step: all layers and its end, or each of two layers
LONG = TIMED_EVERY + 8


def choices(n, rows=1):
    generator = torch.Generator().manual_seed(n)
    return [torch.stack([torch.randperm(4, generator=generator)[:2] for _ in range(rows)]).tolist()
            for _ in range(n)]


def step(model, rows=1, **more):
    model(torch.ones(rows, 1, dtype=torch.long), **more)


def trusted(model, cuda):
    """Until the layers are kept."""
    for n in range(TIMED_FIRST):
        assert cuda.launches(lambda: step(model)) == SINGLY
    assert cuda.launches(lambda: step(model)) == TOGETHER
    return TIMED_FIRST + 1


def dropped(profiler):
    return lib.table("routing", profiler.run)["loss"]["dropped_device"]


def facts(profiler):
    told = lib.run_tool("sql", profiler.run, "SELECT key, value FROM facts", "--csv")
    return {row[0]: row[1] for row in csv.reader(told.splitlines())}


@pytest.fixture(params=["no_grad", "inference_mode"])
def mode(request):
    with getattr(torch, request.param)():
        yield request.param


@pytest.mark.parametrize("kind", ["counts", "tokens"])
def test_layers_are_counted_together_once_they_are_trusted(cuda, mode, kind):
    chosen = choices(LONG)
    model, launches = Model(chosen), []
    with moescope.MoEProfiler(model, mode=kind) as profiler:
        for _ in chosen:
            launches.append(cuda.launches(lambda: step(model)))
            for recorder in profiler._state.session._recorders.values():
                recorder.fetch()  # or a busy machine has more steps than the device has slots
    assert loads(profiler) == want(chosen)
    assert loads(profiler, 1) == want(chosen, 1)
    assert launches == [SINGLY if n < TIMED_FIRST or n == TIMED_EVERY else TOGETHER
                        for n in range(LONG)]
    assert cuda.asked == TIMED_FIRST  # not in the first, which is looked at closely; once later
    rows = profiler.wrappers[1].metrics.rows()
    assert [row["step"] for row in rows] == [*range(LONG)]
    assert all(row["timestamp"] for row in rows)
    assert {row["phase"] for row in lib.table("routing", profiler.run)["rows"]} == {"decode"}
    if kind == "tokens":
        told = profiler.token_experts()
        assert [told[s].tolist() for s in sorted(told)] == chosen


def test_indices_that_the_model_writes_over(cuda, mode):
    """After the layer has read them, in every step: never kept."""
    chosen = choices(30)
    model = Model(chosen)
    model.first.then = lambda indices, weights: indices.fill_(3)
    with moescope.MoEProfiler(model) as profiler:
        for _ in chosen:
            assert cuda.launches(lambda: step(model)) == SINGLY
    assert loads(profiler) == want(chosen)
    assert loads(profiler, 1) == want(chosen, 1)
    assert dropped(profiler) == 0


def test_weights_that_the_model_writes_over(cuda, mode):
    chosen = choices(30)
    model = Model(chosen)
    model.second.then = lambda indices, weights: weights.fill_(9)
    with moescope.MoEProfiler(model) as profiler:
        for _ in chosen:
            assert cuda.launches(lambda: step(model)) == SINGLY
    assert loads(profiler) == want(chosen)


def test_a_write_that_torch_does_not_count(cuda):
    """As by a kernel of somebody else's: the values tell."""
    chosen = choices(30)
    model = Model(chosen)
    model.first.then = lambda indices, weights: indices.numpy().fill(3)
    with moescope.MoEProfiler(model) as profiler, torch.no_grad():
        for _ in chosen:
            assert cuda.launches(lambda: step(model)) == SINGLY
    assert loads(profiler) == want(chosen)


def test_a_model_that_begins_to_write_over_them(cuda):
    """The count of writes tells: what is gone is a loss, and nothing is kept any more."""
    chosen = choices(30)
    model = Model(chosen)
    with moescope.MoEProfiler(model) as profiler, torch.no_grad():
        seen = trusted(model, cuda)
        model.first.then = lambda indices, weights: indices.fill_(3)
        for _ in chosen[seen:]:
            step(model)
    good = chosen[:seen] + chosen[seen + 1:]
    assert loads(profiler) == want(good)
    assert loads(profiler, 1) == want(chosen, 1)
    assert dropped(profiler) == 1


def test_a_model_that_begins_so_in_inference_mode(cuda):
    """No count of writes: it is noticed when it is tried again, and said what is in doubt."""
    chosen = choices(LONG)
    model = Model(chosen)
    with moescope.MoEProfiler(model) as profiler, torch.inference_mode():
        seen = trusted(model, cuda)
        model.first.then = lambda indices, weights: indices.fill_(3)
        with pytest.warns(RuntimeWarning, match="counts may be wrong"):
            for _ in chosen[seen:]:
                step(model)
    assert loads(profiler)[TIMED_EVERY:] == want(chosen[TIMED_EVERY:])
    assert loads(profiler, 1) == want(chosen, 1)
    assert f"in {TIMED_EVERY - TIMED_FIRST} steps before" in facts(profiler)["routing on cuda:0"]


def test_an_answer_that_comes_when_it_is_too_late(cuda):
    """Of a question before the model began to write over its choices."""
    chosen = choices(LONG + 10)
    model = Model(chosen)
    with moescope.MoEProfiler(model) as profiler, torch.no_grad():
        for n in range(TIMED_EVERY + 1):
            cuda.slow = n == TIMED_EVERY
            step(model)
        model.first.then = lambda indices, weights: indices.fill_(3)
        step(model)
        cuda.slow = False
        for _ in chosen[TIMED_EVERY + 2:]:
            assert cuda.launches(lambda: step(model)) == SINGLY
    assert loads(profiler) == want(chosen[:TIMED_EVERY + 1] + chosen[TIMED_EVERY + 2:])
    assert dropped(profiler) == 1


def test_an_answer_that_is_slow(cuda, mode):
    """Nothing is kept, nothing is asked again, nobody waits."""
    chosen = choices(TIMED_FIRST + 40)
    model = Model(chosen)
    cuda.slow = True
    with moescope.MoEProfiler(model) as profiler:
        for _ in range(TIMED_FIRST + 10):
            assert cuda.launches(lambda: step(model)) == SINGLY
        assert cuda.asked == 1
        cuda.slow = False
        launches = [cuda.launches(lambda: step(model)) for _ in range(30)]
    assert launches == [SINGLY] * (PROOFS - 1) + [TOGETHER] * (30 - PROOFS + 1)
    assert cuda.asked == PROOFS
    assert loads(profiler) == want(chosen)


def test_other_rows_are_tried_anew(cuda, mode):
    few, more, many = choices(TIMED_FIRST + 1), choices(12, rows=3), choices(2, rows=33)
    model, launches = Model(few + more + many), []
    with moescope.MoEProfiler(model) as profiler:
        trusted(model, cuda)
        for one in more + many:
            launches.append(cuda.launches(lambda: step(model, len(one))))
    assert launches == [SINGLY] * (PROOFS + 1) + [TOGETHER] * (12 - PROOFS - 1) + [SINGLY] * 2
    assert loads(profiler) == want(few + more + many)


def test_a_layer_on_another_stream(cuda, mode):
    """It is sent at once, on its own stream, where the program has ordered it."""
    chosen = choices(TIMED_FIRST + 4)
    model = Model(chosen)
    first = model.first
    with moescope.MoEProfiler(model) as profiler:
        trusted(model, cuda)

        def aside(*args):
            with cuda.stream(9):
                return first(*args)
        model.__dict__["first"] = aside
        assert cuda.launches(lambda: step(model)) == SINGLY
        del model.__dict__["first"]
        assert cuda.launches(lambda: step(model)) == TOGETHER
        assert not cuda.waits
    assert loads(profiler) == want(chosen[:-1])


def test_a_step_that_ends_on_another_stream(cuda, mode):
    """Its end waits for the layers, once: then all are sent at once again."""
    chosen = choices(TIMED_FIRST + 6)
    model = Model(chosen)
    with moescope.MoEProfiler(model) as profiler:
        trusted(model, cuda)
        model.second.then = lambda indices, weights: setattr(cuda, "raw", 9)
        step(model)
        assert cuda.waits == [(9, 7)]
        for raw in (7, 7, 7):
            cuda.raw = raw
            assert cuda.launches(lambda: step(model)) == SINGLY
        assert cuda.waits == [(9, 7)]
    assert loads(profiler) == want(chosen[:-1])
    assert loads(profiler, 1) == want(chosen[:-1], 1)


def test_steps_in_a_graph(cuda):
    """Each layer's launch is in the graph, also of a graph that begins inside a step."""
    chosen = choices(TIMED_FIRST + 5)
    model = Model(chosen)
    with moescope.MoEProfiler(model) as profiler, torch.no_grad():
        seen = trusted(model, cuda)
        held = []
        model.first.then = model.second.then = lambda *tensors: held.append(tensors)
        with cuda.graph():
            assert cuda.launches(lambda: step(model)) == SINGLY
        cuda.driver.replay()
        cuda.driver.replay()
        second = model.second

        def inside(*args):
            with cuda.graph():
                second(*args)
        model.__dict__["second"] = inside
        assert cuda.launches(lambda: step(model)) == SINGLY  # the first is kept, and sent behind it
        del model.__dict__["second"]
        cuda.driver.replay()
        step(model)
        assert profiler._state.session._recorders[torch.device("cuda", 0)].captured
    got = [[row["load"] for row in lib.table("routing", profiler.run, "--layer", str(layer))["rows"][0]
            ["series"]] for layer in (0, 1)]
    graph, late = chosen[seen], chosen[seen + 1]
    assert got[0] == want(chosen[:seen] + [graph, graph, late, chosen[seen + 2]])
    both = [a + b for a, b in zip(*want([late, chosen[seen + 2]], 1))]
    assert got[1][:seen + 2] == want(chosen[:seen] + [graph, graph], 1)
    assert got[1][seen + 2:] == [both]  # the replay is in the step that is open then


def test_a_step_that_raises(cuda, mode):
    chosen = choices(TIMED_FIRST + 4)
    model = Model(chosen)

    def stumble(indices, weights):
        raise RuntimeError("out of memory")
    with moescope.MoEProfiler(model) as profiler:
        seen = trusted(model, cuda)
        model.first.then = stumble
        with pytest.raises(RuntimeError, match="out of memory"):
            step(model)
        model.first.then = lambda indices, weights: None
        step(model)
    assert loads(profiler) == want(chosen[:seen + 2])
    assert loads(profiler, 1) == want(chosen[:seen] + chosen[seen + 1:seen + 2], 1)


def test_other_forms_of_tensors(cuda, mode):
    """Not contiguous, of another type: right, one by one."""
    chosen = choices(TIMED_FIRST + 5)
    model, real = Model(chosen), torch.tensor
    forms = [lambda t: t.to(torch.int32), lambda t: torch.stack([t, t], -1)[..., 0],
             lambda t: t.to(torch.int16)]
    with moescope.MoEProfiler(model) as profiler, pytest.MonkeyPatch.context() as patch:
        seen = trusted(model, cuda)
        for form in forms:
            patch.setattr(torch, "tensor", lambda values, form=form: form(real(values)))
            patch.setattr(torch.Tensor, "clone", lambda t: t)
            step(model)
    assert loads(profiler) == want(chosen[:seen + 3])
    assert loads(profiler, 1) == want(chosen[:seen + 3], 1)


def test_padding(cuda, mode):
    chosen = choices(TIMED_FIRST + 6, rows=2)
    model, masks, launches = Model(chosen), [[1, 1], [0, 1], [1, 0]] * 10, []
    with moescope.MoEProfiler(model) as profiler:
        for _, mask in zip(chosen, masks):
            launches.append(cuda.launches(lambda: step(
                model, 2, attention_mask=torch.tensor(mask).reshape(2, 1))))
    assert launches == [SINGLY] * TIMED_FIRST + [TOGETHER] * 6
    real = [[row for row, token in zip(rows, mask) if token] for rows, mask in zip(chosen, masks)]
    assert loads(profiler) == want(real)
    assert loads(profiler, 1) == want(real, 1)


def test_with_gradients_nothing_is_kept(cuda):
    """Nor is it tried."""
    chosen = choices(TIMED_FIRST + 4)
    model = Model(chosen)
    with moescope.MoEProfiler(model) as profiler:
        with torch.no_grad():
            seen = trusted(model, cuda)
        asked = cuda.asked
        for _ in chosen[seen:]:
            assert cuda.launches(lambda: step(model)) == SINGLY
        assert cuda.asked == asked
    assert loads(profiler) == want(chosen)


def test_tensors_are_held_for_one_more_step_and_no_longer(cuda, mode):
    chosen = choices(TIMED_FIRST + 6)
    model, seen = Model(chosen), []
    with moescope.MoEProfiler(model) as profiler:
        trusted(model, cuda)
        model.first.then = lambda *tensors: seen.append([weakref.ref(t) for t in tensors])

        def alive():
            gc.collect()
            return [all(ref() is not None for ref in refs) for refs in seen]
        step(model)
        assert alive() == [True]
        step(model)
        assert alive() == [True, True]
        step(model)
        assert alive() == [False, True, True]
    assert alive() == [False] * 3
    assert loads(profiler) == want(chosen[:-2])


def test_a_device_that_is_lost(cuda, mode):
    model = Model(choices(TIMED_FIRST + 6))
    with moescope.MoEProfiler(model) as profiler:
        seen = trusted(model, cuda)
        cuda.driver.fail_call(b"cuLaunchKernel", 719)
        with pytest.warns(RuntimeWarning, match="not captured.*cuLaunchKernel"):
            step(model)
        cuda.driver.fail_call(None, 0)
        step(model)
    assert len(loads(profiler)) == seen


def test_a_trial_that_finds_no_memory(cuda, mode, monkeypatch):
    chosen = choices(24)
    model = Model(chosen)

    def none(*_args):
        raise RuntimeError("CUDA out of memory")
    with moescope.MoEProfiler(model) as profiler:
        step(model)
        monkeypatch.setattr(torch, "cat", none)
        for _ in chosen[1:]:
            assert cuda.launches(lambda: step(model)) == SINGLY
    assert loads(profiler) == want(chosen)
    assert "CUDA out of memory" in facts(profiler)["routing on cuda:0"]


def test_reading_and_stopping_inside_a_step(cuda, mode):
    chosen = choices(TIMED_FIRST + 8)
    model, seen = Model(chosen), []
    profiler = moescope.MoEProfiler(model).start()
    n = trusted(model, cuda)

    def look(indices, weights):
        seen.append(len(profiler.wrappers[0].metrics.rows()))
        if len(seen) == 3:
            profiler.stop()
    model.second.then = look
    for _ in range(5):
        step(model)
    assert seen == [n, n + 1, n + 2, n + 3, n + 3]  # the device has completed the steps before
    assert loads(profiler) == want(chosen[:n + 3])
    assert loads(profiler, 1) == want(chosen[:n + 3], 1)


def test_steps_of_the_program(cuda, tmp_path):
    """Several forwards in one step of the program."""
    chosen = choices(3)
    model = Model(chosen)
    moescope.start(str(tmp_path / "a.mscope"))
    with moescope.MoEProfiler(model, steps="manual") as profiler, torch.no_grad():
        for forwards in (2, 1):
            for _ in range(forwards):
                step(model)
            moescope.step()
    moescope.stop()
    first, second, third = want(chosen)
    assert loads(profiler) == [[a + b for a, b in zip(first, second)], third]
