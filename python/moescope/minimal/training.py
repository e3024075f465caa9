# SPDX-License-Identifier: Apache-2.0
"""train_moe_model on PyTorch: plain AdamW, cosine schedule, with the profiler if requested."""
import math
from collections.abc import Iterable
from typing import Any, Optional

import torch
import torch.nn.functional as F

from .._types import Json
from ..gpu_profiler.advanced import AdvancedGPUProfiler, ProfilerContext
from .config import complete
from .model import MoEMinimalLLM


def train_moe_model(config: Any, train_loader: Iterable[Any], val_loader: Optional[Iterable[Any]] = None,
                    enable_profiling: bool = False, profiler: Optional[AdvancedGPUProfiler] = None,
                    output_dir: str = "profiler_output") -> tuple[MoEMinimalLLM, Json]:
    """Trains max_steps steps, restarting the loader when it ends; returns the model and its
    metrics.

    Loaders yield (x, y), y the token after each of x, or just x. val_loader None: those figures are
    None. The metrics have the profiler, and the paths of its reports once it has stopped.
    """
    config = complete(config)
    if profiler is None:
        profiler = AdvancedGPUProfiler(num_experts=config.num_experts, output_dir=output_dir,
                                       enable_profiling=enable_profiling)
    torch.manual_seed(config.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = MoEMinimalLLM(config, profiler=profiler if profiler.enable_profiling else None).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.learning_rate,
                                  weight_decay=config.weight_decay)
    with ProfilerContext(profiler):
        loss, tokens = _train(config, model, optimizer, train_loader, profiler, device)
    metrics = dict(_evaluate(model, val_loader, device), train_loss=loss, steps=config.max_steps,
                   tokens=tokens, profiler=profiler, report_files=dict(profiler.report_files))
    return model, metrics


def _train(config: Any, model: MoEMinimalLLM, optimizer: torch.optim.Optimizer, loader: Iterable[Any],
           profiler: Any, device: torch.device) -> tuple[Optional[float], int]:
    model.train()
    batches, loss, tokens = iter(loader), None, 0
    for step in range(config.max_steps):
        batch = next(batches, None)
        if batch is None:
            batches = iter(loader)
            batch = next(batches, None)
        if batch is None:
            raise ValueError("train_loader gives no batch; it must have one at least")
        x, y = _pair(batch, device)
        for group in optimizer.param_groups:
            group["lr"] = config.learning_rate * (
                0.55 + 0.45 * math.cos(math.pi * step / config.max_steps))
        logits, aux = model(x)
        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
        (loss + aux).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), config.grad_clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        tokens += y.numel()
        profiler.step(y.numel())
    return None if loss is None else loss.item(), tokens


def _evaluate(model: MoEMinimalLLM, loader: Optional[Iterable[Any]], device: torch.device) -> Json:
    keys = ("val_loss", "val_accuracy", "val_perplexity")
    if loader is None:
        return dict.fromkeys(keys)
    model.eval()
    total, right, n = 0.0, 0, 0
    with torch.no_grad():
        for batch in loader:
            x, y = _pair(batch, device)
            logits = model(x, return_aux_loss=False)
            total += F.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="sum").item()
            right += (logits.argmax(-1) == y).sum().item()
            n += y.numel()
    if not n:
        return dict.fromkeys(keys)
    return dict(zip(keys, (total / n, right / n, math.exp(min(total / n, 700.0)))))


def _pair(batch: Any, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    if isinstance(batch, (tuple, list)) and len(batch) >= 2:
        return batch[0].to(device), batch[1].to(device)
    x = (batch[0] if isinstance(batch, (tuple, list)) else batch).to(device)
    return x[:, :-1], x[:, 1:]
