# SPDX-License-Identifier: Apache-2.0
"""What the benchmark and the checks of device routing share.

Recorder: the C recorder, fed by hooks on the experts of a model, with nothing else in between.
StaticDecode: a Mixtral-shaped decoder whose step is in a CUDA graph.
"""
import ctypes
import os
import sys

import torch
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(HERE)), "python"))
from moescope import _library as lib  # noqa: E402

INDICES = {torch.int32: lib.I32, torch.int64: lib.I64}
WEIGHTS = {torch.float32: lib.F32, torch.float16: lib.F16, torch.bfloat16: lib.BF16}


class Refused(Exception):
    """A call of the recorder failed; the text is the recorder's."""


def experts_of(model):
    """The modules that are called with (hidden_states, indices, weights), first layer first."""
    found = [module for module in model.modules()
             if hasattr(module, "num_experts") and getattr(module, "down_proj", None) is not None
             and getattr(module.down_proj, "ndim", 0) == 3]
    if not found:
        raise Refused("the model has no experts of the kind that these scripts know")
    return found


def stream_of(tensor):
    return torch.cuda.current_stream(tensor.device).cuda_stream if tensor.is_cuda else None


class Recorder:
    """One recorder for one model. The session is the caller's."""

    def __init__(self, model, k, tokens=0, weights=False, slots=0):
        self.library, self.modules, self.k = lib.load(), experts_of(model), k
        self.handle, self.hooks, self.weights = ctypes.c_void_p(), [], weights
        options = lib.RecorderOptions(layers=len(self.modules), k=k, tokens=tokens, slots=slots,
                                      experts=max(m.num_experts for m in self.modules),
                                      weights=int(weights))
        self.check(self.library.moescope_recorder_open(ctypes.byref(options),
                                                       ctypes.byref(self.handle)))

    def check(self, status):
        if status != 0:
            raise Refused(f"error {-status}: {self.library.moescope_recorder_words().decode()}")

    def route(self, layer, experts, indices, weights=None, phase=lib.NO_PHASE):
        indices = indices.reshape(-1, indices.shape[-1]).contiguous()
        if weights is not None:
            weights = weights.reshape(indices.shape).contiguous()
        what = lib.DeviceRouting(
            layer=layer, phase=phase, experts=experts, k=indices.shape[1], tokens=indices.shape[0],
            indices=indices.data_ptr(), indices_type=INDICES[indices.dtype],
            weights=None if weights is None else weights.data_ptr(),
            weights_type=lib.F32 if weights is None else WEIGHTS[weights.dtype],
            stream=stream_of(indices))
        self.check(self.library.moescope_recorder_route(self.handle, ctypes.byref(what)))

    def attach(self):
        def hook(layer):
            def before(module, args):
                if torch._C._current_graph_task_id() == -1:  # not the recomputation in backward
                    self.route(layer, module.num_experts, args[1],
                               args[2] if self.weights else None)
            return before
        self.hooks = [module.register_forward_pre_hook(hook(layer))
                      for layer, module in enumerate(self.modules)]
        return self

    def detach(self):
        for hook in self.hooks:
            hook.remove()
        self.hooks = []

    def step(self, number=-1, like=None):
        stream = torch.cuda.current_stream().cuda_stream if like is None else stream_of(like)
        self.check(self.library.moescope_recorder_step(self.handle, number, stream))

    def gate(self, on, like=None):
        stream = torch.cuda.current_stream().cuda_stream if like is None else stream_of(like)
        self.check(self.library.moescope_recorder_gate(self.handle, int(on), stream))

    def flush(self):
        self.check(self.library.moescope_recorder_flush(self.handle))

    def close(self):
        self.detach()
        self.library.moescope_recorder_close(self.handle)
        self.handle = ctypes.c_void_p()


def series(run, layer):
    """{step: load} of a layer, phases added."""
    found = {}
    for row in lib.table("routing", run, "--layer", str(layer))["rows"]:
        for step in row["series"]:
            load = found.setdefault(step["step"], [0] * len(step["load"]))
            found[step["step"]] = [a + b for a, b in zip(load, step["load"])]
    return found


def lost(run):
    """The counters of the run that are not zero."""
    table = lib.table("routing", run)
    return {**{key: n for key, n in table["loss"].items() if n and key != "salvaged"},
            **({} if table["total"]["self_check"] == "ok"
               else {"self_check": table["total"]["self_check"]})}


