# SPDX-License-Identifier: Apache-2.0
"""Lightning's callback and Accelerate's helper, in their real loops."""
import glob
import subprocess
import sys

import pytest

import moescope
from moescope import _library

torch = pytest.importorskip("torch")
from torch.utils.data import DataLoader  # noqa: E402

LIGHTNING = """
import sys, torch
import {package} as L
import moescope

class Model(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
    def training_step(self, batch, index):
        if index == self.fail_at:
            raise KeyError("mine")
        return self.layer(batch).sum()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

def fit(folder, fail_at):
    callback = moescope.LightningCallback(output_dir=folder, wait_steps=1, warmup_steps=1,
                                          active_steps=2, repeat_times=1)
    assert isinstance(callback, L.Callback)
    trainer = L.Trainer(max_epochs=1, accelerator="cpu", devices=1, accumulate_grad_batches=2,
                        logger=False, enable_checkpointing=False, enable_progress_bar=False,
                        enable_model_summary=False, callbacks=[callback])
    model = Model()
    model.fail_at = fail_at
    before = torch.autograd.backward
    try:
        trainer.fit(model, torch.utils.data.DataLoader(torch.ones(24, 4), batch_size=2))
    finally:
        assert torch.autograd.backward is before and not moescope.recording()
    return callback

print(fit(sys.argv[1] + "/a", -1).profile.run)
try:
    fit(sys.argv[1] + "/b", 5)
except KeyError as error:
    print("raised", error)
"""


@pytest.mark.parametrize("package", ["lightning.pytorch", "pytorch_lightning"])
def test_lightning(tmp_path, package):
    pytest.importorskip(package.split(".")[0])
    done = subprocess.run([sys.executable, "-c", LIGHTNING.replace("{package}", package),
                           str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    run, raised = done.stdout.splitlines()[-2:]
    assert raised == "raised 'mine'"
    assert [r["recorded"] for r in steps(run)] == [False, False, True, True, False, False]
    assert counts(run)["micro_batch"] == 4 and counts(run)["optimizer"] == 2
    assert len(glob.glob(str(tmp_path / "a" / "*.pt.trace.json"))) == 1


@pytest.mark.parametrize("name, package", [
    ("LightningCallback", "lightning"), ("ProfilerCallback", "transformers")])
def test_a_framework_that_is_not_there_is_named(name, package):
    hidden = "import sys; sys.modules.update({n: None for n in ('lightning', 'lightning.pytorch', " \
             "'pytorch_lightning', 'transformers')}); import moescope; moescope." + name
    done = subprocess.run([sys.executable, "-c", hidden], capture_output=True, text=True)
    assert f"pip install {package}" in done.stderr.splitlines()[-1]


def steps(run):
    return [r for r in _library.table("steps", run)["rows"] if not r["unfinished"]]


def counts(run):
    return {r["name"]: r["count"] for r in _library.table("ops", run)["rows"]}


def test_accelerate(tmp_path):
    accelerate = pytest.importorskip("accelerate")
    accelerator = accelerate.Accelerator(gradient_accumulation_steps=2, cpu=True)
    model = torch.nn.Linear(4, 4)
    model, optimizer, loader = accelerator.prepare(
        model, torch.optim.SGD(model.parameters(), lr=0.1),
        DataLoader(torch.ones(24, 4), batch_size=2))
    with moescope.AccelerateProfiler(accelerator, output_dir=str(tmp_path), wait_steps=1,
                                     warmup_steps=1, active_steps=2) as profiler:
        for batch in loader:
            with accelerator.accumulate(model):
                accelerator.backward(model(batch).sum())
                optimizer.step()
                optimizer.zero_grad()
            profiler.step()
    run = profiler.profiler.run
    assert [r["recorded"] for r in steps(run)] == [False, False, True, True, False, False]
    assert counts(run)["micro_batch"] == 4 and counts(run)["optimizer"] == 2
    assert {r.key for r in profiler.profiler.key_averages()} > {"aten::mm", "micro_batch"}
    assert len(glob.glob(str(tmp_path / "*.pt.trace.json"))) == 1
    with moescope.AccelerateProfiler(accelerator, output_dir=str(tmp_path / "none"),
                                     ranks=[3]) as profiler:
        profiler.step()
    assert profiler.profiler is None and not (tmp_path / "none").exists()
