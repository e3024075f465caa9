#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch programs that know nothing of moescope, on a device: auto_check.py [BUILD] [--device cuda|cpu]
[--only NAME,NAME] [--steps N]

eager, compiled and graph train a small transformer with a DataLoader's workers, deterministically, bare and under
`moescope run`. Losses must be equal bit for bit, each step of the optimizer one step of the run, and the phases in
all that were recorded. fork: a child forked after a forward pass on the host must still be able to use the device.

Prints 'ok NAME' or 'FAIL NAME: why', and ends with 'N passed, N failed'. --device cpu is for machines without
a GPU, and leaves out the CUDA graph.
"""
import argparse
import json
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from check import Checks, Skip, last_json  # noqa: E402

STEPS = 300
LIMIT_S = 600
# A replayed graph calls neither a module nor autograd: those phases are in its capture alone, which is in step 0.
PHASES = {"eager": ("data", "forward", "backward", "optimizer"),
          "compiled": ("data", "forward", "backward", "optimizer"),
          "graph": ("data", "optimizer")}
NAMES = (*PHASES, "fork")


# ---- the programs

def network(width, depth):
    from torch import nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(width, 8, batch_first=True)
            self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
            self.wide = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def forward(self, x):
            y = self.before(x)
            x = x + self.attention(y, y, y, need_weights=False)[0]
            return x + self.wide(self.between(x))
    return nn.Sequential(nn.Linear(64, width), *[Block() for _ in range(depth)], nn.Linear(width, 64))


def captured(torch, forward_backward):
    """A CUDA graph of it, and the loss that each replay leaves behind."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            forward_backward()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = forward_backward()
    return graph, loss


def train(name, device, steps):
    import torch
    from torch.utils.data import DataLoader

    torch.manual_seed(0)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    net = (network(512, 6) if device == "cuda" else network(64, 2)).to(device)
    called = torch.compile(net) if name == "compiled" else net
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)
    rows = [torch.randn(128, 64, generator=torch.Generator().manual_seed(i)) for i in range(256)]
    data = DataLoader(rows, batch_size=8, num_workers=2)
    batch = torch.zeros(8, 128, 64, device=device)

    def forward_backward():
        optimizer.zero_grad(set_to_none=False)
        # Casts that are kept would be those of the weights at the capture.
        with torch.autocast(device, torch.bfloat16, cache_enabled=name != "graph"):
            loss = (called(batch) - batch).square().mean()
        loss.backward()
        return loss.detach()

    graph, loss = captured(torch, forward_backward) if name == "graph" else (None, None)
    losses = []
    while len(losses) < steps:
        for x in data:
            batch.copy_(x)
            if graph is not None:
                graph.replay()
            else:
                loss = forward_backward()
            optimizer.step()
            losses.append(loss.item().hex())
            if len(losses) == steps:
                break
    return {"losses": losses, "compiled": compiled_graphs() if name == "compiled" else 0}


def compiled_graphs():
    from torch._dynamo.utils import counters

    return counters["stats"]["unique_graphs"]


def fork(device):
    """Whether a child can use the device, after a forward pass on the host: then auto is at work."""
    import torch

    torch.nn.Linear(4, 4)(torch.zeros(1, 4))
    child = os.fork()
    if child == 0:
        right = False
        try:
            right = torch.ones(4, device=device).sum().item() == 4
        finally:  # not the parent's way out
            os._exit(0 if right else 1)
    return {"child": os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}


# ---- the checks

def bare_and_recorded(checks, args, name):
    """What the program told of itself both times, and the run."""
    words = [sys.executable, os.path.abspath(__file__), "--program", name, "--device", args.device, "--steps",
             str(args.steps)]
    # Of several equal kernels the compiler takes what was faster, which is noise: the cache makes it take the same.
    env = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8",
           "TORCHINDUCTOR_CACHE_DIR": os.path.join(checks.folder, "compiled")}
    path = checks.new_path()
    bare = last_json(checks.must(checks.run(*words, limit=LIMIT_S, env=env)))
    recorded = last_json(checks.must(checks.run(*checks.under(path, *words, options=[]), limit=LIMIT_S, env=env)))
    return bare, recorded, path


def check_training(checks, args, name):
    bare, recorded, path = bare_and_recorded(checks, args, name)
    differing = [i for i, pair in enumerate(zip(bare["losses"], recorded["losses"])) if pair[0] != pair[1]]
    checks.check(f"{name}: losses", len(bare["losses"]) == len(recorded["losses"]) == args.steps and not differing,
                 f"{len(bare['losses'])} and {len(recorded['losses'])}, first to differ: {differing[:1]}")
    checks.check(f"{name}: compiled graphs", bare["compiled"] == recorded["compiled"]
                 and (bare["compiled"] > 0) == (name == "compiled"),
                 f"{bare['compiled']} bare, {recorded['compiled']} under moescope")
    rows = checks.table("steps", path)["rows"]
    checks.check(f"{name}: steps", [row["step"] for row in rows] == list(range(args.steps))
                 and not any(row["unfinished"] for row in rows),
                 f"{len(rows)} rows for {args.steps} steps of the optimizer, "
                 f"{sum(row['unfinished'] for row in rows)} unfinished")
    within = [row for row in rows if row["recorded"]]
    missing = [(row["step"], phase) for row in within for phase in PHASES[name]
               if row["phases"].get(phase, 0) <= 0]
    checks.check(f"{name}: phases", within and not missing,
                 f"{len(within)} steps were recorded; missing: {missing[:3]}")
    told = checks.must(checks.run(checks.moescope, "report", path, "--width", "1000")).stdout
    wanted = ("auto operations: not recorded: beside CUDA that is left to moescope.profile"
              if args.device == "cuda" else "auto operations: recorded in step")
    checks.check(f"{name}: operations", wanted in " ".join(told.split()), f"the report does not say '{wanted}'")
    if args.device == "cuda":
        kernels = sum(row["count"] for row in checks.kernels(path)["rows"])
        checks.check(f"{name}: kernels", kernels > 0, "there are none in the run")
    print(f"   {len(rows)} steps, {len(within)} of them recorded", flush=True)


def check_fork(checks, args, name):
    bare, recorded, _ = bare_and_recorded(checks, args, name)
    checks.check(name, bare["child"] == recorded["child"] == 0,
                 f"the child ended with {bare['child']} bare, {recorded['child']} under moescope")


def check_one(checks, args, name):
    if name == "graph" and args.device != "cuda":
        raise Skip("CUDA graphs need a GPU")
    (check_fork if name == "fork" else check_training)(checks, args, name)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="?", default="build")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--only", default=",".join(NAMES), help="names, separated by commas")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--program", choices=NAMES)
    args = parser.parse_args()
    if args.program:
        print(json.dumps(fork(args.device) if args.program == "fork"
                         else train(args.program, args.device, args.steps)))
        return 0
    names = args.only.split(",")
    if set(names) - set(NAMES):
        parser.error(f"there is only {', '.join(NAMES)}")
    with tempfile.TemporaryDirectory() as folder:
        checks = Checks(args.build, folder)
        try:
            if args.device == "cuda":
                checks.torch()
        except Skip as why:
            print(f"skip auto: {why}")
            names = []
        return checks.each(names, lambda checks, name: check_one(checks, args, name))


if __name__ == "__main__":
    sys.exit(main())
