# SPDX-License-Identifier: Apache-2.0
"""Figures of steps and layers in TensorBoard, MLflow and W&B, read back by their own readers: they equal what
the tool says of the run, no trouble there reaches the training, and the program's own rows stay as they are."""
import json
import math
import os
import struct
import subprocess
import sys
import threading
import time
import warnings
from ctypes import byref, c_int32

import pytest
from loggers import need

import moescope
from moescope import _library as lib
from moescope import api
from moescope.integrations import training
from moescope.logs import figures, live

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
from moe_models import ids, make  # noqa: E402

PATIENCE_S = 120


@pytest.fixture(autouse=True)
def alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield
    moescope.stop()
    assert live._open == []


class Kept(dict):
    """A function as a target: {step: {name: value}}."""

    def __call__(self, step, values):
        self.setdefault(step, {}).update(values)


def train(until=lambda: True, least=6, tokens=7):
    """Steps of a model, at least some, and until a condition holds."""
    model = make("Mixtral")
    end = time.monotonic() + PATIENCE_S

    def steps():
        done = 0
        with torch.no_grad():
            while done < least or not until():
                model(ids(1, tokens))
                done += 1
                assert time.monotonic() < end, "it does not happen"
    return model, steps


def of_run(run):
    return {one.step: one.values for one in figures.of_run(run, None)}


def route(layer, experts, rows, **options):
    """Rows of chosen experts, as a program reports them."""
    flat = (c_int32 * sum(map(len, rows)))(*(e for row in rows for e in row))
    lib.load().moescope_route(byref(lib.Routing(
        layer=layer, experts=experts, k=len(rows[0]), tokens=len(rows), indices=lib.ctypes.addressof(flat),
        indices_type=lib.I32, **options)))


def reading(device, name, value):
    lib.load().moescope_device_sample(device, api.intern(name), value)


def test_each_figure_of_a_run_made_by_hand():
    moescope.start("a.mscope")
    for _ in range(2):
        # Layer 0 in two calls: loads 3, 2, 1, 0; one assignment that found its expert full.
        route(0, 4, [[0, 1], [0, 2]])
        route(0, 4, [[0, 1], [lib.SLOT_DROPPED, lib.SLOT_UNUSED]])
        route(3, 2, [[0], [1]])
        reading(1, "memory_used_bytes", 3e9)
        reading(1, "memory_used_bytes", 2e9)
        moescope.step(tokens=50)
    moescope.stop()
    found = of_run("a.mscope")
    rows = {row["step"]: row for row in lib.table("steps", "a.mscope")["rows"] if not row["unfinished"]}
    assert sorted(found) == sorted(rows) and len(found) == 2
    for step, values in found.items():
        assert values.pop("moescope/step_ms") == pytest.approx(rows[step]["time_ns"] / 1e6)
        assert values.pop("moescope/tokens_per_s") == pytest.approx(50e9 / rows[step]["time_ns"])
        assert values == {
            "moescope/tokens": 50, "moescope/gpu_1/memory_used_gb": 3,
            "moescope/layer_0/balance": 0.5, "moescope/layer_0/idle_experts": 1, "moescope/layer_0/dropped": 1,
            "moescope/layer_3/balance": 1, "moescope/layer_3/idle_experts": 0, "moescope/layer_3/dropped": 0}
    walls = [one.time for one in figures.of_run("a.mscope", None)]
    assert walls == sorted(walls) and abs(walls[-1] - time.time()) < PATIENCE_S


def test_figures_of_layers_equal_those_of_the_tool():
    model, steps = train()
    with moescope.MoEProfiler(model, run="a.mscope"):
        steps()
    found = of_run("a.mscope")
    assert len(found) == 6
    for layer in range(2):
        (row,) = lib.table("routing", "a.mscope", "--layer", str(layer))["rows"]
        assert len(row["series"]) == 6
        for one in row["series"]:
            mine = found[one["step"]]
            assert mine[f"moescope/layer_{layer}/balance"] == pytest.approx(1 / one["imbalance"])
            assert mine[f"moescope/layer_{layer}/confidence"] == pytest.approx(one["router_confidence"])
            assert mine[f"moescope/layer_{layer}/idle_experts"] == one["load"].count(0)


