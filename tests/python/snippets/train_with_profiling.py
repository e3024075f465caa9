# SPDX-License-Identifier: Apache-2.0
"""A training script that got its profiling flags by one call: a tiny random model, a few steps.

train_with_profiling.py [--max-steps N] [profiling flags]
"""
import argparse
import tempfile

import torch
import transformers

import moescope


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--max-steps", type=int, default=12)
    moescope.add_arguments(parser)
    args = parser.parse_args()

    model = transformers.BertForMaskedLM(transformers.BertConfig(
        vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=1,
        num_attention_heads=2))
    rows = [{"input_ids": torch.randint(0, 64, (12,)), "labels": torch.randint(0, 64, (12,))}
            for _ in range(32)]
    with tempfile.TemporaryDirectory() as scratch:
        transformers.Trainer(
            model=model, train_dataset=rows, callbacks=moescope.callbacks_from_arguments(args),
            args=transformers.TrainingArguments(
                output_dir=scratch, max_steps=args.max_steps, per_device_train_batch_size=2,
                report_to=[], save_strategy="no", disable_tqdm=True, use_cpu=True)).train()


if __name__ == "__main__":
    main()
