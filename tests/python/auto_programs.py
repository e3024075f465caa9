# SPDX-License-Identifier: Apache-2.0
"""Programs that know nothing of moescope, for test_auto.py:

    auto_programs.py NAME FILE

Each prints its losses, bit for bit, and writes to FILE its own count of steps, and the times of its phases in
each step where it takes them itself."""
import json
import os
import sys
import time
import traceback

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(1)
STEPS, BATCH, WIDTH = 12, 64, 1024
told = {"steps": 0}


def model(width=WIDTH, depth=3):
    return nn.Sequential(*[part for _ in range(depth) for part in (nn.Linear(width, width), nn.ReLU())],
                         nn.Linear(width, 1))


class Rows(TensorDataset):
    """Takes its time for each, as one that decodes images would."""

    def __getitem__(self, index):
        x, y = super().__getitem__(index)
        return x + x.sort().values.sort(descending=True).values.mean(), y


def loader(steps=STEPS, width=WIDTH, **options):
    rows = torch.randn(steps * BATCH, width)
    return DataLoader(Rows(rows, rows.sum(1, keepdim=True)), batch_size=BATCH, **options)


class Clock:
    """Phases by hand: time by time, around the same calls."""

    def __init__(self):
        self.steps = [{}]

    def __call__(self, phase, function, *args):
        start = time.monotonic_ns()
        result = function(*args)
        now = self.steps[-1]
        now[phase] = now.get(phase, 0) + time.monotonic_ns() - start
        return result


def show(loss):
    print(loss.item().hex() if hasattr(loss, "item") else loss.hex())


def plain(data=None, steps=STEPS):
    net, clock = model(), Clock()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    batches = iter(data or loader(steps))
    for _ in range(steps):
        x, y = clock("data", next, batches)
        loss = nn.functional.mse_loss(clock("forward", net, x), y)
        clock("backward", loss.backward)
        clock("optimizer", optimizer.step)
        optimizer.zero_grad()
        clock.steps.append({})
        told["steps"] += 1
        show(loss)
    told["phases"] = clock.steps[:-1]


def beside_cuda():
    """As far as torch tells: CUDA is in use."""
    torch.cuda.is_initialized = lambda: True
    plain()


def without_cuda_calls():
    """Each call that needs CUDA initialises it first."""
    told["cuda_calls"], initialise = [], torch.cuda._lazy_init

    def call():
        told["cuda_calls"].append("".join(traceback.format_stack()))
        initialise()
    torch.cuda._lazy_init = call
    plain()


def accumulation():
    net = model(64)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    for i, (x, y) in enumerate(loader(STEPS * 3, 64)):
        loss = nn.functional.mse_loss(net(x), y) / 3
        loss.backward()
        if i % 3 == 2:
            optimizer.step()
            optimizer.zero_grad()
            told["steps"] += 1
            show(loss)


def scaler():
    """Every fourth gradient is not finite, and its step left out."""
    net = model(64)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu")
    for i, (x, y) in enumerate(loader(width=64)):
        loss = nn.functional.mse_loss(net(x), y)
        scaler.scale(loss * (float("inf") if i % 4 == 1 else 1)).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        told["steps"] += 1
        show(loss)


def turns(order):
    """Several optimizers; the step is that of the one called most often, the last in the turn."""
    nets = {name: model(32, 1) for name in dict.fromkeys(order)}
    optimizers = {name: torch.optim.SGD(net.parameters(), lr=1e-3) for name, net in nets.items()}
    for name in order:
        loss = nets[name](torch.randn(BATCH, 32)).square().mean()
        loss.backward()
        optimizers[name].step()
        optimizers[name].zero_grad()
        show(loss)
    told["steps"] = max(order.count(name) for name in nets)


def gan():
    turns("dg" * STEPS)


def three():
    turns("abc" * STEPS)


def critic():
    turns("dddddg" * 3)


def closure():
    """All of the step is inside the optimizer's, as in Lightning; several times with LBFGS."""
    net = model(64)
    optimizer = torch.optim.LBFGS(net.parameters(), lr=1e-2, max_iter=3)
    for x, y in loader(width=64):
        def again(x=x, y=y):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(net(x), y)
            loss.backward()
            return loss
        show(optimizer.step(again))
        told["steps"] += 1


def in_backward():
    """An optimizer for each parameter, which steps as soon as its gradient is there."""
    net = model(32, 1)
    optimizers = {p: torch.optim.SGD([p], lr=1e-3) for p in net.parameters()}

    def step(p):
        optimizers[p].step()
        optimizers[p].zero_grad()
    for p in net.parameters():
        p.register_post_accumulate_grad_hook(step)
    for x, y in loader(width=32):
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        told["steps"] += 1
        show(loss)


def evaluation():
    """Before, between and after the training."""
    net = model(64)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)

    def evaluate():
        net.eval()
        with torch.no_grad():
            show(sum(nn.functional.mse_loss(net(x), y) for x, y in loader(3, 64)))
        net.train()
    evaluate()
    for _ in range(2):
        for x, y in loader(4, 64):
            loss = nn.functional.mse_loss(net(x), y)
            loss.backward()
            optimizer.step()
            told["steps"] += 1
        evaluate()


