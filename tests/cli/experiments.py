# SPDX-License-Identifier: Apache-2.0
"""Experiment directories whose figures are known, as 'moescope bench' leaves them.

Run by itself, it makes a directory to look at: python3 tests/cli/experiments.py DIR.
"""

import itertools
import json
import pathlib
import random
import sys

CONFIG = {"engine": "builtin", "model": "tiny", "model_path": None, "model_name": "tiny",
          "task": "inference", "prompt": "What is a mixture | of experts?", "max_tokens": 100,
          "batch_size": 1, "tensor_parallel_size": 1, "temperature": 0.7, "environment": {},
          "server_args": [], "seed": 0, "repeats": 1, "warmup": 1, "dialect": "vllm",
          "price_per_hour": 0, "experiment_name": None, "output_dir": "results"}
FORMULAS = {"ttft_ms": "first chunk - sent", "e2el_ms": "last chunk - sent"}


def figures(rate, time, **latencies):
    """The figures of one repeat, or of all together; ttft=(p50, p99) and so on, in ms."""
    serving = {}
    for name in ("ttft", "tpot", "itl", "e2el"):
        if name in latencies:
            p50, p99 = latencies[name]
            serving[f"{name}_ms"] = {"n": 8, "mean": p50, "p50": p50, "p99": p99,
                                     "formula": FORMULAS.get(f"{name}_ms", name)}
        else:
            serving[f"{name}_ms"] = None
            serving[f"{name}_ms_reason"] = "no request has it"
    return {"inference_time": time, "tokens_per_second": rate, "serving": {"vllm": serving}}


def experiment(folder, config, repeats, status="success", error=None, memory=None):
    """One directory. repeats: what figures() gives; the whole is that of the slowest of them, so
    that nobody can take the one for the other."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True)
    metrics = None
    if repeats:
        metrics = dict(min(repeats, key=lambda r: r["tokens_per_second"]))
        metrics["repeats"] = repeats
        metrics["memory"] = {"estimated_bytes": 5, "measured_peak_bytes": memory}
        if memory is None:
            metrics["memory"]["measured_peak_bytes_reason"] = "not measured"
    document = {"schema": "moescope/experiment/1", "name": folder.name, "status": status,
                "error": error, "duration_s": 1.5, "engine": "builtin", "model": "tiny",
                "config": {**CONFIG, **config}, "metrics": metrics, "files": []}
    (folder / "config.yaml").write_text("engine: builtin\n", encoding="utf-8")
    (folder / "summary.json").write_text(json.dumps(document), encoding="utf-8")


def law(batch, tokens, parallel, noise):
    """Throughput as batch^0.8 parallel^0.6, latency of a token as batch^0.35 parallel^-0.4."""
    rate = 120 * batch ** 0.8 * parallel ** 0.6 * noise
    tpot = 8 * batch ** 0.35 / parallel ** 0.4 / noise
    ttft = 20 * batch ** 0.5 + tokens / 50
    return figures(rate, tokens * batch / rate, ttft=(ttft, ttft * 1.4), tpot=(tpot, tpot * 1.2),
                   itl=(tpot, tpot * 2), e2el=(ttft + tpot * tokens, (ttft + tpot * tokens) * 1.1))


def grid(directory, batches=(1, 2, 4, 8, 16), tokens=(100,), parallel=(1, 2, 4), repeats=5,
         spread=0.01, failed=(), **config):
    """A sweep; `failed` are points (batch, tokens, parallel) that ended in another way."""
    random.seed(7)
    points = pathlib.Path(directory) / "points"
    for i, (b, t, p) in enumerate(itertools.product(batches, tokens, parallel)):
        given = {"batch_size": b, "max_tokens": t, "tensor_parallel_size": p, **config}
        name = points / f"{i:03d}-b{b}-t{t}-p{p}"
        if (b, t, p) in failed:
            experiment(name, given, None, "failed", "out of memory:\nCUDA error | 2")
        else:
            experiment(name, given,
                       [law(b, t, p, 1 + random.gauss(0, spread)) for _ in range(repeats)],
                       memory=2e9 * b + 1e9)


if __name__ == "__main__":
    ROOT = pathlib.Path(sys.argv[1])
    grid(ROOT / "scaling", failed={(16, 100, 1), (8, 100, 1)}, price_per_hour=12.5)
    grid(ROOT / "single", tokens=(50, 100, 200), parallel=(1,), repeats=1)
    grid(ROOT / "many", batches=(1, 2, 4, 8), tokens=(50, 100, 200, 500), parallel=(1, 2, 4, 8),
         repeats=3)
    grid(ROOT / "one", batches=(4,), parallel=(1,), repeats=4)
    grid(ROOT / "line", parallel=(1,), spread=0.1)
    grid(ROOT / "wide", batches=(1, 4, 16, 64, 256, 1024), parallel=(1,))
