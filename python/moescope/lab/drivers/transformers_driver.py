# SPDX-License-Identifier: Apache-2.0
"""One experiment with Hugging Face transformers: generates or trains, and records every token's
time.

`moescope bench --engine transformers` copies this file into the experiment's directory as
inference_script.py, and it runs alone there: `python inference_script.py`. It reads the effective
configuration ($MOESCOPE_BENCH_CONFIG, else config.yaml next to it) and writes requests.jsonl
($MOESCOPE_BENCH_REQUESTS, else next to it). It needs torch and transformers, but not moescope.

A repeat is one call of model.generate with batch_size equal prompts. Each sequence is a request;
the sequences of a batch start together and get their tokens together, so they share its times. A
token has arrived when the host has it, which waits for the device. Tokens after the end of a
sequence do not count. Training: a step is a request without output; its tokens are batch_size x
max_tokens.

Under torchrun or mpirun each process generates batch_size sequences with its own model on its own
GPU; they start each repeat together, and the first one writes the requests of all.
"""
import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Optional

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

HERE = os.path.dirname(os.path.abspath(__file__))

_MIXTRAL = dict(model_type="mixtral", num_local_experts=8, num_experts_per_tok=2)
Config = dict[str, Any]

# Configurations by name, for random weights.
NAMED: dict[str, Config] = {
    "mixtral-tiny": dict(_MIXTRAL, vocab_size=512, hidden_size=64, intermediate_size=128,
                         num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                         max_position_embeddings=4096),
    "mixtral-small": dict(_MIXTRAL, vocab_size=32000, hidden_size=1024, intermediate_size=3584,
                          num_hidden_layers=8, num_attention_heads=16, num_key_value_heads=4,
                          max_position_embeddings=32768),
    "mixtral-8x7b": dict(_MIXTRAL, vocab_size=32000, hidden_size=4096, intermediate_size=14336,
                         num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8,
                         max_position_embeddings=32768),
    "qwen3-moe-tiny": dict(model_type="qwen3_moe", vocab_size=512, hidden_size=64,
                           intermediate_size=128, moe_intermediate_size=32, num_experts=16,
                           num_experts_per_tok=4, num_hidden_layers=2, num_attention_heads=4,
                           num_key_value_heads=2, head_dim=16, norm_topk_prob=True,
                           max_position_embeddings=4096),
    "llama-tiny": dict(model_type="llama", vocab_size=512, hidden_size=64, intermediate_size=192,
                       num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                       max_position_embeddings=4096),
}


class Refused(Exception):
    """The experiment cannot run as requested; the message says what to change."""


class Ranks:
    """The processes of torchrun or mpirun; one without them. Times are compared, so all must be on
    one machine, where the monotonic clock is the same."""

    def __init__(self) -> None:
        self._mpi = "WORLD_SIZE" not in os.environ
        names = ["OMPI_COMM_WORLD_" + name for name in ("SIZE", "RANK", "LOCAL_RANK", "LOCAL_SIZE")] \
            if self._mpi else ["WORLD_SIZE", "RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE"]
        self.n, self.rank, self.local, here = (
            int(os.environ.get(name, default)) for name, default in zip(names, ("1", "0", "0", "1")))
        if here != self.n:
            raise Refused(f"{self.n} processes are on several machines, whose clocks differ; run this "
                          "engine on one")

    def meet(self, place: str) -> None:
        """place: a path that no other experiment uses."""
        if self.n == 1:
            return
        import torch.distributed as dist
        where = {}
        if self._mpi:  # it provides no address to meet at
            job = os.environ.get("PMIX_NAMESPACE") or os.environ.get("OMPI_MCA_ess_base_jobid", "0")  # noqa: SIM112
            where = dict(init_method=f"file://{place}.{job.replace(os.sep, '_')}.ranks")
        dist.init_process_group("gloo", rank=self.rank, world_size=self.n, **where)

    def wait(self) -> None:
        if self.n > 1:
            import torch.distributed as dist
            dist.barrier()

    def gather(self, rows: list[Any]) -> list[Any]:
        """Gathers the rows of all at the first process; the others write nothing."""
        if self.n == 1:
            return rows
        import torch.distributed as dist
        found: Optional[list[Any]] = [None] * self.n if self.rank == 0 else None
        dist.gather_object(rows, found)
        return [row for part in found or [] for row in part]

    def part(self) -> None:
        if self.n > 1:
            import torch.distributed as dist
            dist.destroy_process_group()


