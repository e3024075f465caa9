#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Routing on a device, against a recount: routing_check.py [--device cuda|cpu] [--only NAME,NAME]

Counts of every layer and step equal torch.bincount of what the experts were called with, in bf16, for
tiny random models of five families, by the C recorder and by MoEProfiler; in CUDA graphs and their
replays; on two streams; with the gate off in some steps; and the kept tokens in their order. Decoded
tokens, which MoEProfiler counts by one launch a step, also of a model that writes over its indices.
Prints 'ok NAME', 'FAIL NAME: why' or 'skip NAME: why', and ends with 'N passed, N failed'.

--device cpu is for machines without a GPU: the C recorder then needs a scripted driver
(MOESCOPE_CUDA and MOESCOPE_NVRTC), and what needs torch.cuda is skipped.
"""
import argparse
import os
import sys
import tempfile
import traceback

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(HERE)), "bench", "gpu"))
from routing_parts import (Log, Recorder, StaticDecode, experts_of, lib, lost,  # noqa: E402
                           recorded_graph, series)

SMALL = {"vocab_size": 128, "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4,
         "num_key_value_heads": 4, "max_position_embeddings": 128}
FAMILIES = {
    "Mixtral": {"intermediate_size": 128, "num_local_experts": 8, "num_experts_per_tok": 2},
    "Qwen3Moe": {"moe_intermediate_size": 64, "num_experts": 16, "num_experts_per_tok": 4,
                 "head_dim": 16, "decoder_sparse_step": 1, "mlp_only_layers": []},
    "Olmoe": {"intermediate_size": 64, "num_experts": 64, "num_experts_per_tok": 8},
    "DeepseekV3": {"moe_intermediate_size": 64, "intermediate_size": 128, "n_routed_experts": 32,
                   "num_experts_per_tok": 4, "n_group": 4, "topk_group": 2, "n_shared_experts": 1,
                   "first_k_dense_replace": 1, "q_lora_rank": 32, "kv_lora_rank": 32,
                   "qk_rope_head_dim": 16, "qk_nope_head_dim": 16, "v_head_dim": 16},
    "GptOss": {"intermediate_size": 64, "num_local_experts": 8, "num_experts_per_tok": 4,
               "head_dim": 16, "sliding_window": 32},
}
STEPS = 6


class Skip(Exception):
    pass


class Wrong(Exception):
    pass


def model_of(family, device):
    import transformers
    config = getattr(transformers, family + "Config", None)
    kind = getattr(transformers, family + "ForCausalLM", None)
    if config is None or kind is None or int(transformers.__version__.split(".")[0]) < 5:
        raise Skip(f"transformers {transformers.__version__} has no {family} with the experts "
                   "interface")
    torch.manual_seed(1)
    model = kind(config(**SMALL, **FAMILIES[family])).to(device, torch.bfloat16)
    return model, FAMILIES[family]["num_experts_per_tok"]


class Recount:
    """Hooks of our own: what the experts were called with, by step and layer."""

    def __init__(self, model):
        self.steps, self.modules = [], experts_of(model)
        self.handles = [m.register_forward_pre_hook(self.hook(i))
                        for i, m in enumerate(self.modules)]

    def hook(self, layer):
        def before(_module, args):
            self.steps[-1].setdefault(layer, []).append(args[1].detach().clone().cpu())
        return before

    def load(self, step, layer):
        chosen = torch.cat([i.reshape(-1) for i in self.steps[step][layer]])
        return torch.bincount(chosen, minlength=self.modules[layer].num_experts).tolist()

    def expected(self, layer, first=0):
        return {first + s: self.load(s, layer) for s in range(len(self.steps))}

    def detach(self):
        for handle in self.handles:
            handle.remove()


def same(run, layers, expected):
    """Raises with the first difference."""
    trouble = lost(run)
    if trouble:
        raise Wrong(f"lost: {trouble}")
    for layer in range(layers):
        got, want = series(run, layer), expected(layer)
        for step in sorted({**got, **want}):
            if got.get(step) != want.get(step):
                raise Wrong(f"layer {layer}, step {step}: {got.get(step)} is not {want.get(step)}")


def batches(device):
    generator = torch.Generator().manual_seed(5)
    for step in range(STEPS):
        yield torch.randint(0, 128, (1 + step % 3, 1 if step == 4 else 7 + 20 * step),
                            generator=generator).to(device)


class Session:
    def __init__(self, folder, name):
        self.run = os.path.join(folder, name + ".mscope")

    def __enter__(self):
        from moescope import api
        api.start(self.run, "counts")
        return self.run

    def __exit__(self, *_):
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        lib.load().moescope_stop()


def recorder_is_exact(family, device, folder):
    model, k = model_of(family, device)
    recount = Recount(model)
    recorder = Recorder(model, k, weights=True, tokens=64).attach()
    with Session(folder, f"recorder-{family}") as run:
        for step, tokens in enumerate(batches(device)):
            recount.steps.append({})
            if step % 2:
                with torch.no_grad():
                    model(input_ids=tokens)
            else:
                model(input_ids=tokens, labels=tokens).loss.backward()
            recorder.step(step, like=tokens)
        if device == "cuda":
            torch.cuda.synchronize()
        recorder.flush()
    recorder.close()
    recount.detach()
    same(run, len(recount.modules), recount.expected)


def profiler_is_exact(family, mode, device, folder):
    import moescope
    if not hasattr(moescope, "MoEProfiler"):
        raise Skip("this package has no MoEProfiler")
    model, _ = model_of(family, device)
    recount = Recount(model)
    profiler = moescope.MoEProfiler(model, mode=mode,
                                    run=os.path.join(folder, f"{mode}-{family}.mscope"))
    profiler.start()
    run = profiler.run
    for step, tokens in enumerate(batches(device)):
        recount.steps.append({})
        if step % 2:
            with torch.no_grad():
                model(input_ids=tokens)
        else:
            model(input_ids=tokens, labels=tokens).loss.backward()
    if device == "cuda":
        torch.cuda.synchronize()
    profiler.stop()
    recount.detach()
    same(run, len(recount.modules), recount.expected)


def small_decode(device):
    torch.manual_seed(2)
    return StaticDecode(hidden=128, inner=128, layers=3, heads=4, experts=8, k=2, vocabulary=500,
                        length=16).to(device, torch.bfloat16).eval()


def need_cuda(device):
    if device != "cuda":
        raise Skip("needs a GPU")


def replays_are_exact(device, folder):
    """More replays than there are slots, back to back without a wait; then eager steps."""
    need_cuda(device)
    model, replays = small_decode(device), 3000
    recorder = Recorder(model, 2).attach()
    log = Log(model, replays + 8, device)
    graph = recorded_graph(model, recorder, log)
    with Session(folder, "replays") as run:
        recorder.step(-1)
        first = 1  # the graph was captured, never run, when nothing was recorded
        for _ in range(replays):
            graph.replay()
        torch.cuda.synchronize()
        recorder.flush()
    recorder.close()
    same(run, 3, lambda layer: {first + s: log.load(s, layer) for s in range(replays)})


def gate_holds_in_replays(device, folder):
    need_cuda(device)
    model, replays = small_decode(device), 40
    recorder = Recorder(model, 2).attach()
    log = Log(model, replays + 8, device)
    graph = recorded_graph(model, recorder, log)
    with Session(folder, "gate") as run:
        recorder.step(9)
        for i in range(replays):
            recorder.gate(i % 4 == 0)
            graph.replay()
        torch.cuda.synchronize()
        recorder.flush()
    recorder.close()
    same(run, 3, lambda layer: {10 + s: log.load(s, layer) for s in range(0, replays, 4)})


def streams_are_exact(device, folder):
    """Each layer on its own stream; the step ends on a third, ordered by events."""
    need_cuda(device)
    torch.manual_seed(3)
    model = small_decode(device)
    recorder = Recorder(model, 2, tokens=0)
    streams = [torch.cuda.Stream() for _ in range(4)]
    want = []
    with Session(folder, "streams") as run:
        for step in range(50):
            made = [torch.randint(0, 8, (1 + 97 * step, 2), device=device) for _ in range(3)]
            want.append([torch.bincount(m.reshape(-1), minlength=8) for m in made])
            for layer, stream in enumerate(streams[:3]):
                stream.wait_stream(torch.cuda.current_stream())
                stream.wait_stream(streams[3])  # the previous step is over
                with torch.cuda.stream(stream):
                    recorder.route(layer, 8, made[layer])
                made[layer].record_stream(stream)
                streams[3].wait_stream(stream)
            with torch.cuda.stream(streams[3]):
                recorder.step(step)
        torch.cuda.synchronize()
        recorder.flush()
    recorder.close()
    same(run, 3, lambda layer: {s: want[s][layer].tolist() for s in range(50)})


def gate_holds(device, folder):
    model = small_decode(device)
    recount = Recount(model)
    recorder = Recorder(model, 2).attach()
    with Session(folder, "gate-eager") as run:
        for step in range(12):
            recorder.gate(step % 3 != 1, like=model.token)
            recount.steps.append({})
            model()
            recorder.step(step, like=model.token)
        if device == "cuda":
            torch.cuda.synchronize()
        recorder.flush()
    recorder.close()
    recount.detach()
    same(run, 3, lambda layer: {s: recount.load(s, layer) for s in range(12) if s % 3 != 1})


def kept_tokens_are_in_order(device, folder):
    """How often neighbours share an expert depends on every kept slot being in its place."""
    generator = torch.Generator().manual_seed(6)
    model = small_decode(device)
    recorder = Recorder(model, 2, tokens=5000)
    chosen = torch.stack([torch.randperm(8, generator=generator)[:2] for _ in range(4000)])
    with Session(folder, "kept") as run:
        recorder.route(0, 8, chosen[:1300].to(device))
        recorder.route(0, 8, chosen[1300:].to(device, torch.int32))
        recorder.step(0, like=chosen.to(device))
        if device == "cuda":
            torch.cuda.synchronize()
        recorder.flush()
    recorder.close()
    sets = [set(row.tolist()) for row in chosen]
    want = sum(bool(a & b) for a, b in zip(sets, sets[1:])) / (len(sets) - 1)
    got = lib.table("routing", run, "--layer", "0")["rows"][0]["repeat_rate"]
    if got is None or abs(got - want) > 1e-9:
        raise Wrong(f"repeat rate {got} is not {want}")


def nothing(_layer, _indices, _weights):
    pass


class Stumble(Exception):
    pass


class Chooser(torch.nn.Module):
    """Layers whose choices are drawn on the device and copied for the recount. A check may say what
    the model does with them after the experts (then), and on which stream these run (streams)."""

    class Experts(torch.nn.Module):
        def __init__(self, device):
            super().__init__()
            self.num_experts = 8
            self.up_proj, self.down_proj = (torch.nn.Parameter(torch.ones(*shape, device=device))
                                            for shape in ((8, 4, 2), (8, 2, 4)))

        def forward(self, hidden, indices, weights):
            return hidden

    def __init__(self, device, layers=3):
        super().__init__()
        self.layers = torch.nn.ModuleList(self.Experts(device) for _ in range(layers))
        self.then, self.streams, self.seen = nothing, {}, []

    def forward(self, input_ids):
        eager = not torch.cuda.is_current_stream_capturing()
        if eager:
            self.seen.append({})
        for number, layer in enumerate(self.layers):
            weights, indices = torch.randn(1, 8, device=input_ids.device).softmax(-1).topk(2)
            if eager:
                self.seen[-1][number] = indices.clone()
            stream = self.streams.get(number)
            if stream is None:
                layer(input_ids, indices, weights)
            else:
                stream.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(stream):
                    layer(input_ids, indices, weights)
                torch.cuda.current_stream().wait_stream(stream)
            self.then(number, indices, weights)
        return input_ids

    def loads(self, layer):
        """{step: load} of the eager steps that reached the layer."""
        return {step: torch.bincount(seen[layer].reshape(-1).cpu(), minlength=8).tolist()
                for step, seen in enumerate(self.seen) if layer in seen}


def kept_in_steps(profiler):
    """For layers counted together: whether the model is trusted to leave them alone."""
    return bool(profiler._state.session.kept[0].trial.trusted)


def decodes_exactly(device, folder, name, change=None, kept=True, mode="inference_mode", steps=150):
    """`change(model, step)` before each step. A wait in each lets the trial's answer arrive."""
    need_cuda(device)
    import moescope
    torch.manual_seed(4)
    model = Chooser(device)
    profiler = moescope.MoEProfiler(model, run=os.path.join(folder, name + ".mscope"))
    with profiler, getattr(torch, mode)():
        for step in range(steps):
            if change:
                change(model, step)
            try:
                model(torch.ones(1, 1, dtype=torch.long, device=device))
            except Stumble:
                pass
            torch.cuda.synchronize()
        if kept_in_steps(profiler) != kept:
            raise Wrong("the layers " + ("were never counted together" if kept else
                                         "were counted together, though they are written over"))
    same(profiler.run, 3, model.loads)