def test_what_is_read_between_steps_belongs_to_the_one_before():
    moescope.start("a.mscope")
    library = lib.load()
    for step in range(4):
        library.moescope_step_begin(step)
        library.moescope_step_end(0)
        reading(0, "allocated_bytes", (step + 1) * 1e9)
    moescope.stop()
    assert {step: one["moescope/gpu_0/allocated_gb"] for step, one in of_run("a.mscope").items()} \
        == {step: step + 1 for step in range(4)}
    some = figures.Reader("a.mscope").read(every=2)
    assert {one.step: one.values["moescope/gpu_0/allocated_gb"] for one in some} == {0: 1, 2: 3}


def accumulated(folder):
    """{tag: {step: value}}, and the wall times of one tag, by TensorBoard's own reader."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    found = EventAccumulator(str(folder), size_guidance={"scalars": 0}).Reload()
    return {tag: {event.step: event.value for event in found.Scalars(tag)} for tag in found.Tags()["scalars"]}


def by_tag(figures_by_step, first_step=0):
    tags = {}
    for step, values in figures_by_step.items():
        for name, value in values.items():
            tags.setdefault(name, {})[step + first_step] = value
    return tags


def same(found, expected):
    assert found.keys() == expected.keys()
    for tag, values in expected.items():
        assert found[tag].keys() == values.keys(), tag
        for step, value in values.items():
            assert math.isclose(found[tag][step], value, rel_tol=1e-6), (tag, step)  # 32 bits


def same_live(found, expected):
    """Where the machine is busy, not every step is logged, and not the same ones of every figure; the first is."""
    found.pop("moescope/logged_every", None)
    assert found.keys() == expected.keys()
    assert min(found["moescope/step_ms"]) == min(expected["moescope/step_ms"])
    same(found, {tag: {step: value for step, value in values.items() if step in found[tag]}
                 for tag, values in expected.items()})


def test_tensorboard_while_it_trains_and_afterwards(tmp_path):
    need("tensorboard")
    from torch.utils.tensorboard import SummaryWriter
    writer = SummaryWriter(tmp_path / "live")
    model, steps = train(lambda: len(accumulated(tmp_path / "live").get("moescope/layer_1/balance", {})) > 2)
    with moescope.MoEProfiler(model, run="a.mscope").log_to(writer, seconds=0.05, first_step=100):
        steps()  # ends when figures are there, while it is recorded
    expected = by_tag(of_run("a.mscope"), 100)
    same_live(accumulated(tmp_path / "live"), expected)
    writer.add_scalar("loss", 1.0, 0)  # it is still the program's
    writer.close()
    with SummaryWriter(tmp_path / "after") as writer:
        assert moescope.log_run("a.mscope", writer, first_step=100) == len(expected["moescope/step_ms"])
    same(accumulated(tmp_path / "after"), expected)


def test_tensorboard_by_name(tmp_path):
    need("tensorboard")
    model, steps = train()
    profiler = moescope.MoEProfiler(model, run="a.mscope").log_to("tensorboard")
    with profiler:
        steps()
    (folder,) = (tmp_path / "runs").iterdir()
    same(accumulated(folder), by_tag(of_run("a.mscope")))
    with profiler:  # a second time, into the same folder
        steps()
    assert len(accumulated(folder)["moescope/step_ms"]) == 12


def of_tool(run):
    """{tag: {step: value}} of the figures of steps, as 'moescope steps --json' has them."""
    tags = {}
    for row in lib.table("steps", run)["rows"]:
        if row["unfinished"]:
            continue
        values = {"step_ms": row["time_ns"] / 1e6, "tokens": row["tokens"], "tokens_per_s": row["tokens_per_s"]}
        for phase in ("forward", "backward", "optimizer", "data"):
            ns = row.get(f"{phase}_ns")  # no column if the run has none
            values[f"{phase}_ms"] = None if ns is None else ns / 1e6
        for name, value in values.items():
            if value is not None:
                tags.setdefault(f"moescope/{name}", {})[row["step"]] = value
    return tags


def of_steps(tags):
    return {tag: values for tag, values in tags.items() if tag.count("/") == 1}


def test_tensorboardx(tmp_path):
    need("tensorboard")  # reads what the other one wrote
    writer = need("tensorboardX").SummaryWriter(str(tmp_path / "x"))
    model, steps = train()
    with moescope.MoEProfiler(model, run="a.mscope").log_to(writer, seconds=0.05):
        steps()
    writer.close()
    found = accumulated(tmp_path / "x")
    same_live(found, by_tag(of_run("a.mscope")))
    same_live(of_steps(found), of_tool("a.mscope"))
    assert "moescope/layer_1/balance" in found


def whole_profile(folder, steps):
    return {"output_dir": str(folder / "traces"), "wait_steps": 0, "warmup_steps": 0, "active_steps": steps,
            "profile_memory": False, "record_shapes": False}


def test_a_trainer_of_hugging_face(tmp_path):
    need("tensorboard")
    pytest.importorskip("accelerate", reason="the Trainer of transformers needs accelerate")
    from test_integrations_trainer import trainer
    from torch.utils.tensorboard import SummaryWriter
    writer = SummaryWriter(tmp_path / "board")
    callback = moescope.MoescopeProfilerCallback(**whole_profile(tmp_path, 6))
    callback.log_to(writer, seconds=0.05)
    trainer(tmp_path, [callback], steps=6).train()
    writer.close()
    found = accumulated(tmp_path / "board")
    same_live(of_steps(found), of_tool(callback.profile.run))
    assert 0 in found["moescope/step_ms"]
    assert set(found["moescope/tokens"].values()) == {16} and "moescope/backward_ms" in found


def test_a_trainer_of_lightning(tmp_path):
    need("tensorboard")
    lightning = pytest.importorskip("lightning.pytorch", reason="lightning is not installed")
    from torch.utils.tensorboard import SummaryWriter

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def training_step(self, batch, _):
            return self.layer(batch).sum()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    writer = SummaryWriter(tmp_path / "board")
    callback = moescope.LightningCallback(**whole_profile(tmp_path, 5))
    callback.log_to(writer, seconds=0.05)
    lightning.Trainer(max_steps=5, accelerator="cpu", devices=1, logger=False, callbacks=[callback],
                      enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
                      default_root_dir=tmp_path).fit(
        Module(), torch.utils.data.DataLoader(torch.ones(32, 4), batch_size=2))
    writer.close()
    found = accumulated(tmp_path / "board")
    same_live(of_steps(found), of_tool(callback.profile.run))
    assert 0 in found["moescope/step_ms"]


def test_tensorboards_own_writer(tmp_path):
    need("tensorboard")
    from tensorboard import summary
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util.tensor_util import make_ndarray
    moescope.start("a.mscope")
    for _ in range(3):
        moescope.step(tokens=5)
    moescope.stop()
    writer = summary.Writer(summary.DirectoryOutput(str(tmp_path / "own")))
    moescope.log_run("a.mscope", writer)
    writer.close()
    found = EventAccumulator(str(tmp_path / "own")).Reload()
    same({tag: {event.step: float(make_ndarray(event.tensor_proto)) for event in found.Tensors(tag)}
          for tag in found.Tags()["tensors"]}, by_tag(of_run("a.mscope")))


def test_mlflow_by_module_run_client_and_name(tmp_path, monkeypatch):
    for name, value in (("MLFLOW_ALLOW_FILE_STORE", "true"), ("MLFLOW_DISABLE_TELEMETRY", "true"),
                        ("DO_NOT_TRACK", "true"), ("GIT_PYTHON_REFRESH", "quiet")):
        monkeypatch.setenv(name, value)
    mlflow = need("mlflow")
    mlflow.set_tracking_uri((tmp_path / "store").as_uri())
    client = mlflow.MlflowClient()
    model, steps = train()
    with mlflow.start_run() as run, moescope.MoEProfiler(model, run="a.mscope").log_to(mlflow):
        steps()
    expected = by_tag(of_run("a.mscope"))

    def history(run):
        names = client.get_run(run.info.run_id).data.metrics
        return {name: {m.step: m.value for m in client.get_metric_history(run.info.run_id, name)}
                for name in names}

    same(history(run), expected)
    with pytest.raises(ValueError, match=r"call mlflow.start_run\(\) first"):
        moescope.log_run("a.mscope", client)
    experiment = client.create_experiment("more")
    for target in ("client", "run"):
        other = client.create_run(experiment)
        if target == "client":
            moescope.log_run("a.mscope", client, run_id=other.info.run_id)
        else:
            moescope.log_run("a.mscope", other)
        same(history(other), expected)
    with mlflow.start_run() as run:
        moescope.log_run("a.mscope", "mlflow")
    same(history(run), expected)


def log_records(data):
    """Of a file in the form of LevelDB's logs, behind W&B's seven bytes: blocks of 32 KiB with pieces, each
    with its checksum, size and kind (1 whole, 2 first, 3 middle, 4 last)."""
    at, record = 7, b""
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        size, kind = struct.unpack_from("<HB", data, at + 4)
        record = (b"" if kind in (1, 2) else record) + data[at + 7:at + 7 + size]
        at += 7 + size
        if kind in (1, 4) and at <= len(data):
            yield record


def wandb_rows(folder):
    """The rows of an offline run, from the file that it would be synced from."""
    from wandb.proto import wandb_internal_pb2
    (path,) = folder.glob("wandb/offline-run-*/run-*.wandb")
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        records = [wandb_internal_pb2.Record.FromString(data) for data in log_records(path.read_bytes())]
        if any(record.HasField("exit") for record in records):  # W&B's own process has written all
            return [{item.key or "/".join(item.nested_key): json.loads(item.value_json)
                     for item in record.history.item} for record in records if record.HasField("history")]
        time.sleep(0.02)
    raise AssertionError("W&B does not finish its file")


@pytest.fixture
def wandb(monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")  # it would wait for the network
    return need("wandb")


def wandb_run(wandb, folder):
    quiet = wandb.Settings(silent=True, x_disable_stats=True, x_disable_meta=True, console="off")
    return wandb.init(dir=folder, project="p", settings=quiet)


def wandb_mine(rows):
    """Our figures by our steps. A step whose routing comes later than its time has two rows."""
    mine = {}
    for row in rows:
        if "moescope/step" in row:
            mine.setdefault(row["moescope/step"], {}).update(
                {name: value for name, value in row.items()
                 if name.startswith("moescope/") and name != "moescope/step"})
    return mine


def test_wandb_has_a_row_for_every_step_where_it_counts_them(tmp_path, wandb):
    run = wandb_run(wandb, tmp_path)
    model, _ = train()
    with moescope.MoEProfiler(model, run="a.mscope").log_to(run, seconds=0.02, every_step=True), \
            torch.no_grad():
        for i in range(20):
            model(ids(1, 7))
            run.log({"loss": 1.0 / (i + 1)})
    run.finish()
    rows = wandb_rows(tmp_path)
    assert [row["loss"] for row in rows if "loss" in row] == [1.0 / (i + 1) for i in range(20)]
    same_live(by_tag(wandb_mine(rows)), by_tag(of_run("a.mscope")))


def test_wandb_offline(tmp_path, wandb):
    """The program's rows have the steps that it gives them, as without moescope."""
    run = wandb_run(wandb, tmp_path)
    model, _ = train()
    with moescope.MoEProfiler(model, run="a.mscope").log_to(wandb, seconds=0.02), torch.no_grad():
        for i in range(20):
            model(ids(1, 7))
            run.log({"loss": 1.0 / (i + 1)}, step=10 * i)
    run.log({"loss": 0.0}, step=200)
    assert moescope.log_run("a.mscope", run, first_step=1000) == 20
    run.finish()
    rows, expected = wandb_rows(tmp_path), of_run("a.mscope")
    assert [(row["_step"], row["loss"]) for row in rows if "loss" in row] \
        == [(10 * i, 1.0 / (i + 1)) for i in range(20)] + [(200, 0.0)]
    mine = wandb_mine(rows)
    during = {step: values for step, values in mine.items() if step < 1000}
    assert during
    for values in during.values():  # of one step, or of two where a row was already begun
        for name, value in values.items():
            assert any(one.get(name) == value for one in expected.values()), (name, value)
    same(by_tag({step: values for step, values in mine.items() if step >= 1000}), by_tag(expected, 1000))