class Notes:
    """requests.jsonl, written as the work proceeds: a killed driver leaves what it had finished."""

    def __init__(self, path: str, load_ns: int) -> None:
        self._file = open(path, "w", encoding="utf-8")  # noqa: SIM115
        self.put(schema="moescope/requests/1", load_ns=load_ns)

    def put(self, **line: Any) -> None:
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()

    def request(self, sent_ns: int, end_ns: int, warmup: bool, prompt: int,
                pieces: Optional[list[int]] = None, error: Optional[str] = None) -> None:
        pieces = pieces or []
        self.put(due_ns=None, sent_ns=sent_ns, end_ns=end_ns, end="failed" if error else "ok",
                 warmup=warmup, server_counts=True, prompt_tokens=prompt,
                 output_tokens=len(pieces), pieces_ns=pieces, error=error)

    def close(self) -> None:
        self._file.close()


class Clock:
    """generate's streamer: the prompt comes first, then each token of the whole batch."""

    def __init__(self, requests: list[Any]) -> None:
        self.times_ns: list[int] = []
        self._prompt_seen = False
        self._requests = requests  # of the trace

    def put(self, value: Any) -> None:
        if self._prompt_seen:
            self.times_ns.append(time.monotonic_ns())
            for request in self._requests:
                request.token()
        self._prompt_seen = True

    def end(self) -> None:
        pass


# ---------------------------------------------------------------------------------------- the model

def load_config(path: str) -> Config:
    import yaml
    try:
        with open(path, encoding="utf-8") as file:
            config = yaml.safe_load(file)
    except (OSError, yaml.YAMLError) as why:
        raise Refused(f"the configuration cannot be read: {why}") from why
    if not isinstance(config, dict):
        raise Refused(f"{path} is not a configuration: it has no keys")
    return config


def model_source(config: Config) -> str:
    source = config.get("model_path") or config.get("model")
    if not source:
        raise Refused("no model is given; model takes a folder, a config.json, a name of the Hugging "
                      "Face Hub, or one of " + ", ".join(NAMED) + " (random weights)")
    return os.path.expanduser(str(source))


def has_weights(folder: str) -> bool:
    return any(name.endswith((".safetensors", ".bin", ".pt", ".safetensors.index.json"))
               for name in os.listdir(folder))


def random_config(source: str, overrides: list[str]) -> Optional[Any]:
    """The configuration for random weights, or None: the model has weights."""
    from transformers import AutoConfig
    if os.path.isdir(source):
        if not os.path.exists(os.path.join(source, "config.json")):
            raise Refused(f"{source} has no config.json; give the folder of a model in Hugging Face's "
                          "format")
        if has_weights(source):
            return None
        values = AutoConfig.from_pretrained(source).to_dict()
    elif os.path.isfile(source):
        with open(source, encoding="utf-8") as file:
            values = json.load(file)
    elif source in NAMED:
        values = dict(NAMED[source])
    elif os.sep in source and (source.startswith((os.sep, ".")) or source.count(os.sep) > 1):
        raise Refused(f"{source} does not exist; model takes a folder, a config.json, a name of the "
                      "Hugging Face Hub, or one of " + ", ".join(NAMED))
    else:
        return None
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals:
            raise Refused(f"--set needs KEY=VALUE, not '{override}'")
        values[key] = json.loads(value)
    kind = values.pop("model_type", None)
    if not kind:
        raise Refused(f"{source} has no model_type; it is not the configuration of a model")
    return AutoConfig.for_model(kind, **values)


def dtype_of(name: Optional[str], device: "torch.device") -> Any:
    import torch
    if name:
        dtype = getattr(torch, name, None)
        if not isinstance(dtype, torch.dtype):
            raise Refused(f"--dtype '{name}' is not a type of torch; give float32, bfloat16 or float16")
        return dtype
    return torch.float32 if device.type == "cpu" else torch.bfloat16


@contextmanager
def defaults(dtype: "torch.dtype", device: "torch.device") -> Iterator[None]:
    """Creates tensors there, with that type: no copy of the model elsewhere."""
    import torch
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            yield
    finally:
        torch.set_default_dtype(before)


def default_device() -> str:
    import torch
    n = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return f"cuda:{Ranks().local % n}" if n else "cpu"


def make_model(config: Config, options: argparse.Namespace) -> tuple[Any, Any]:
    """The model, and its tokenizer or None."""
    import torch
    import transformers
    from transformers import AutoModelForCausalLM, AutoTokenizer
    device = torch.device(options.device or default_device())
    source = model_source(config)
    recipe = random_config(source, options.set)
    dtype = dtype_of(options.dtype, device)
    more = {"attn_implementation": options.attn} if options.attn else {}
    tokenizer = None
    if recipe is not None:
        torch.manual_seed(int(config["seed"]))
        with defaults(dtype, device):
            model = AutoModelForCausalLM.from_config(recipe, **more)
        model.generation_config.eos_token_id = None  # no token of random weights means the end
        print(f"{source}: {sum(p.numel() for p in model.parameters()):,} random parameters, {dtype}, "
              f"{device}", flush=True)
    else:
        word = "dtype" if int(transformers.__version__.split(".")[0]) >= 5 else "torch_dtype"
        asked = dtype if options.dtype else "auto"
        model = AutoModelForCausalLM.from_pretrained(source, **{word: asked}, **more).to(device)
    if os.path.isdir(source) or recipe is None:
        try:
            tokenizer = AutoTokenizer.from_pretrained(source)
        except (OSError, ValueError, KeyError, ImportError) as why:
            print(f"no tokenizer, so the prompt's bytes are its tokens: {str(why).splitlines()[0]}",
                  flush=True)
    return model.eval(), tokenizer