def writes_over(model, _step):
    model.then = lambda layer, indices, weights: indices.fill_(layer)


def two_streams(model, step):
    """The middle layer on its own stream, from the step in which it would be kept."""
    if step == 60:
        model.streams = {1: torch.cuda.Stream()}
    if step == 100:
        model.streams = {}


def stumbles(model, step):
    def then(layer, _indices, _weights):
        if layer == 1:
            raise Stumble()
    model.then = then if step % 50 == 40 else nothing


def decodes_then_graph(device, folder):
    """Kept steps, then a graph whose replays are counted, then kept steps again."""
    need_cuda(device)
    import moescope
    model = Chooser(device)
    tokens = torch.ones(1, 1, dtype=torch.long, device=device)
    profiler = moescope.MoEProfiler(model, run=os.path.join(folder, "decode-graph.mscope"))
    with profiler, torch.no_grad():
        for _ in range(60):
            model(tokens)
            torch.cuda.synchronize()
        if not kept_in_steps(profiler):
            raise Wrong("the layers were never counted together")
        counts = torch.zeros(3, 8, dtype=torch.long, device=device)
        ones = torch.ones(2, dtype=torch.long, device=device)
        model.then = lambda layer, indices, weights: counts[layer].scatter_add_(
            0, indices.reshape(-1), ones)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            model(tokens)
        for _ in range(20):
            graph.replay()
        torch.cuda.synchronize()
        replayed, model.then = counts.tolist(), nothing
        for _ in range(40):
            model(tokens)
    trouble = lost(profiler.run)
    if trouble:
        raise Wrong(f"lost: {trouble}")
    for layer in range(3):
        found = series(profiler.run, layer)
        got = [sum(column) for column in zip(*found.values())]
        want = [sum(column) for column in zip(replayed[layer], *model.loads(layer).values())]
        if got != want or len(found) != 120:
            raise Wrong(f"layer {layer}: {got} in {len(found)} steps is not {want} in 120")


