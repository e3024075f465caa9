# SPDX-License-Identifier: Apache-2.0
"""The programs of soak.py. Each is a function(seconds, tell) that runs in a forked child of a
process in which warm() was called: CUDA starts in the child. It calls tell() at the start of
each step, and returns what must be the same in every run of it, or None."""
import math
import time

VOCABULARY = 4096
EXACT_STEPS = 200
# hidden size, size of an expert, layers, batch, context
LARGE = (512, 1536, 6, 4, 512)
SMALL = (128, 256, 2, 2, 64)


class Wrong(Exception):
    """A result is wrong."""


class Absent(Exception):
    """This machine lacks what the program needs."""


def warm(names):
    """Imports what these programs share, once for all children. Must not start CUDA."""
    if any("transformers" in NEEDS[name] for name in names):
        import torch._dynamo
        import transformers.models.mixtral.modeling_mixtral  # noqa: F401
    elif any("torch" in NEEDS[name] for name in names):
        import torch  # noqa: F401


def repeat(seconds, one_round):
    """Rounds of the same work; each must match the first."""
    end = time.monotonic() + seconds
    first = one_round()
    n = 1
    while time.monotonic() < end:
        if one_round() != first:
            raise Wrong(f"round {n} differs from the first")
        n += 1
    return first


def mixtral(shape, exact):
    import torch
    from transformers import MixtralConfig, MixtralForCausalLM
    hidden, expert, layers, _, _ = shape
    torch.manual_seed(0)
    config = MixtralConfig(hidden_size=hidden, intermediate_size=expert, num_hidden_layers=layers,
                           num_attention_heads=8, num_key_value_heads=4, vocab_size=VOCABULARY,
                           num_local_experts=8, num_experts_per_tok=2, max_position_embeddings=2048,
                           **({"attn_implementation": "eager"} if exact else {}))
    if exact:
        config._experts_implementation = "eager"
        torch.use_deterministic_algorithms(True, warn_only=True)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = MixtralForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    return model


def training(shape, exact):
    """A function that does one step and returns its loss, still on the device."""
    import torch
    model = mixtral(shape, exact)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    tokens = torch.randint(0, VOCABULARY, shape[3:], device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = model(tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def train_for(seconds, tell, between=lambda part: None):
    """Kernels here add in any order, so losses are only approximate. between(part) is called before
    each step with the share of the time that has passed."""
    import torch
    step = training(LARGE, exact=False)
    losses = []
    begin = time.monotonic()
    while time.monotonic() < begin + seconds:
        between((time.monotonic() - begin) / seconds)
        tell()
        losses.append(step())
        if len(losses) % 4 == 0:
            torch.cuda.synchronize()
    for n, loss in enumerate(torch.stack(losses).tolist()):
        if not math.isfinite(loss) or not 0 < loss < 2 * math.log(VOCABULARY):
            raise Wrong(f"the loss of step {n} is {loss}")


def train(seconds, tell):
    train_for(seconds, tell)


def exact(_seconds, tell):
    import torch
    step = training(SMALL, exact=True)
    losses = []
    for n in range(EXACT_STEPS):
        tell()
        losses.append(step())
        if n % 4 == 3:
            torch.cuda.synchronize()
    return torch.stack(losses).tolist()


def graphs(seconds, tell):
    import torch
    torch.manual_seed(0)
    model = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.GELU())
                                  for _ in range(8)]).cuda()
    x = torch.randn(64, 256, device="cuda")
    replays = torch.zeros((), dtype=torch.int64, device="cuda")

    def one_round():
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = model(x)
            replays.add_(1)
        replays.zero_()
        for _ in range(200):
            tell()
            graph.replay()
        torch.cuda.synchronize()
        if replays.item() != 200:
            raise Wrong(f"200 replays counted {replays.item()}")
        if not torch.allclose(y, expected, rtol=1e-3, atol=1e-3):
            raise Wrong("a replay differs from the model run eagerly")
        return y.flatten()[:256].tolist()

    with torch.no_grad():
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):  # libraries start here, not in the capture
            for _ in range(3):
                expected = model(x)
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        return repeat(seconds, one_round)


def generate(seconds, tell):
    import torch
    model = mixtral(SMALL, exact=True).eval()
    prompt = torch.randint(0, VOCABULARY, (2, 16), device="cuda")

    def one_round():
        tell()
        return model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=24,
                              min_new_tokens=24, do_sample=False, pad_token_id=0).tolist()

    return repeat(seconds, one_round)


def profiler(seconds, tell):
    from torch.profiler import ProfilerActivity, profile
    started = []

    def between(part):
        if part > 0.3 and not started:
            started.append(profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]))
            started[0].start()
        elif part > 0.5 and len(started) == 1:
            started.append("stopped")
            started[0].stop()

    train_for(seconds, tell, between)
    if len(started) == 1:
        started[0].stop()


def jax(seconds, tell):
    import jax
    import jax.numpy as jnp
    if jax.default_backend() != "gpu":
        raise Absent("JAX does not reach the GPU")
    weights = [0.05 * jax.random.normal(key, (256, 256))
               for key in jax.random.split(jax.random.PRNGKey(0), 4)]
    x = jax.random.normal(jax.random.PRNGKey(1), (128, 256))

    def loss(weights):
        h = x
        for w in weights:
            h = jnp.tanh(h @ w)
        return jnp.mean((h - x) ** 2)

    @jax.jit
    def step(weights):
        value, slopes = jax.value_and_grad(loss)(weights)
        return value, [w - 0.1 * s for w, s in zip(weights, slopes)]

    def one_round():
        now, values = weights, []
        for _ in range(50):
            tell()
            value, now = step(now)
            values.append(value)
        return [float(value) for value in values]

    repeat(seconds, one_round)  # XLA chooses its kernels by timing: the same only within one process


def cupy(seconds, tell):
    import cupy
    import numpy
    a = cupy.asarray(numpy.random.default_rng(0).random((256, 256), dtype=numpy.float32))

    def one_round():
        x = a
        for _ in range(50):
            tell()
            x = cupy.tanh(0.01 * (x @ a)) + a
        return x.sum(axis=0).tolist()

    return repeat(seconds, one_round)


PROGRAMS = {f.__name__: f for f in (train, exact, graphs, generate, profiler, jax, cupy)}
NEEDS = {"train": ("torch", "transformers"), "exact": ("torch", "transformers"),
         "graphs": ("torch",), "generate": ("torch", "transformers"),
         "profiler": ("torch", "transformers"), "jax": ("jax",), "cupy": ("cupy",)}