# --------------------------------------------------------------------------------------- inference

def prompt_ids(config: Config, tokenizer: "PreTrainedTokenizerBase", vocabulary: int) -> list[int]:
    text = str(config["prompt"])
    if tokenizer is not None:
        ids = list(tokenizer(text)["input_ids"])
    else:
        ids = [byte % vocabulary for byte in text.encode()]
    asked = config.get("prompt_tokens")
    if asked is not None:
        if not str(asked).isdigit() or int(asked) < 1:
            raise Refused(f"prompt_tokens is '{asked}'; this engine takes a number, or none for the "
                          "prompt as it is")
        ids = (ids or [0]) * (int(asked) // max(len(ids), 1) + 1)
        ids = ids[:int(asked)]
    if not ids:
        raise Refused("the prompt is empty; there is nothing to go on from")
    return ids


def generate_options(config: Config, model: "PreTrainedModel") -> Config:
    """Plain sampling over the whole vocabulary, whatever the model's own defaults."""
    n, temperature = int(config["max_tokens"]), float(config["temperature"])
    options: Config = dict(max_new_tokens=n, do_sample=temperature > 0, num_beams=1)
    if temperature > 0:
        options.update(temperature=temperature, top_k=0, top_p=1.0)
    else:
        model.generation_config.temperature = model.generation_config.top_p = None
        model.generation_config.top_k = None
    eos = model.generation_config.eos_token_id
    pad = model.generation_config.pad_token_id
    if pad is None:
        pad = eos[0] if isinstance(eos, list) else eos
    options["pad_token_id"] = 0 if pad is None else pad
    if config.get("ignore_eos"):
        options["min_new_tokens"] = n
    return options


def generated(row: list[int], ends: list[int]) -> int:
    """How many of these tokens the model generated: the end token counts, padding does not."""
    for at, token in enumerate(row):
        if token in ends:
            return at + 1
    return len(row)


class Traced:
    """Requests and routing for a run under `moescope run`; nothing without one."""

    def __init__(self, model: "PreTrainedModel") -> None:
        self._package: Any = None
        self._stack = ExitStack()
        if "libmoescope" not in os.environ.get("CUDA_INJECTION64_PATH", ""):
            return
        try:
            import moescope
        except ImportError:
            print("the trace has no requests and no routing: this Python lacks the package moescope; "
                  "'pip install moescope' adds it", flush=True)
            return
        self._package = moescope
        try:
            profiler = moescope.MoEProfiler(model)
            profiler.start()
            self._stack.callback(profiler.stop)
        except moescope.NoExpertsFound:
            pass
        except moescope.MoescopeError as why:
            print(f"the trace has no routing: {why}", flush=True)

    @contextmanager
    def requests(self, n: int, prompt: int) -> Iterator[list[Any]]:
        with ExitStack() as stack:
            yield [stack.enter_context(self._package.request(prompt)) for _ in range(n)] \
                if self._package else []

    def step(self, tokens: int) -> None:
        if self._package:
            self._package.step(tokens)

    def close(self) -> None:
        self._stack.close()


def infer(config: Config, model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase",
          notes: Notes, traced: Traced, ranks: Optional[Ranks] = None) -> None:
    import torch
    ranks = ranks or Ranks()
    ids = prompt_ids(config, tokenizer, model.get_input_embeddings().weight.shape[0])
    batch, warmup = int(config["batch_size"]), int(config["warmup"])
    options = generate_options(config, model)
    eos = model.generation_config.eos_token_id
    ends = [] if eos is None or config.get("ignore_eos") else eos if isinstance(eos, list) else [eos]
    prompts = torch.tensor([ids] * batch, device=model.device)
    mask = torch.ones_like(prompts)
    text = None
    for repeat in range(warmup + int(config["repeats"])):
        torch.manual_seed(int(config["seed"]) + ranks.rank)
        is_warmup = repeat < warmup
        synchronize(model)
        ranks.wait()
        with traced.requests(batch, len(ids)) as requests, torch.inference_mode():
            clock = Clock(requests)
            sent_ns = time.monotonic_ns()
            try:
                out = model.generate(prompts, attention_mask=mask, streamer=clock, **options)
            except Exception as why:
                failed(notes, sent_ns, is_warmup, batch, len(ids), clock.times_ns, why)
                raise
        rows = out[:, len(ids):].tolist()
        counts = [generated(row, ends) for row in rows]
        if max(counts) != len(clock.times_ns):
            raise Refused(f"transformers streamed {len(clock.times_ns)} tokens a sequence and returned "
                          f"{max(counts)}; this version's generate cannot be measured")
        for sent, times in ranks.gather([(sent_ns, clock.times_ns[:n]) for n in counts]):
            notes.request(sent, times[-1], is_warmup, len(ids), times)
        if text is None and not is_warmup:
            text = tokenizer.decode(rows[0][:counts[0]]) if tokenizer is not None else \
                "token ids: " + " ".join(map(str, rows[0][:counts[0]]))
    notes.put(text=text)


def failed(notes: Notes, sent_ns: int, warmup: bool, batch: int, prompt: int, pieces: list[int],
           why: Exception) -> None:
    for _ in range(batch):
        notes.request(sent_ns, time.monotonic_ns(), warmup, prompt, pieces, sentence(why))


# ---------------------------------------------------------------------------------------- training

def train(config: Config, model: "PreTrainedModel", notes: Notes, traced: Traced) -> None:
    """AdamW on random tokens: the cost of a step does not depend on their values."""
    import torch
    batch, length = int(config["batch_size"]), int(config["max_tokens"])
    warmup, steps = int(config["warmup"]), int(config["steps"])
    vocabulary = model.get_input_embeddings().weight.shape[0]
    source = torch.Generator().manual_seed(int(config["seed"]))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    model.train()
    for step in range(warmup + steps * int(config["repeats"])):
        tokens = torch.randint(vocabulary, (batch, length), generator=source).to(model.device)
        synchronize(model)
        sent_ns = time.monotonic_ns()
        try:
            loss = model(input_ids=tokens, labels=tokens).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            value = loss.item()
            synchronize(model)
        except Exception as why:
            failed(notes, sent_ns, step < warmup, 1, batch * length, [], why)
            raise
        notes.request(sent_ns, time.monotonic_ns(), step < warmup, batch * length)
        traced.step(batch * length)
        print(f"step {step}: loss {value:.4f}", flush=True)


# -------------------------------------------------------------------------------------------- main

def synchronize(model: "PreTrainedModel") -> None:
    import torch
    if model.device.type == "cuda":
        torch.cuda.synchronize(model.device)


def sentence(why: BaseException) -> str:
    words = " ".join(str(why).split())
    return f"{type(why).__name__}: {words[:400]}" if words else type(why).__name__


def options_of(words: Optional[list[str]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Runs the experiment of config.yaml with "
                                                 "transformers; options are its server_args.")
    parser.add_argument("--device", help="cuda, cuda:1, cpu; the first GPU when absent, else the CPU")
    parser.add_argument("--dtype", help="float32, bfloat16, float16; of random weights bfloat16 on a "
                                        "GPU and float32 on a CPU when absent")
    parser.add_argument("--attn", help="attn_implementation: eager, sdpa, flash_attention_2")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE",
                        help="of a random model's configuration, such as num_hidden_layers=4")
    return parser.parse_args(words)


def run(config: Config, requests_path: str, options: argparse.Namespace) -> None:
    import torch  # noqa: F401 (importing is no part of loading the model)
    from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: F401
    ranks = Ranks()
    if ranks.n > 1 and config["task"] == "training":
        raise Refused(f"this engine trains in one process, and there are {ranks.n}")
    began_ns = time.monotonic_ns()
    model, tokenizer = make_model(config, options)
    synchronize(model)
    notes = Notes(os.devnull if ranks.rank else requests_path, time.monotonic_ns() - began_ns)
    ranks.meet(requests_path)
    traced = Traced(model)
    try:
        if config["task"] == "training":
            train(config, model, notes, traced)
        else:
            infer(config, model, tokenizer, notes, traced, ranks)
        ranks.part()
    finally:
        traced.close()
        notes.close()


def main(words: Optional[list[str]] = None) -> int:
    options = options_of(words)
    try:
        config = load_config(os.environ.get("MOESCOPE_BENCH_CONFIG", os.path.join(HERE, "config.yaml")))
        run(config, os.environ.get("MOESCOPE_BENCH_REQUESTS", os.path.join(HERE, "requests.jsonl")),
            options)
    except Refused as why:
        print(f"inference_script.py: {why}", file=sys.stderr)
        return 1
    except Exception as why:  # the last line of the log says what happened; the rest is above it
        import traceback
        traceback.print_exc()
        print(f"inference_script.py: {sentence(why)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