class Experts(nn.Module):
    """As in transformers 5: all experts' matrices in two parameters, called with the choice."""

    def __init__(self, experts, hidden, inner):
        super().__init__()
        self.num_experts = experts
        self.gate_up_proj = nn.Parameter(torch.randn(experts, 2 * inner, hidden) * hidden ** -0.5)
        self.down_proj = nn.Parameter(torch.randn(experts, hidden, inner) * inner ** -0.5)

    def forward(self, x, indices, weights):
        flat, order = indices.reshape(-1).sort()
        rows = x[order // indices.shape[1]]
        if x.is_cuda:  # each expert's rows with its own matrix: no weight is copied
            numbers = torch.arange(self.num_experts, device=x.device)
            ends = (flat[None, :] <= numbers[:, None]).sum(1, dtype=torch.int32)
            gate, up = torch._grouped_mm(rows, self.gate_up_proj.transpose(1, 2),
                                         offs=ends).chunk(2, -1)
            y = torch._grouped_mm(nn.functional.silu(gate) * up, self.down_proj.transpose(1, 2),
                                  offs=ends)
        else:
            gate, up = (self.gate_up_proj[flat] @ rows[:, :, None])[:, :, 0].chunk(2, -1)
            y = (self.down_proj[flat] @ (nn.functional.silu(gate) * up)[:, :, None])[:, :, 0]
        y = y * weights.reshape(-1)[order][:, None]
        return torch.zeros_like(x).index_add_(0, order // indices.shape[1], y.to(x.dtype))


def norm(x, weight):
    """RMSNorm as transformers writes it."""
    y = x.to(torch.float32)
    return weight * (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype)


class Layer(nn.Module):
    def __init__(self, hidden, inner, heads, experts, k, length):
        super().__init__()
        self.heads, self.k = heads, k
        self.norm1, self.norm2 = (nn.Parameter(torch.ones(hidden)) for _ in range(2))
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden, False), nn.Linear(hidden, hidden, False)
        self.gate = nn.Linear(hidden, experts, False)
        self.experts = Experts(experts, hidden, inner)
        self.register_buffer("cache", torch.randn(2, 1, heads, length, hidden // heads))

    def forward(self, x, turn, place):
        q, k, v = (t.view(1, 1, self.heads, -1).transpose(1, 2)
                   for t in self.qkv(norm(x, self.norm1)).chunk(3, -1))
        q, k = (t * turn[0] + torch.cat((-t.chunk(2, -1)[1], t.chunk(2, -1)[0]), -1) * turn[1]
                for t in (q, k))
        self.cache[0].index_copy_(2, place, k)
        self.cache[1].index_copy_(2, place, v)
        y = nn.functional.scaled_dot_product_attention(q, self.cache[0], self.cache[1])
        x = x + self.out(y.transpose(1, 2).reshape(1, -1))
        y = norm(x, self.norm2)
        weights, indices = torch.softmax(self.gate(y).float(), -1).topk(self.k, -1)
        weights = (weights / weights.sum(-1, keepdim=True)).to(x.dtype)
        return x + self.experts(y, indices, weights)


class StaticDecode(nn.Module):
    """One token of one sequence: its input is the token it chose before, its cache has a fixed
    length and the new entry always goes to the last place, so steps differ in their token and
    cost the same."""

    def __init__(self, hidden=1024, inner=3584, layers=8, heads=16, experts=8, k=2, vocabulary=32000,
                 length=256):
        super().__init__()
        self.k, self.vocabulary = k, vocabulary
        self.embedding = nn.Embedding(vocabulary, hidden)
        self.layers = nn.ModuleList(Layer(hidden, inner, heads, experts, k, length)
                                    for _ in range(layers))
        self.norm = nn.Parameter(torch.ones(hidden))
        self.head = nn.Linear(hidden, vocabulary, False)
        angle = torch.rand(hidden // heads)
        self.register_buffer("turn", torch.stack((angle.cos(), angle.sin())))
        self.register_buffer("place", torch.tensor([length - 1]))
        self.register_buffer("token", torch.zeros(1, dtype=torch.long))
        self.register_buffer("count", torch.zeros(1, dtype=torch.long))

    @torch.no_grad()
    def forward(self):
        x = self.embedding(self.token)
        for layer in self.layers:
            x = layer(x, self.turn, self.place)
        best = self.head(norm(x, self.norm)).argmax(-1)
        self.count.add_(1)
        # Random weights soon reach a fixed point; the count keeps the tokens changing.
        self.token.copy_((best + 7919 * self.count) % self.vocabulary)


def captured(work):
    """A CUDA graph of what work() does, after a warm-up on a separate stream."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph


def recorded_graph(model, recorder, log=None):
    """A graph of one step that is recorded, and with a log also recounted, from its start."""
    def step():
        model()
        recorder.step()
        if log:
            log.step()

    graph = captured(step)
    if log:
        log.restart()
    return graph


class Log:
    """What the experts were called with, step by step, kept by plain torch operations that can be
    in a graph: the recount of the checks."""

    def __init__(self, model, steps, device):
        self.modules = experts_of(model)
        k = model.k
        self.kept = torch.full((steps, len(self.modules), k), -1, dtype=torch.long, device=device)
        self.at = torch.zeros(1, dtype=torch.long, device=device)
        self.hooks = [m.register_forward_pre_hook(self.hook(i)) for i, m in enumerate(self.modules)]

    def hook(self, layer):
        def before(_module, args):
            self.kept[:, layer].index_copy_(0, self.at, args[1].reshape(1, -1))
        return before

    def step(self):
        self.at.add_(1)

    def restart(self):
        self.at.zero_()
        self.kept.fill_(-1)

    def detach(self):
        for hook in self.hooks:
            hook.remove()

    def load(self, step, layer):
        return torch.bincount(self.kept[step, layer].cpu(),
                              minlength=self.modules[layer].num_experts).tolist()