def inference():
    net = model(64).eval()
    with torch.inference_mode():
        for x, _ in loader(width=64):
            show(net(x).mean())
            told["steps"] += 1


def broken_step():
    """Errors in each phase of a step, which the program takes in its stride."""
    class Broken(torch.optim.SGD):
        def step(self, closure=None):
            if told["steps"] == 5 and not told.get("failed"):
                told["failed"] = True
                raise ArithmeticError("optimizer")
            return super().step(closure)

    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            raise ArithmeticError("backward")
    net = model(64)
    optimizer = Broken(net.parameters(), lr=1e-3)
    for i, (x, y) in enumerate(loader(width=64)):
        try:
            if i == 3:
                net(x[:, :3])
            loss = nn.functional.mse_loss(net(x), y)
            if i == 4:
                Fails.apply(loss).backward()
            loss.backward()
            optimizer.step()
        except (ArithmeticError, RuntimeError) as error:
            print(type(error).__name__)
            continue
        told["steps"] += 1
        show(loss)


def exception():
    plain(steps=5)
    told["phases"] = []
    net = model()
    net(torch.ones(1, WIDTH)).sum().backward()
    tell()
    raise KeyError("mine")


def exits():
    plain(steps=5)
    model()(torch.ones(1, WIDTH))
    tell()
    sys.exit(7)


def workers(**options):
    plain(loader(num_workers=2, **options))


def spawned_workers():
    workers(multiprocessing_context="spawn")


def forked():
    """The parent trains, then a child does, then the parent again."""
    plain(steps=4)
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        plain(steps=3)
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(pid, 0)
    plain(steps=2)
    told["child"] = 3


def own_steps():
    import moescope
    net = model(64)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    for x, y in loader(width=64):
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        show(loss)
        moescope.step(tokens=7)
        told["steps"] += 1


def own_profile():
    import moescope
    profiler = moescope.profile(activities=[moescope.ProfilerActivity.CPU])
    net = model(64)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    with profiler:
        for x, y in loader(width=64):
            loss = nn.functional.mse_loss(net(x), y)
            loss.backward()
            optimizer.step()
            show(loss)
            profiler.step()
            told["steps"] += 1


def torch_profiler():
    """From inside a step whose operations are recorded."""
    plain(steps=2)
    told["phases"] = []
    net = model(64)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    x = torch.randn(BATCH, 64)
    for i in range(4):
        net(x).sum().backward()
        if i == 1:
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
                net(x)
            print(sum(event.count for event in profiler.key_averages() if event.key == "aten::addmm"))
        optimizer.step()


class Wide(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = model(width, 1)

    def forward(self, x):
        return self.layers(x)


def compiled():
    """Several models: torch compiles at most eight variants of a function, and says which it gives up."""
    for width in range(8, 8 + 10):
        net = torch.compile(Wide(width), backend=os.environ["BACKEND"])
        optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
        for x, y in loader(2, width):
            loss = nn.functional.mse_loss(net(x), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            told["steps"] += 1
            show(loss)
    for count in ("stats", "frames", "graph_break"):
        print(sorted(torch._dynamo.utils.counters[count].items()))


def trainer(callbacks=()):
    import transformers
    transformers.utils.logging.set_verbosity_error()
    torch.manual_seed(0)
    config = transformers.MixtralConfig(
        vocab_size=32, hidden_size=16, intermediate_size=16, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2)
    data = [{"input_ids": torch.arange(8), "labels": torch.arange(8)} for _ in range(64)]
    arguments = transformers.TrainingArguments(
        output_dir=os.path.dirname(sys.argv[2]), max_steps=6, per_device_train_batch_size=2,
        gradient_accumulation_steps=2, report_to=[], save_strategy="no", eval_strategy="steps",
        eval_steps=3, disable_tqdm=True, use_cpu=True, logging_strategy="no")
    one = transformers.Trainer(model=transformers.MixtralForCausalLM(config), args=arguments,
                               train_dataset=data, eval_dataset=data[:8], callbacks=list(callbacks))
    one.remove_callback(transformers.PrinterCallback)  # which prints times
    show(one.train().training_loss)
    told["steps"], told["tokens"] = one.state.global_step, 2 * 2 * 8


def trainer_with_callback():
    import moescope
    trainer([moescope.MoescopeProfilerCallback(output_dir=os.path.dirname(sys.argv[2]), wait_steps=0,
                                               warmup_steps=0, active_steps=8)])


def lightning():
    import lightning.pytorch as L

    class Model(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = model(64)

        def training_step(self, batch, index):
            loss = nn.functional.mse_loss(self.net(batch[0]), batch[1])
            show(loss.detach())
            return loss

        def validation_step(self, batch, index):
            self.net(batch[0])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=1e-3)
    one = L.Trainer(max_epochs=2, accelerator="cpu", devices=1, accumulate_grad_batches=2, logger=False,
                    enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
                    num_sanity_val_steps=2)
    one.fit(Model(), loader(8, 64), loader(2, 64))
    told["steps"] = one.global_step


def tell():
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        json.dump(told, file)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    tell()
