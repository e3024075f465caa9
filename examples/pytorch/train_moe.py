#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small mixture-of-experts language model, written in plain PyTorch, on the CPU or a GPU.

train_moe.py [--steps N] [--batch N] [--context N] [--layers N] [--experts N] [--device cpu|cuda]

Needs PyTorch and nothing else: the text it learns is this file. On a GPU the parts of a step are
NVTX ranges (step, forward, backward, optimizer, layer_N, router, experts), so that

    moescope run -- python3 examples/pytorch/train_moe.py

shows device time by them. Prints the loss now and then, and tokens a second at the end.
"""
import argparse
import contextlib
import time

import torch
from torch import nn
from torch.nn import functional


def range_of(device):
    """NVTX ranges if there is a GPU, nothing elsewhere."""
    if device.type == "cuda":
        return torch.cuda.nvtx.range
    return lambda name: contextlib.nullcontext()


class Experts(nn.Module):
    """Top-k of n experts, each hidden -> inner -> hidden with GELU."""

    def __init__(self, hidden, inner, experts, k, mark):
        super().__init__()
        self.router = nn.Linear(hidden, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, hidden, inner) * hidden ** -0.5)
        self.down = nn.Parameter(torch.randn(experts, inner, hidden) * inner ** -0.5)
        self.k, self.mark = k, mark
        self.balance_loss = None

    def forward(self, x):
        tokens = x.flatten(0, 1)
        with self.mark("router"):
            scores = self.router(tokens).softmax(-1)
            weights, chosen = scores.topk(self.k)
            weights = weights / weights.sum(-1, keepdim=True)
            n = scores.shape[-1]
            load = functional.one_hot(chosen, n).float().mean((0, 1))
            self.balance_loss = n * (load * scores.mean(0)).sum()
        with self.mark("experts"):
            out = torch.zeros_like(tokens)
            for expert in range(n):
                rows, slots = (chosen == expert).nonzero(as_tuple=True)
                hidden = functional.gelu(tokens[rows] @ self.up[expert])
                update = (hidden @ self.down[expert]) * weights[rows, slots, None]
                out = out.index_add(0, rows, update)
        return out.view_as(x)


class Layer(nn.Module):
    def __init__(self, hidden, inner, heads, experts, k, mark):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.experts = Experts(hidden, inner, experts, k, mark)
        self.heads, self.mark = heads, mark

    def forward(self, x):
        batch, length, hidden = x.shape
        with self.mark("attention"):
            q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2)
                       for t in self.qkv(self.norm1(x)).chunk(3, -1))
            seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(seen.transpose(1, 2).reshape(batch, length, hidden))
        return x + self.experts(self.norm2(x))


class Model(nn.Module):
    def __init__(self, args, mark):
        super().__init__()
        self.embed = nn.Embedding(256, args.hidden)
        self.place = nn.Embedding(args.context, args.hidden)
        self.layers = nn.ModuleList(
            Layer(args.hidden, 4 * args.hidden, 4, args.experts, args.k, mark)
            for _ in range(args.layers))
        self.norm, self.head = nn.LayerNorm(args.hidden), nn.Linear(args.hidden, 256)
        self.mark = mark

    def forward(self, tokens):
        x = self.embed(tokens) + self.place(torch.arange(tokens.shape[1], device=tokens.device))
        for i, layer in enumerate(self.layers):
            with self.mark(f"layer_{i}"):
                x = layer(x)
        return self.head(self.norm(x))


def batches(args, device):
    """Random pieces of this file's text, with the byte that follows each."""
    with open(__file__, "rb") as f:
        text = torch.tensor(list(f.read()), dtype=torch.long)
    while True:
        at = torch.randint(0, len(text) - args.context - 1, (args.batch,))
        piece = torch.stack([text[i:i + args.context + 1] for i in at.tolist()])
        if device.type == "cuda":
            piece = piece.pin_memory().to(device, non_blocking=True)
        yield piece[:, :-1], piece[:, 1:]


def train(args, device):
    mark = range_of(device)
    torch.manual_seed(args.seed)
    model = Model(args, mark).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.rate)
    source = batches(args, device)
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters, {args.layers} layers, "
          f"{args.experts} experts, top-{args.k}, on {device}", flush=True)
    begin = time.perf_counter()
    for step in range(args.steps):
        with mark("step"):
            with mark("data"):
                tokens, wanted = next(source)
            with mark("forward"):
                logits = model(tokens)
                loss = functional.cross_entropy(logits.flatten(0, 1), wanted.flatten())
                balance = sum(layer.experts.balance_loss for layer in model.layers)
            with mark("backward"):
                (loss + 0.01 * balance).backward()
            with mark("optimizer"):
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
        if step % args.report == 0 or step == args.steps - 1:
            print(f"step {step:5d}  loss {loss.item():.3f}", flush=True)
    if device.type == "cuda":
        torch.cuda.synchronize()
    seconds = time.perf_counter() - begin
    print(f"{args.steps} steps in {seconds:.1f} s, "
          f"{args.steps * args.batch * args.context / seconds:,.0f} tokens/s")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--context", type=int, default=128)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--experts", type=int, default=8)
    parser.add_argument("--k", type=int, default=2, help="experts of each token")
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--report", type=int, default=10, help="steps between two printed losses")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", choices=("cpu", "cuda"),
                        default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    if args.device == "cuda" and not torch.cuda.is_available():
        parser.error("PyTorch finds no GPU; use --device cpu, or see 'moescope doctor'")
    if args.k > args.experts or args.hidden % 4 or min(args.steps, args.batch, args.report) < 1:
        parser.error("--k is at most --experts, --hidden a multiple of 4, --steps, --batch and "
                     "--report at least 1")
    train(args, torch.device(args.device))


if __name__ == "__main__":
    main()
