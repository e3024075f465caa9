#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The transformers engine of experiments on a device: lab_check.py [BUILD] [--device cuda|cpu]

rate: tokens/s of the engine against a loop that shares nothing with it but the model, in turns in one
process: generate() without a streamer, timed from outside. They must be within 2%. A decoding loop
written by hand is shown for comparison; it does not do what generate does around each token.
clock: the engine's tokens/s against a clock around the very calls of generate() that it makes, and the
tokens that these return: what else runs on the machine is the same for both. Within 2%, too.
sweep: twelve points under the profiler, unattended; each must succeed and, on a GPU, have kernels.

--model NAME, --layers N, --tokens N, --batch N, --rounds N, --only rate,clock,sweep. Prints 'ok NAME',
'FAIL NAME: why', and ends with 'N passed, N failed'.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))
WITHIN = 0.02


class Wrong(Exception):
    pass


def plain_loop(model, ids, batch, tokens):
    """Tokens per second of generate(), by a clock around it."""
    import torch
    prompts = torch.tensor([ids] * batch, device=model.device)
    if model.device.type == "cuda":
        torch.cuda.synchronize()
    begin = time.perf_counter()
    with torch.inference_mode():
        out = model.generate(prompts, attention_mask=torch.ones_like(prompts), do_sample=False,
                             max_new_tokens=tokens, pad_token_id=0)
    if model.device.type == "cuda":
        torch.cuda.synchronize()
    return (out.numel() - prompts.numel()) / (time.perf_counter() - begin)


def hand_loop(model, ids, batch, tokens):
    """The same by forward passes and a cache."""
    import torch
    step = torch.tensor([ids] * batch, device=model.device)
    cache, made = None, 0
    if model.device.type == "cuda":
        torch.cuda.synchronize()
    begin = time.perf_counter()
    with torch.inference_mode():
        for _ in range(tokens):
            out = model(input_ids=step, past_key_values=cache, use_cache=True)
            cache, step = out.past_key_values, out.logits[:, -1:].argmax(-1)
            step.tolist()  # the host has it, as a user would want it
            made += batch
    return made / (time.perf_counter() - begin)