def test_a_target_that_fails_is_told_about_once_and_the_training_goes_on():
    calls = []

    def fails(step, values):
        calls.append(step)
        raise OSError("the disk is full\nand more")

    model, steps = train(lambda: calls)
    with pytest.warns(RuntimeWarning, match="nothing more to .*fails, and goes on recording: OSError: the disk "
                                            "is full$") as told:
        with moescope.MoEProfiler(model, run="a.mscope").log_to(fails, seconds=0.02):
            steps()
    assert len(told) == 1 and len(calls) == 1 and len(of_run("a.mscope")) >= 6


def test_nor_does_it_end_a_program_whose_warnings_are_errors():
    code = "import moescope\ndef fails(step, values): raise SystemExit(3)\n" \
           "moescope.start('b.mscope')\nmoescope.log_to(fails)\n" \
           "for i in range(5): moescope.step()\nmoescope.stop()\nprint('went on')"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "went on\n"), done.stderr
    assert done.stderr == "moescope: moescope logs nothing more to fails, and goes on recording: SystemExit: 3\n"
    assert len(of_run("b.mscope")) == 5


def test_the_end_of_a_program_that_does_not_stop():
    """Figures are logged until its last step."""
    code = "import moescope\nmoescope.start('b.mscope')\n" \
           "moescope.log_to(lambda step, values: print(step, 'moescope/step_ms' in values))\n" \
           "for i in range(3): moescope.step()"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0 True\n1 True\n2 True\n", "")


