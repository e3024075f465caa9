#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where the tokens of a mixture-of-experts model go: routing.py [--run RUN] [--tokens N]

A small Mixtral with random weights (nothing is downloaded) generates text, on a GPU or the CPU, and
moescope records which expert got which token. Needs torch and transformers, and moescope: 'pip
install .', or PYTHONPATH=python after 'make'.
"""
import argparse

import torch
import transformers

import moescope


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", default="routing.mscope", help="the run directory to write")
    parser.add_argument("--tokens", type=int, default=40, help="new tokens of each sequence")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    config = transformers.MixtralConfig(
        vocab_size=1000, hidden_size=128, intermediate_size=256, num_hidden_layers=4,
        num_attention_heads=4, num_key_value_heads=2, num_local_experts=8, num_experts_per_tok=2)
    model = transformers.MixtralForCausalLM(config).to(device).eval()
    prompts = torch.randint(1, 1000, (4, 64), device=device)
    with moescope.MoEProfiler(model, mode="tokens", run=args.run) as profiler:
        model.generate(prompts, max_new_tokens=args.tokens, do_sample=True, pad_token_id=0)
    profiler.print_summary()
    print(f"\nnext: moescope routing {args.run} --layer 0")


if __name__ == "__main__":
    main()
