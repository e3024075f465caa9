# SPDX-License-Identifier: Apache-2.0
"""The program of test_sessions.py: a tiny mixture of experts in the loops that people train with,
each by steps of the program and by steps of moescope, with a count of its own.

    moescope run -- python session_loops.py FOLDER
    moescope run -- torchrun --nproc-per-node 2 session_loops.py FOLDER

Each process writes FOLDER/RANK.json: for every loop the shard of its session and what is true. Each
loop is a session of its own; the first is the one that `moescope run` began."""
import json
import os
import sys

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

import moe_models
import moescope
from moescope import _library as lib

FOLDER = sys.argv[1]
RANK, WORLD = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
STEPS, MICRO, BATCH, LENGTH = 3, 2, 2, 6
PROFILE = dict(wait_steps=0, warmup_steps=0, active_steps=STEPS + 2, ranks=None,
               profile_memory=False)


def data(name):
    """Rows that differ from rank to rank, so that nobody's counts are another's."""
    rows = moe_models.ids(STEPS * MICRO * BATCH, LENGTH, seed=100 * RANK + len(name))
    return [{"input_ids": row, "labels": row} for row in rows]


def batches(name):
    rows = data(name)
    for i in range(0, len(rows), BATCH):
        yield {key: torch.stack([row[key] for row in rows[i:i + BATCH]]) for key in rows[0]}


def in_parallel(model):
    return torch.nn.parallel.DistributedDataParallel(model) if WORLD > 1 else model


def plain_manual(model):
    """The end of an iteration is the end of a step."""
    outer = in_parallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for i, batch in enumerate(batches("plain")):
        with moescope.range("forward", phase="forward"):
            loss = outer(**batch).loss
        with moescope.range("backward", phase="backward"):
            loss.backward()
        if (i + 1) % MICRO == 0:
            optimizer.step()
            optimizer.zero_grad()
            moescope.step(tokens=MICRO * BATCH * LENGTH)


def plain_noticed(model):
    """The same without accumulation: the profiler is not told that the program has steps."""
    outer = in_parallel(model)
    for batch in batches("noticed"):
        outer(**batch).loss.backward()
        moescope.step(tokens=BATCH * LENGTH)


def plain_auto(model):
    outer = in_parallel(model)
    for batch in batches("auto"):
        outer(**batch).loss.backward()


def trainer(model, callback):
    import transformers
    arguments = transformers.TrainingArguments(
        output_dir=os.path.join(FOLDER, "out"), max_steps=STEPS, per_device_train_batch_size=BATCH,
        gradient_accumulation_steps=MICRO, report_to=[], save_strategy="no", disable_tqdm=True,
        use_cpu=True, logging_strategy="no", ddp_backend="gloo" if WORLD > 1 else None)

    class Own(transformers.Trainer):
        def get_train_dataloader(self):  # each rank has its own rows already
            return DataLoader(data("trainer"), batch_size=BATCH)
    Own(model=model, args=arguments, callbacks=[callback]).train()


def trainer_manual(model):
    import transformers

    class Steps(transformers.TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            moescope.step(tokens=MICRO * BATCH * LENGTH)
    trainer(model, Steps())


def trainer_auto(model):
    trainer(model, moescope.MoescopeProfilerCallback(os.path.join(FOLDER, "traces"), **PROFILE))


def lightning(model, callback):
    import lightning.pytorch as L

    class Module(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = model

        def training_step(self, batch, index):
            return self.model(**batch).loss

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)
    L.Trainer(max_epochs=1, accelerator="cpu", devices=WORLD, strategy="ddp" if WORLD > 1 else "auto",
              accumulate_grad_batches=MICRO, logger=False, enable_checkpointing=False,
              enable_progress_bar=False, enable_model_summary=False, use_distributed_sampler=False,
              callbacks=[callback]).fit(Module(), DataLoader(data("lightning"), batch_size=BATCH))


def lightning_manual(model):
    import lightning.pytorch as L

    class Steps(L.Callback):
        def on_train_batch_end(self, trainer, module, outputs, batch, index):
            if (index + 1) % MICRO == 0:
                moescope.step(tokens=MICRO * BATCH * LENGTH)
    lightning(model, Steps())


def lightning_auto(model):
    lightning(model, moescope.LightningCallback(os.path.join(FOLDER, "traces"), **PROFILE))


def accelerate(model, step, accelerator):
    outer, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
    for batch in batches("accelerate"):
        with accelerator.accumulate(outer):
            accelerator.backward(outer(**batch).loss)
            optimizer.step()
            optimizer.zero_grad()
        step(accelerator)


def accelerator():
    from accelerate import Accelerator
    return Accelerator(gradient_accumulation_steps=MICRO, cpu=True)


def accelerate_manual(model):
    def step(one):
        if one.sync_gradients:
            moescope.step(tokens=MICRO * BATCH * LENGTH)
    accelerate(model, step, accelerator())


def accelerate_auto(model):
    one = accelerator()
    with moescope.AccelerateProfiler(one, os.path.join(FOLDER, "traces"), **PROFILE) as profiler:
        accelerate(model, lambda _: profiler.step(MICRO * BATCH * LENGTH), one)


# loop: (whose steps, how many, micro-batches of one)
LOOPS = {plain_manual: ("manual", STEPS, MICRO), plain_noticed: ("auto", STEPS * MICRO, 1),
         plain_auto: ("auto", STEPS * MICRO, 1),
         trainer_manual: ("manual", STEPS, MICRO), trainer_auto: ("auto", STEPS, MICRO),
         lightning_manual: ("manual", STEPS, MICRO), lightning_auto: ("auto", STEPS, MICRO),
         accelerate_manual: ("manual", STEPS, MICRO), accelerate_auto: ("auto", STEPS, MICRO)}


def watch(loop):
    """What the profiler shows of the loop right behind it, before anything is stopped, and the truth."""
    steps, count, micro = LOOPS[loop]
    model = moe_models.make("Mixtral").train()
    if len(truth):
        moescope.start()  # a session of its own, in the run of `moescope run`
    recount = moe_models.Recount(model)
    profiler = moescope.MoEProfiler(model, steps=steps).start()
    with recount:
        loop(model)
    shown = [view.get_summary() for view in profiler.wrappers]
    shard = lib.load().moescope_shard().decode()
    loads = [view.metrics.loads for view in profiler.wrappers]
    series = [[row["tokens"] for row in view.metrics._series()] for view in profiler.wrappers]
    profiler.stop()
    moescope.stop()
    recount.remove()
    return {"shard": shard, "rank": RANK, "steps": count, "tokens": micro * BATCH * LENGTH,
            "micro": micro, "counts": recount.counts(), "loads": loads, "series": series,
            "shown_steps": [one["total_steps"] for one in shown],
            "first_layer": profiler.wrappers[0].place[1]}


if __name__ == "__main__":
    if WORLD > 1:
        dist.init_process_group("gloo")
    truth = {}
    for one in LOOPS:
        truth[one.__name__] = watch(one)
    with open(os.path.join(FOLDER, f"{RANK}.json"), "w", encoding="utf-8") as out:
        json.dump(truth, out)
    if WORLD > 1:
        dist.barrier()
        dist.destroy_process_group()