DECODE = {
    "decode": {}, "decode no_grad": {"mode": "no_grad"},
    "decode written over": {"change": writes_over, "kept": False},
    "decode written over no_grad": {"change": writes_over, "kept": False, "mode": "no_grad"},
    "decode two streams": {"change": two_streams}, "decode raises": {"change": stumbles},
}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--only", help="checks whose names begin with one of these")
    args = parser.parse_args()
    if args.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("routing_check.py: no CUDA device here")
    checks = {f"recorder {f}": lambda d, o, f=f: recorder_is_exact(f, d, o) for f in FAMILIES}
    for mode in ("counts", "tokens"):
        checks.update({f"profiler {mode} {f}": lambda d, o, f=f, m=mode: profiler_is_exact(f, m, d, o)
                       for f in FAMILIES})
    checks.update({"gate": gate_holds, "kept tokens": kept_tokens_are_in_order,
                   "streams": streams_are_exact, "graph replays": replays_are_exact,
                   "graph gate": gate_holds_in_replays, "decode graph": decodes_then_graph})
    checks.update({name: lambda d, o, n=name, how=how: decodes_exactly(d, o, n.replace(" ", "-"), **how)
                   for name, how in DECODE.items()})
    passed = failed = 0
    with tempfile.TemporaryDirectory(prefix="moescope-check-") as folder:
        for name, check in checks.items():
            if args.only and not name.startswith(tuple(args.only.split(","))):
                continue
            try:
                check(args.device, folder)
            except Skip as why:
                print(f"skip {name}: {why}", flush=True)
                continue
            except Exception as why:  # the next check is worth a try anyway
                failed += 1
                if not isinstance(why, Wrong):
                    traceback.print_exc()
                print(f"FAIL {name}: {type(why).__name__}: {why}", flush=True)
                lib.load().moescope_stop()
                continue
            passed += 1
            print(f"ok {name}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
