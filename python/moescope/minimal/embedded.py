# SPDX-License-Identifier: Apache-2.0
"""MoEMinimalLLM and train_moe_model without PyTorch: the same calls, computed by tinymoe.

tinymoe trains on bytes: the loader's tokens must be below 256. It reports to the run by itself, so
a given profiler only provides the run's directory; its live figures stay empty.
"""
import os
import re
import subprocess
import tempfile
from collections.abc import Iterable
from typing import Any, Optional

from .. import _library as lib
from .. import errors
from .._types import Json
from .config import complete


class MoEMinimalLLM:
    """A tinymoe checkpoint, once it is trained; generate() continues a text."""

    def __init__(self, config: Any, profiler: Optional[Any] = None) -> None:
        self.config = complete(config)
        self.profiler = profiler
        self.checkpoint: Optional[str] = None

    def generate(self, prompt: str, tokens: int = 100, temperature: float = 0.8) -> str:
        if not self.checkpoint:
            raise errors.MoescopeError("the model has not been trained; call train_moe_model first")
        return _tinymoe("--load", self.checkpoint, "--steps", "0", "--generate", str(tokens),
                        "--prompt", prompt, "--temperature", str(temperature), "--quiet")


def train_moe_model(config: Any, train_loader: Iterable[Any], val_loader: Optional[Iterable[Any]] = None,
                    enable_profiling: bool = False, profiler: Optional[Any] = None,
                    output_dir: str = "profiler_output") -> tuple[MoEMinimalLLM, Json]:
    """Like the one on PyTorch. tinymoe does not evaluate: val_loss and the like are None."""
    model = MoEMinimalLLM(config, profiler)
    config = model.config
    folder = getattr(profiler, "output_dir", output_dir) if enable_profiling or profiler else None
    os.makedirs(folder or tempfile.gettempdir(), exist_ok=True)
    work = tempfile.mkdtemp(prefix="moescope-minimal-", dir=folder)
    corpus = os.path.join(work, "corpus")
    model.checkpoint = os.path.join(work, "model.ckpt")
    with open(corpus, "wb") as file:
        for batch in train_loader:
            file.write(_bytes(batch))
    words = ["--layers", config.n_layers, "--width", config.d_model, "--heads", config.n_heads,
             "--experts", config.num_experts, "--top-k", config.expert_top_k,
             "--expert-width", config.d_ff, "--context", config.max_seq_len,
             "--batch", config.batch_size, "--steps", config.max_steps,
             "--lr", config.learning_rate, "--balance", config.load_balancing_weight,
             "--seed", config.seed, "--corpus", corpus, "--save", model.checkpoint,
             "--log-every", max(config.max_steps, 1)]
    run = os.path.join(work, "training.mscope") if folder else None
    losses = re.findall(r"^step \d+\s+loss (\S+)", _tinymoe(*map(str, words), run=run), re.M)
    tokens = config.max_steps * config.batch_size * config.max_seq_len
    metrics = {"train_loss": float(losses[-1]) if losses else None, "steps": config.max_steps,
               "tokens": tokens, "profiler": profiler, "run": run, "report_files": {}}
    for key in ("val_loss", "val_accuracy", "val_perplexity"):
        metrics[key], metrics[key + "_reason"] = None, "tinymoe does not evaluate; install torch"
    return model, metrics


def _bytes(batch: Any) -> bytes:
    x = batch[0] if isinstance(batch, tuple) else batch
    rows: list[Any] = x.tolist() if hasattr(x, "tolist") else list(x)
    flat = [token for row in rows for token in (row if isinstance(row, (list, tuple)) else [row])]
    try:
        return bytes(flat)
    except ValueError:
        raise errors.BadDimensions("without PyTorch the tokens are bytes, from 0 to 255; install torch "
                                   "for another vocabulary") from None


def _tinymoe(*words: str, run: Optional[str] = None) -> str:
    tool = lib.tool_path()
    command = [os.path.join(os.path.dirname(tool), "tinymoe"), *words]
    if run:
        command = [tool, "run", "-q", "-o", run, "--", *command]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace",
                          check=False)
    if done.returncode != 0:
        raise errors.ToolError(done.stderr.strip() or f"tinymoe ended with status {done.returncode}")
    return done.stdout
