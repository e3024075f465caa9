# SPDX-License-Identifier: Apache-2.0
"""Routing on a CUDA device, in bf16, with padding, under torch.compile and in CUDA graphs."""
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no CUDA device", allow_module_level=True)

import moescope  # noqa: E402
from torch import nn  # noqa: E402


class Gate(nn.Linear):
    def forward(self, x):
        logits = super().forward(x)
        weights, indices = logits.float().softmax(-1).topk(2)
        return logits, weights.to(x.dtype), indices


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.num_experts = 8
        self.up_proj = nn.Parameter(torch.randn(8, 32, 16))
        self.down_proj = nn.Parameter(torch.randn(8, 16, 32))

    def forward(self, hidden, indices, weights):
        return hidden * weights.sum(-1, keepdim=True)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.experts = Gate(16, 8), Experts()
        self.seen = []

    def forward(self, x):
        _, weights, indices = self.gate(x)
        if not torch.compiler.is_compiling():
            self.seen.append(indices)
        return x + self.experts(x, indices, weights)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(64, 16)
        self.blocks = nn.ModuleList(Block() for _ in range(2))

    def forward(self, input_ids, attention_mask=None):
        x = self.embed(input_ids).reshape(-1, 16)
        for block in self.blocks:
            x = block(x)
        return x


@pytest.fixture
def model():
    return Model().to("cuda", torch.bfloat16).eval()


def recount(model, step, valid=None):
    """The block's own indices, kept aside and counted on the host."""
    chosen = [block.seen[step].cpu() for block in model.blocks]
    keep = slice(None) if valid is None else valid.reshape(-1).bool()
    return [torch.bincount(c[keep].reshape(-1), minlength=8).tolist() for c in chosen]


def loads(profiler):
    layers = [view.metrics._series() for view in profiler.wrappers]
    return [[row["load"] for row in step] for step in zip(*layers)]


@pytest.mark.parametrize("mode", ["counts", "tokens"])
def test_counts_are_exact(model, mode):
    mask = torch.ones(3, 10, dtype=torch.long, device="cuda")
    mask[1, :4] = 0
    with moescope.MoEProfiler(model, mode=mode) as profiler, torch.no_grad():
        for _ in range(3):
            model(torch.randint(0, 64, (3, 10), device="cuda"), attention_mask=mask)
    assert loads(profiler) == [recount(model, step, mask.cpu()) for step in range(3)]
    figures = profiler.wrappers[0].get_summary()
    assert figures["total_tokens_profiled"] == 3 * 26
    assert figures["latency_mean_ms"] > 0 and figures["memory_max_mb"] > 0
    assert 0 < figures["router_confidence_mean"] < 1
    assert profiler.wrappers[0].metrics.device == "cuda:0"


def test_every_replay_of_a_graph_is_recorded(model):
    tokens = torch.zeros(1, 4, dtype=torch.long, device="cuda")
    inputs = [torch.randint(0, 64, (1, 4), device="cuda") for _ in range(5)]
    profiler = moescope.MoEProfiler(model)
    with profiler, torch.no_grad():
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            model(tokens)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            model(tokens)
        for one in inputs:
            tokens.copy_(one)
            graph.replay()
        torch.cuda.synchronize()
    graph.replay()  # after stop: harmless
    torch.cuda.synchronize()
    for block in model.blocks:
        block.seen.clear()
    with torch.no_grad():
        for one in inputs:
            model(one)
    got = [view.metrics._series() for view in profiler.wrappers]
    assert [[row["load"] for row in layer][-5:] for layer in got] == [
        [recount(model, step)[layer] for step in range(5)] for layer in range(2)]


def test_compiled(model):
    inputs = [torch.randint(0, 64, (2, 6), device="cuda") for _ in range(3)]
    with torch.no_grad():
        for one in inputs:
            model(one)
        compiled = torch.compile(model, fullgraph=True)
        with moescope.MoEProfiler(model) as profiler:
            for one in inputs:
                compiled(one)
    assert loads(profiler) == [recount(model, step) for step in range(3)]