def engine(driver, config, model):
    """Tokens per second from what the driver wrote."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "requests.jsonl")
        notes = driver.Notes(path, 0)
        driver.infer(config, model, None, notes, driver.Traced(model))
        notes.close()
        with open(path, encoding="utf-8") as file:
            rows = [row for row in map(json.loads, file) if "sent_ns" in row]
    seconds = (max(row["end_ns"] for row in rows) - min(row["sent_ns"] for row in rows)) / 1e9
    return sum(row["output_tokens"] for row in rows) / seconds


def model_of(args):
    """The driver, one of its experiments, and its model."""
    from moescope.lab.drivers import transformers_driver as driver
    config = dict(model=args.model, task="inference", prompt="Hello, how are you?", seed=1,
                  max_tokens=args.tokens, batch_size=args.batch, temperature=0, warmup=0, repeats=1)
    words = ["--device", args.device]
    if args.layers:
        words += ["--set", f"num_hidden_layers={args.layers}"]
    return driver, config, driver.make_model(config, driver.options_of(words))[0]


def clock(args):
    import torch
    driver, config, model = model_of(args)
    generate, calls = model.generate, []

    def timed(prompts, **options):
        begin = time.perf_counter()
        out = generate(prompts, **options)
        if model.device.type == "cuda":
            torch.cuda.synchronize()
        calls.append((out.numel() - prompts.numel(), time.perf_counter() - begin))
        return out
    model.generate = timed
    ratios = []
    for _ in range(args.rounds):
        calls.clear()
        found = engine(driver, config, model)
        (tokens, seconds), = calls
        ratios.append(found / (tokens / seconds))
    middle = statistics.median(ratios)
    print(f"  engine / clock around it: {middle:.4f} (median of {len(ratios)}, {min(ratios):.4f} to "
          f"{max(ratios):.4f})", flush=True)
    if abs(middle - 1) > WITHIN:
        raise Wrong(f"the engine gives {100 * (middle - 1):+.2f}% of the clock's tokens/s")


def rate(args):
    driver, config, model = model_of(args)
    ids = list(config["prompt"].encode())
    ways = {"engine": lambda: engine(driver, config, model),
            "generate": lambda: plain_loop(model, ids, args.batch, args.tokens),
            "by hand": lambda: hand_loop(model, ids, args.batch, args.tokens)}
    for way in ways.values():
        way()
    found = {name: [] for name in ways}
    for turn in range(args.rounds):  # the order alternates too
        for name in list(ways)[:: 1 if turn % 2 else -1]:
            found[name].append(ways[name]())
    ratio = statistics.median(e / g for e, g in zip(found["engine"], found["generate"]))
    for name, figures in found.items():
        print(f"  {name:9} {statistics.median(figures):10.1f} tokens/s (median of {len(figures)}, "
              f"{min(figures):.1f} to {max(figures):.1f})")
    print(f"  engine / generate: {ratio:.4f} (median of the rounds' ratios)", flush=True)
    if abs(ratio - 1) > WITHIN:
        raise Wrong(f"the engine gives {100 * (ratio - 1):+.2f}% of the loop's tokens/s")


def sweep(args):
    tool = os.path.join(os.path.abspath(args.build), "moescope")
    with tempfile.TemporaryDirectory(prefix="moescope-lab-check-") as folder:
        words = ["--device", args.device] + (
            ["--set", f"num_hidden_layers={args.layers}"] if args.layers else [])
        env = dict(os.environ, MOESCOPE_PYTHON=sys.executable)
        env["PYTHONPATH"] = os.pathsep.join(
            filter(None, [os.path.join(ROOT, "python"), env.get("PYTHONPATH")]))
        done = subprocess.run(
            [tool, "sweep", "--engine", "transformers", "--model", args.model,
             "--parameter-sweep", "batch_size:1,2,4;max_tokens:16,32;temperature:0,0.7",
             "--profile-mode", "trace", "--output-dir", folder, "--experiment-name", "twelve",
             "--server-args", " ".join(words)], env=env, capture_output=True, text=True)
        points = os.path.join(folder, "twelve", "points")
        if done.returncode != 0:
            raise Wrong(f"sweep ended with {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        names = sorted(os.listdir(points))
        if len(names) != 12:
            raise Wrong(f"there are {len(names)} points: {names}")
        for name in names:
            check_point(os.path.join(points, name), args.device.startswith("cuda"))


def check_point(directory, on_gpu):
    with open(os.path.join(directory, "summary.json"), encoding="utf-8") as file:
        summary = json.load(file)
    config, metrics = summary["config"], summary["metrics"]
    with open(os.path.join(directory, "nsys_metrics.json"), encoding="utf-8") as file:
        kernels = json.load(file)["cuda_kernels"]
    expected = config["batch_size"] * config["max_tokens"]
    print(f"  batch {config['batch_size']}, tokens {config['max_tokens']}, temperature "
          f"{config['temperature']}: {metrics['tokens_per_second']:.1f} tokens/s, {len(kernels)} kernels",
          flush=True)
    if summary["status"] != "success" or metrics["output_tokens"] != expected:
        raise Wrong(f"{directory}: {summary['status']}, {metrics['output_tokens']} tokens of {expected}")
    if on_gpu and not kernels:
        raise Wrong(f"{directory}: the trace has no kernel")


def main():
    import torch
    cuda = torch.cuda.is_available()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="?", default=os.path.join(ROOT, "build"))
    parser.add_argument("--device", default="cuda" if cuda else "cpu")
    parser.add_argument("--model", default="mixtral-8x7b" if cuda else "mixtral-tiny")
    parser.add_argument("--layers", type=int, default=8 if cuda else 0)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="rate,clock,sweep")
    args = parser.parse_args()
    failed = 0
    checks = [check for check in (rate, clock, sweep) if check.__name__ in args.only.split(",")]
    for check in checks:
        try:
            check(args)
            print(f"ok {check.__name__}", flush=True)
        except Wrong as why:
            failed += 1
            print(f"FAIL {check.__name__}: {why}", flush=True)
    print(f"{len(checks) - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
