#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Our serving figures compared with those of vLLM bench, GuideLLM and AIPerf on the same streams.

    conformance_serving.py [BUILD] [--requests 1000] [--rate 10] [--endpoint completions]
                           [--only vllm,guidellm,aiperf] [--table FILE]

`moescope bench` and then each of the others measures a mock server that plays the same streams back (by
the ordinal of the request), for some two minutes each. Requests arrive at a constant rate: with a fixed
number in flight, throughput would depend on how soon the client sends the next. Two comparisons:

  exact   the client's own recording of every request through our formulas: its summary, to 5e-7
  live    what moescope measured itself against the client's summary: means within 0.5%

With --endpoint chat the mock sends the role at once. That is vLLM's first chunk, so that its TTFT is
the time that the client itself takes, and does not agree.

Clients come from PyPI into the user's cache (tools/peer_env.sh), some gigabytes. `make
lab-conformance` runs this; it is not part of `make test`.
"""

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import recordings

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# Slow streams: on two busy cores vLLM's client adds 15 ms to a first token by the mock's own clock,
# which must stay small compared with what is measured (docs/benchmarks.md).
STREAMS = ["--seed", "15", "--ttft-ms", "4000", "--gap-ms", "400", "--jitter", "0.5",
           "--output-tokens", "16"]
GOODPUT = {"ttft": 5000, "tpot": 420, "e2el": 11000}
LIMITS = " ".join(f"{name}:{ms}" for name, ms in GOODPUT.items())
LIVE_LIMIT = 0.005
EXACT_LIMIT = 5e-7
# Letters as tokens, so that no client needs the network for a tokenizer.
MAKE_TOKENIZER = """
import sys
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
letters = ["<unk>", "</s>"] + sorted(pre_tokenizers.ByteLevel.alphabet())
t = Tokenizer(models.BPE({w: i for i, w in enumerate(letters)}, [], unk_token="<unk>"))
t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
t.decoder = decoders.ByteLevel()
t = PreTrainedTokenizerFast(tokenizer_object=t, unk_token="<unk>", eos_token="</s>")
t.save_pretrained(sys.argv[1])
"""
VLLM_BENCH = """
from vllm.benchmarks.serve import add_cli_args, main
from vllm.utils.argparse_utils import FlexibleArgumentParser
parser = FlexibleArgumentParser()
add_cli_args(parser)
main(parser.parse_args())
"""


@contextlib.contextmanager
def server():
    """A fresh one each time, so that ordinals start at 0; stopped by its pid."""
    process = subprocess.Popen([sys.executable, ROOT / "tests/lab/mock_server.py", *STREAMS],
                               stdout=subprocess.PIPE, text=True)
    try:
        yield int(process.stdout.readline().split()[-1])
    finally:
        process.terminate()
        process.wait(20)


def peer_python(name):
    folder = subprocess.run([ROOT / "tools/peer_env.sh", name], check=True, text=True,
                            stdout=subprocess.PIPE).stdout.strip()
    return f"{folder}/bin/python"


def run(command, folder, log, **env):
    with open(folder / log, "wb") as out:
        status = subprocess.run([str(word) for word in command], cwd=folder, stdout=out,
                                stderr=subprocess.STDOUT, timeout=1200,
                                env=os.environ | {"TZ": "UTC"} | env).returncode
    if status:
        tail = (folder / log).read_text(encoding="utf-8", errors="replace").splitlines()[-15:]
        raise RuntimeError(f"{log}: status {status}\n" + "\n".join(tail))


def vllm(a, port, folder, tokenizer):
    chat = a.endpoint == "chat"
    run([peer_python("vllm"), "-c", VLLM_BENCH, "--backend", "openai-chat" if chat else "openai",
         "--base-url", f"http://127.0.0.1:{port}",
         "--endpoint", "/v1/chat/completions" if chat else "/v1/completions", "--model", "mock",
         "--tokenizer", tokenizer, "--dataset-name", "random", "--input-len", 32, "--output-len", 16,
         "--num-prompts", a.requests, "--request-rate", a.rate, "--burstiness", 1000000,
         "--goodput", *LIMITS.split(), "--percentile-metrics", "ttft,tpot,itl,e2el",
         "--metric-percentiles", "50,90,95,99", "--ready-check-timeout-sec", 0, "--save-result",
         "--save-detailed", "--result-filename", "vllm.json", "--disable-tqdm"],
        folder, "vllm.log", HF_HUB_OFFLINE="1")
    return folder / "vllm.json"


def guidellm(a, port, folder, tokenizer):
    slo = {f"{name}_ms": ms for name, ms in GOODPUT.items()}
    form = "/v1/chat/completions" if a.endpoint == "chat" else "/v1/completions"
    run([peer_python("guidellm"), "-m", "guidellm", "run",
         "--backend", json.dumps({"kind": "openai_http", "target": f"http://127.0.0.1:{port}",
                                  "model": "mock", "request_format": form}),
         "--profile", f"kind=constant,rate={a.rate}",
         "--constraint", f"kind=max_requests,count={a.requests}",
         "--tokenizer", f"kind=huggingface_auto,model={tokenizer}",
         "--data", "kind=synthetic_text,prompt_tokens=32,output_tokens=16",
         "--metrics", json.dumps({"kind": "generative", "slo": slo}),
         "--output", "kind=json,path=guidellm.json", "--disable-console-interactive"],
        folder, "guidellm.log", HF_HUB_OFFLINE="1", GUIDELLM__MAX_WORKER_PROCESSES="1")
    return folder / "guidellm.json"


def aiperf(a, port, folder, tokenizer):
    limits = dict(zip(("time_to_first_token", "inter_token_latency", "request_latency"),
                      GOODPUT.values()))
    run([peer_python("aiperf"), "-m", "aiperf", "profile", "--model", "mock",
         "--url", f"http://127.0.0.1:{port}",
         "--endpoint-type", "chat" if a.endpoint == "chat" else "completions", "--streaming",
         "--tokenizer", tokenizer, "--use-server-token-count", "--request-rate", a.rate,
         "--arrival-pattern", "constant", "--request-count", a.requests, "--workers-max", 1,
         "--synthetic-input-tokens-mean", 32, "--output-tokens-mean", 16,
         "--goodput", " ".join(f"{name}:{ms}" for name, ms in limits.items()),
         "--artifact-dir", folder / "aiperf", "--ui", "none"], folder, "aiperf.log")
    return folder / "aiperf"


CLIENTS = {"vllm": vllm, "guidellm": guidellm, "aiperf": aiperf}


def figures(a, path, dialect):
    out = subprocess.run([a.build / "tests/lab-figures", path, LIMITS], check=True, text=True,
                         stdout=subprocess.PIPE).stdout
    return dict(numbers(json.loads(out)[dialect]))


def ours(a, port, folder):
    """All dialects come from one run."""
    run([a.build / "moescope", "bench", "--engine", "openai", "--url", f"http://127.0.0.1:{port}",
         "--model", "mock", "--endpoint", a.endpoint, "--requests", a.requests, "--warmup", 0,
         "--arrival", "constant", "--request-rate", a.rate, "--concurrency", a.requests,
         "--max-tokens", 16, "--output-dir", folder / "ours", "--experiment-name", "point", "--force"],
        folder, "ours.log")
    return folder / "ours/point/requests.jsonl"


def numbers(value, place=""):
    if isinstance(value, dict):
        for key, item in value.items():
            yield from numbers(item, f"{place}.{key}" if place else key)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield place, value


def exact(a, kind, recorded, folder):
    """Figures that our formulas miss on the client's own recording."""
    recordings.convert(kind, recorded, folder / kind, LIMITS)
    expected = dict(numbers(json.loads((folder / f"{kind}.expected.json").read_text())["expected"]))
    found = figures(a, folder / f"{kind}.requests.jsonl", kind)
    missed = [place for place, value in expected.items()
              if place not in found or abs(found[place] - value) > EXACT_LIMIT * abs(value) + 1e-6]
    return expected, missed


LIVE = ["ttft_ms.mean", "tpot_ms.mean", "itl_ms.mean", "icl_ms.mean", "e2el_ms.mean",
        "ttft_ms.p99", "e2el_ms.p99", "requests_per_s", "output_tokens_per_s"]


def one(a, kind, own, folder, tokenizer):
    with server() as port:
        recorded = CLIENTS[kind](a, port, folder, tokenizer)
    mine = figures(a, own, kind)
    expected, missed = exact(a, kind, recorded, folder)
    print(f"{'FAIL' if missed else 'ok'} {kind} exact: {len(expected) - len(missed)} of "
          f"{len(expected)} figures" + (f"; not {', '.join(missed[:6])}" if missed else ""))
    rows = [(place, expected[place], mine[place], mine[place] / expected[place] - 1)
            for place in LIVE if place in expected and place in mine]
    # A figure promises its mean; the tail of a run is only shown.
    off = [place for place, _, _, ratio in rows if abs(ratio) > LIVE_LIMIT and ".p99" not in place]
    print(f"{'FAIL' if off or not rows else 'ok'} {kind} live: means within {LIVE_LIMIT:.1%}"
          + (f" but for {', '.join(off)}" if off else ""))
    for place, theirs, value, ratio in rows:
        print(f"     {place:<22} {theirs:>10.3f} {value:>10.3f} {ratio:>+8.2%}", flush=True)
    return rows, bool(missed or off or not rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="?", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--rate", type=float, default=10, help="requests a second")
    parser.add_argument("--endpoint", choices=["chat", "completions"],
                        default="completions")
    parser.add_argument("--only", default=",".join(CLIENTS))
    parser.add_argument("--table", type=pathlib.Path, help="write the live figures as Markdown")
    parser.add_argument("--keep", type=pathlib.Path, help="folder for all files of the clients")
    a = parser.parse_args()
    a.build = a.build.resolve()
    folder = a.keep.resolve() if a.keep else pathlib.Path(tempfile.mkdtemp(prefix="conformance-"))
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = folder / "tokenizer"
    subprocess.run([peer_python("guidellm"), "-c", MAKE_TOKENIZER, tokenizer], check=True)
    with server() as port:
        own = ours(a, port, folder)
    failed, table = 0, ["| dialect | figure | owner | moescope | difference |", "|---|---|---|---|---|"]
    for kind in a.only.split(","):
        try:
            rows, bad = one(a, kind, own, folder, tokenizer)
        except (RuntimeError, subprocess.SubprocessError, OSError, KeyError, ValueError) as error:
            print(f"FAIL {kind}: {error!r}" if not isinstance(error, RuntimeError) else
                  f"FAIL {kind}: {error}")
            rows, bad = [], True
        failed += bad
        table += [f"| {kind} | {place} | {theirs:.3f} | {value:.3f} | {ratio:+.2%} |"
                  for place, theirs, value, ratio in rows]
    if a.table:
        a.table.write_text("\n".join(table) + "\n", encoding="utf-8")
    if not a.keep:
        shutil.rmtree(folder)
    print(f"{len(a.only.split(',')) - failed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