def test_a_target_that_hangs_does_not_hang_the_end(monkeypatch):
    monkeypatch.setattr(live, "PATIENCE", 0.2)
    let_go = threading.Event()
    moescope.start("a.mscope")
    moescope.log_to(lambda step, values: let_go.wait(PATIENCE_S))
    log = live._open[0]
    moescope.step()
    with pytest.warns(RuntimeWarning, match="has not logged the last figures"):
        moescope.stop()
    let_go.set()
    log._thread.join(PATIENCE_S)
    assert not log._thread.is_alive() and len(of_run("a.mscope")) == 1


def test_short_steps_are_thinned_out(monkeypatch):
    """To a limit of figures each time; the steps that are logged are whole, and say how many they stand for."""
    monkeypatch.setattr(live, "MOST", 20)
    kept = Kept()
    model, steps = train(lambda: any(v.get("moescope/logged_every", 1) > 2 for v in dict(kept).values()))
    with moescope.MoEProfiler(model, run="a.mscope").log_to(kept, seconds=0.3):
        steps()
    expected = of_run("a.mscope")
    for step, values in kept.items():
        every = int(values.pop("moescope/logged_every", 1))
        assert every & (every - 1) == 0 and step % every == 0
        assert values.items() <= expected[step].items()
    assert len(kept) < len(expected)


