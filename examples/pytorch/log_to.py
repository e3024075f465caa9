#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small Mixtral with random weights, and shows in TensorBoard, W&B or MLflow how evenly its
experts are used, beside the loss.

log_to.py [--to tensorboard|wandb|mlflow] [--steps N] [--run DIR]

Needs PyTorch, transformers and the package it logs to. Then, for TensorBoard:

    tensorboard --logdir logs
"""
import argparse

import torch
from transformers import MixtralConfig, MixtralForCausalLM

import moescope


def logger(name):
    """What the program itself logs to: the object for log_to, its log(loss, step) and its end."""
    if name == "tensorboard":
        from torch.utils.tensorboard import SummaryWriter
        writer = SummaryWriter("logs")
        return writer, lambda loss, step: writer.add_scalar("loss", loss, step), writer.close
    if name == "wandb":
        import wandb
        run = wandb.init(project="moescope")
        return run, lambda loss, step: run.log({"loss": loss}, step=step), run.finish
    import mlflow
    run = mlflow.start_run()
    return run, lambda loss, step: mlflow.log_metric("loss", loss, step=step), mlflow.end_run


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--to", choices=("tensorboard", "wandb", "mlflow"), default="tensorboard")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--run", default="logged.mscope", help="the run directory (%(default)s)")
    args = parser.parse_args()

    torch.manual_seed(0)
    model = MixtralForCausalLM(MixtralConfig(
        vocab_size=256, hidden_size=64, intermediate_size=128, num_hidden_layers=4,
        num_attention_heads=4, num_key_value_heads=2, num_local_experts=8, num_experts_per_tok=2,
        output_router_logits=True))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    text = torch.tensor(list(open(__file__, "rb").read()))
    target, log, end = logger(args.to)
    profiler = moescope.MoEProfiler(model, run=args.run)
    profiler.log_to(target)
    with profiler:
        for step in range(args.steps):
            at = torch.randint(len(text) - 64, (8,))
            batch = torch.stack([text[i:i + 64] for i in at])
            loss = model(input_ids=batch, labels=batch).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            log(loss.item(), step)
            moescope.step(tokens=batch.numel())
    end()
    print(f"{args.steps} steps; next: moescope report {args.run}")


if __name__ == "__main__":
    main()
