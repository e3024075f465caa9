#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real servers with a model of random weights and one token per byte: `transformers serve`, vLLM if
installed, and with MOESCOPE_LAB_ALL=1 llama.cpp's (compiled first). Tokens are compared with the
bytes of the prompt and with the server's answer to an unstreamed request."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(HERE, "..", "cli"))
from cli import Skip, main, moescope, test  # noqa: E402
from mock import client  # noqa: E402

PROMPT = "Hello, how are you?"


def packages(*what):
    done = subprocess.run([os.path.join(ROOT, "tools", "python_env.sh"), *what],
                          stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise Skip(f"tools/python_env.sh {' '.join(what)} could not install the packages")
    return done.stdout.strip().splitlines()[-1]


@contextlib.contextmanager
def server(command, **variables):
    """The URL of a server that reports its port; it ends with the block."""
    env = dict(os.environ, HF_HUB_OFFLINE="1", OMP_NUM_THREADS="1", **variables)
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True)
    said = []
    try:
        for line in process.stdout:
            said.append(line)
            found = re.search(r"running on (http://127\.0\.0\.1:\d+)", line)
            if found:
                break
        else:
            raise RuntimeError("the server ended: " + "".join(said)[-2000:])
        # Nobody reads what follows; it must not fill the pipe.
        drain = subprocess.Popen(["cat"], stdin=process.stdout, stdout=subprocess.DEVNULL)
        yield found.group(1)
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
        if "drain" in locals():
            drain.wait()


def ask(url, body):
    request = urllib.request.Request(url + "/v1/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)["usage"]


def check(url, model, tells, extra=0):
    """tells: the server also counts tokens of streams; else each piece is one, a letter. extra:
    tokens that it prepends to a prompt."""
    for endpoint in ("completions", "chat"):
        run = client(url, model=model, endpoint=endpoint, requests=12, concurrency=3, max_tokens=24,
                     temperature=0, prompt=PROMPT, warmup=1)
        assert run.ends() == {"ok": 12}, [r["error"] for r in run.requests]
        for request in run.requests:
            assert request["server_counts"] == tells, request
            tokens = request["output_tokens"] if tells else len(request["pieces_ns"])
            assert tokens == 24, request
            assert 1 <= len(request["pieces_ns"]) <= 24, request
            assert request["sent_ns"] < request["pieces_ns"][0] <= request["end_ns"], request
        if endpoint == "completions":
            usage = ask(url, {"model": model, "prompt": PROMPT, "max_tokens": 24, "temperature": 0})
            assert usage["completion_tokens"] == 24, usage
            if tells:
                assert {r["prompt_tokens"] for r in run.requests} == {usage["prompt_tokens"]}
            assert usage["prompt_tokens"] == len(PROMPT) + extra, usage
    done = moescope("bench", "--engine", "openai", "--url", url, "--model", model, "--requests", 6,
                    "--max-tokens", 10, "--temperature", 0, "--experiment-name", "real",
                    "--endpoint", "completions", "--json", "--force", timeout=300)
    assert done.status == 0, done
    summary = json.loads(done.out)
    usage = ask(url, {"model": model, "prompt": PROMPT, "max_tokens": 10, "temperature": 0})
    assert summary["status"] == "success", summary
    assert summary["metrics"]["requests_ok"] == 6, summary["metrics"]
    assert summary["metrics"]["output_tokens"] == 6 * usage["completion_tokens"], summary["metrics"]


def make_model(folder):
    """The tiny model, made by the Python of the tests' environment; returns its path."""
    model = os.path.abspath("model")
    subprocess.run([os.path.join(folder, "bin", "python"), os.path.join(HERE, "tiny_model.py"), model],
                   check=True, env=dict(os.environ, HF_HUB_OFFLINE="1"), stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    return model


@test
def transformers_serve():
    folder, more = packages(), packages("servers")
    model = make_model(folder)
    with server([os.path.join(folder, "bin", "transformers"), "serve", model, "--host",
                 "127.0.0.1", "--port", "0", "--device", "cpu"], PYTHONPATH=more,
                PYTHONUNBUFFERED="1") as url:
        check(url, model, True)


@test
def vllm_started_by_its_engine():
    if not shutil.which("vllm"):
        raise Skip("'vllm' is not on the PATH")
    done = moescope("bench", "--engine", "vllm", "--model", make_model(packages()), "--requests", 12,
                    "--concurrency", 3, "--max-tokens", 24, "--temperature", 0, "--prompt", PROMPT,
                    "--endpoint", "completions", "--ignore-eos", "--experiment-name", "v", "--json",
                    "--server-args", "--enforce-eager --max-model-len 512 --dtype float32",
                    # For vLLM's CPU part: a gigabyte for the cache, and no dedicated core.
                    "--environment", "VLLM_CPU_KVCACHE_SPACE=1 VLLM_CPU_OMP_THREADS_BIND=nobind "
                    "VLLM_NO_USAGE_STATS=1 HF_HUB_OFFLINE=1", timeout=900)
    assert done.status == 0, done
    metrics = json.loads(done.out)["metrics"]
    told = [metrics[key] for key in ("requests_ok", "prompt_tokens", "output_tokens")]
    assert told == [12, 12 * len(PROMPT), 12 * 24], told
    assert metrics["load_time"] > 0 and metrics["tokens_per_second"] > 0, metrics


@test
def llama_cpp():
    if not os.environ.get("MOESCOPE_LAB_ALL"):
        raise Skip("compiles llama.cpp; 'make lab-servers' runs it")
    more = packages("llama")
    env = {"PYTHONPATH": more, "PYTHONUNBUFFERED": "1"}
    subprocess.run([sys.executable, os.path.join(HERE, "tiny_model.py"), "gguf", "model.gguf"],
                   check=True, env=dict(os.environ, **env))
    with server([sys.executable, "-m", "llama_cpp.server", "--model", "model.gguf", "--host",
                 "127.0.0.1", "--port", "0", "--n_ctx", "512", "--n_threads", "1",
                 # By default a new request ends the one in flight.
                 "--interrupt_requests", "False"], **env) as url:
        # It prepends <s> and a space; spaces become U+2581, three bytes.
        check(url, "model.gguf", False, 1 + 3 + 2 * PROMPT.count(" "))


if __name__ == "__main__":
    main()