def test_profile_and_the_module(tmp_path):
    kept, rest = Kept(), Kept()
    with moescope.profile(run="a.mscope", activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        profiler.log_to(kept)
        for _ in range(3):
            torch.ones(4).sum()
            profiler.step(tokens=9)
            if not rest:  # from the step that is open now
                rest[-1] = {}
                moescope.log_to(rest)
    assert kept == of_run("a.mscope") and list(kept) == [0, 1, 2]
    assert rest == {-1: {}, 1: kept[1], 2: kept[2]}
    assert {values["moescope/tokens"] for values in kept.values()} == {9}
    with pytest.raises(moescope.ProfilerClosed, match=r"call moescope.start\(\) first"):
        moescope.log_to(kept)


def test_callbacks_of_trainers(tmp_path):
    kept = Kept()
    profile = training.TrainingProfile(output_dir=str(tmp_path), wait_steps=0, warmup_steps=0, active_steps=2,
                                       profile_memory=False)
    profile.log_to(kept)
    profile.log_to(object())
    with pytest.warns(RuntimeWarning, match="moescope logs nothing: log_to got <object"):
        profile.start(0)
    for _ in range(2):
        profile.step(5)
    profile.stop()
    assert kept == of_run(profile.profiler.run) and len(kept) == 2


def test_what_cannot_be_logged_to_is_one_sentence(monkeypatch):
    moescope.start("a.mscope")
    moescope.step()
    for wrong, kind, words in (
            (3, TypeError, "log_to got 3, which is no writer"), (dict, TypeError, "is no writer"),
            ("tensorbord", ValueError, "knows no 'tensorbord'; give 'tensorboard', 'wandb', 'mlflow'"),
            ("wandb", ImportError, "needs wandb; install it with 'pip install wandb'"),
            ("mlflow", ImportError, "needs mlflow; install it with 'pip install mlflow'"),
            ("tensorboard", ImportError, "needs TensorBoard; install it with 'pip install tensorboard'")):
        for name in ("wandb", "mlflow", "torch.utils.tensorboard", "tensorboardX"):
            monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(kind, match=words):
            moescope.log_to(wrong)
    with pytest.raises(ValueError, match="seconds is 0; give more than 0"):
        moescope.log_to(print, seconds=0)
    with pytest.raises(ValueError, match="first_step is -1; give 0 or more"):
        moescope.log_to(print, first_step=-1)
    moescope.stop()
    with pytest.raises(ValueError, match="no finished step of rank 7; its lowest rank is 0"):
        moescope.log_run("a.mscope", print, rank=7)
    with pytest.raises(moescope.ToolError, match="no-such"):
        moescope.log_run("no-such.mscope", print)


def test_no_package_is_imported_unasked():
    code = "import sys, moescope\nmoescope.start('b.mscope')\nmoescope.log_to(lambda step, values: None)\n" \
           "moescope.step()\nmoescope.stop()\n" \
           "print([n for n in ('torch', 'tensorboard', 'wandb', 'mlflow', 'IPython') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


def test_a_child_of_the_program_ends_without_its_logs():
    kept = Kept()
    moescope.start("a.mscope")
    moescope.log_to(kept)
    moescope.step()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a fork beside threads
        pid = os.fork()
    if pid == 0:
        live.finish_all()
        os._exit(0 if live._open else 3)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    moescope.stop()
    assert kept == of_run("a.mscope")


def test_a_reading_without_figures_does_not_make_the_next_one_large():
    log = live.Log.__new__(live.Log)  # without its thread
    log._every = 1
    log._thin(8 * live.MOST, 1.0)
    assert log._every == 8
    log._thin(0, 1.0)
    assert log._every == 4
    log._thin(live.MOST / 4, 1.0)
    assert log._every == 2
    log._thin(1, 1.0)
    log._thin(1, 1.0)
    assert log._every == 1
