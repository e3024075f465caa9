# SPDX-License-Identifier: Apache-2.0
"""One call to profile a model, and several configurations of it side by side."""
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Callable, Optional, Union

import torch
from torch import nn

from .. import frames
from .._types import Json
from . import summary
from .profiler import MoEProfiler

if TYPE_CHECKING:
    from pandas import DataFrame
    from transformers import PreTrainedTokenizerBase

_FIGURES = ("k_mean", "expert_load_cv", "expert_load_gini", "expert_load_entropy",
            "flops_total_mean", "latency_mean_ms", "latency_p99_ms", "router_confidence_mean")
COLUMNS = ["config", "texts", "tokens", "time_s", "tokens_per_s", *_FIGURES]


def _inputs(model: nn.Module, tokenizer: "PreTrainedTokenizerBase", text: str) -> Json:
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    encoded = tokenizer(text, return_tensors="pt")
    return {key: value.to(device) if hasattr(value, "to") else value
            for key, value in dict(encoded).items()}


def _wait(model: nn.Module) -> None:
    """Time ends when the devices are done."""
    for device in {p.device for p in model.parameters() if p.device.type == "cuda"}:
        torch.cuda.synchronize(device)


def quick_profile(model: nn.Module, tokenizer: "PreTrainedTokenizerBase", text: str = "Hello world",
                  num_iterations: int = 10) -> MoEProfiler:
    """Runs the model on `text` num_iterations times, prints the summary and saves
    quick_profile.csv."""
    if num_iterations < 1:
        raise ValueError("num_iterations is 1 or more")
    profiler = MoEProfiler(model)
    inputs = _inputs(model, tokenizer, text)
    with profiler, torch.no_grad():
        for _ in range(num_iterations):
            model(**inputs)
    profiler.print_summary()
    profiler.save_csv("quick_profile.csv")
    print("saved quick_profile.csv")
    return profiler


class SimpleBenchmark:
    """The same texts through several configurations of a model."""

    def __init__(self, model: nn.Module, tokenizer: "PreTrainedTokenizerBase") -> None:
        self.model, self.tokenizer = model, tokenizer
        self.results: list[Json] = []
        self.profilers: dict[str, MoEProfiler] = {}

    def run_config(self, name: str, texts: Sequence[str],
                   config_fn: Optional[Callable[[nn.Module], object]] = None) -> Json:
        """One forward per text. config_fn(model) changes the model for this run only: replaced
        modules are restored afterwards. Returns the row of compare()."""
        if not texts:
            raise ValueError("run_config needs at least one text")
        before = [(module, dict(module._modules)) for module in self.model.modules()]
        profiler = MoEProfiler(self.model)
        try:
            if config_fn is not None:
                config_fn(self.model)
            took = self._run(profiler, texts)
        finally:
            for module, children in before:
                module._modules.clear()
                module._modules.update(children)
        row = self._row(name, profiler, len(texts), took)
        self.results = [r for r in self.results if r["config"] != name] + [row]
        self.profilers[name] = profiler
        return row

    def _run(self, profiler: MoEProfiler, texts: Sequence[str]) -> float:
        inputs = [_inputs(self.model, self.tokenizer, text) for text in texts]
        with profiler, torch.no_grad():
            _wait(self.model)
            began = time.perf_counter()
            for one in inputs:
                self.model(**one)
            _wait(self.model)
            return time.perf_counter() - began

    @staticmethod
    def _row(name: str, profiler: MoEProfiler, texts: int, took: float) -> Json:
        layers = [view.get_summary() for view in profiler.wrappers]
        tokens = max(layer["total_tokens_profiled"] for layer in layers)
        row = {"config": name, "texts": texts, "tokens": tokens, "time_s": took,
               "tokens_per_s": tokens / took if took else None}
        for key in _FIGURES:
            row[key] = summary.mean([s[key] for s in layers if s[key] is not None])
        return row

    def compare(self) -> Union[frames.Rows, "DataFrame"]:
        """One row per configuration; figures of layers are their mean."""
        return frames.frame(self.results, COLUMNS)
