#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training with Hugging Face's Trainer that flags can profile.

train_trainer.py [--steps N] [--batch N] [--context N] [--enable-profiling] [--enable-memory-logging]
                 [--profiler-output-dir DIR] [--profiler-active-steps N] ...

Trains a small Mixtral with random weights on the bytes of this file (nothing is downloaded), on a GPU
or the CPU. The flags of the profiler come from moescope.add_arguments, the Trainer's callbacks from
moescope.callbacks_from_arguments: your own script needs only these two lines. Needs
torch, transformers and accelerate, and moescope: 'pip install .', or PYTHONPATH=python after 'make'.
"""
import argparse
import os

import torch
import transformers

import moescope


class Pieces(torch.utils.data.Dataset):
    """Pieces of this file's text, byte by byte."""

    def __init__(self, context):
        with open(__file__, "rb") as f:
            self.text = torch.tensor(list(f.read()), dtype=torch.long)
        self.context = context

    def __len__(self):
        return len(self.text) - self.context

    def __getitem__(self, at):
        piece = self.text[at:at + self.context]
        return {"input_ids": piece, "labels": piece}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--context", type=int, default=64)
    parser.add_argument("--output-dir", default="trainer_output", help="of the Trainer")
    moescope.add_arguments(parser)
    args = parser.parse_args()
    config = transformers.MixtralConfig(
        vocab_size=256, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, num_local_experts=8, num_experts_per_tok=2,
        output_router_logits=True)
    torch.manual_seed(0)
    trainer = transformers.Trainer(
        model=transformers.MixtralForCausalLM(config), train_dataset=Pieces(args.context),
        args=transformers.TrainingArguments(
            output_dir=args.output_dir, max_steps=args.steps, report_to="none",
            per_device_train_batch_size=args.batch, learning_rate=1e-3, logging_steps=10,
            save_strategy="no", disable_tqdm=True),
        callbacks=moescope.callbacks_from_arguments(args))
    result = trainer.train()
    print(f"{result.global_step} steps, loss {result.training_loss:.3f}")
    if args.enable_profiling:
        profile = next(c.profile for c in trainer.callback_handler.callbacks
                       if isinstance(c, moescope.MoescopeProfilerCallback))
        active = args.profiler_wait_steps + args.profiler_warmup_steps + args.profiler_active_steps
        if args.steps >= active:
            print(profile.key_averages().table(sort_by="self_cpu_time_total", row_limit=10))
        else:
            print(f"no step was recorded: the schedule needs {active} steps, see --steps")
        print(f"next: moescope report {os.path.relpath(profile.run)}")


if __name__ == "__main__":
    main()
