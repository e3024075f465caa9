# SPDX-License-Identifier: Apache-2.0
"""Hooks on one MoE layer, from which its routing goes to the C library.

Hooks run in the model's own thread; nothing they do may change a result, wait for a device, or
raise: a layer that cannot be read is given up, with a warning and a note in the run."""
import time
import warnings
import weakref
from ctypes import byref
from typing import Any, Dict, List, Optional, Tuple

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from .. import _library as lib
from .. import api
from . import families, ops
from .detect import HOW, Router
from .device import Latencies

_by_gate: "weakref.WeakValueDictionary[int, Site]" = weakref.WeakValueDictionary()
MAX_K, MAX_EXPERTS = 64, 32768


class Sample:
    """What only this process knows of a captured step of a layer."""

    def __init__(self) -> None:
        self.time = time.time()
        self.device = "cpu"
        self.memory_mb: Optional[float] = None
        self._latency_ms: Optional[float] = None
        self._events = Latencies()

    def add(self, device: torch.device, latency: Any, memory: Optional[float]) -> None:
        """One call of the layer; latency in milliseconds, or two events of a device."""
        self.device, self.memory_mb = str(device), memory
        if isinstance(latency, float):
            self._latency_ms = (self._latency_ms or 0.0) + latency
        elif latency is not None:
            self._events.add(*latency)

    def latency(self) -> Optional[float]:
        """Of the gate in this step; None where there is no gate of its own or it was compiled."""
        return self._latency_ms if self._latency_ms is not None else self._events.total_ms()


class Watcher:
    """Who looks at a layer: after `warmup_steps`, every `sampling_rate`-th step."""

    def __init__(self, warmup_steps: int = 0, sampling_rate: int = 1) -> None:
        self.warmup_steps, self.sampling_rate = warmup_steps, sampling_rate
        self.samples: Dict[int, Sample] = {}

    def wants(self, index: int) -> bool:
        after = index - self.warmup_steps
        return after >= 0 and after % max(1, int(self.sampling_rate)) == 0


class _SeeOneHot(TorchFunctionMode):
    """Keeps what the block hands to one_hot: its choice, which it tells nobody."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: Optional[Tensor] = None

    def __torch_function__(self, func: Any, types: Any, args: Tuple = (),
                           kwargs: Optional[Dict] = None) -> Any:
        if self.seen is None and getattr(func, "__name__", "") == "one_hot" and args:
            self.seen = args[0]
        return func(*args, **(kwargs or {}))


def site_of(gate: nn.Module) -> Optional["Site"]:
    """The active site whose router this is."""
    site = _by_gate.get(id(gate))
    return site if site is not None and site.router.found.gate is gate else None


def send(layer: int, experts: int, phase: int, indices: Tensor, weights: Optional[Tensor],
         scores: Optional[Tensor]) -> None:
    """CPU tensors to the C library; int32 and float32, row by row."""
    indices = indices.to(torch.int32).contiguous()
    weights = None if weights is None else weights.to(torch.float32).contiguous()
    scores = None if scores is None else scores.to(torch.float32).contiguous()
    lib.load().moescope_route(byref(lib.Routing(
        layer=layer, phase=phase, experts=experts, k=indices.shape[1], tokens=indices.shape[0],
        indices=indices.data_ptr(), weights=weights.data_ptr() if weights is not None else None,
        scores=scores.data_ptr() if scores is not None else None)))


def send_sizes(layer: int, experts: int, k: int, sizes: Any) -> None:
    lib.load().moescope_moe_layer(byref(lib.MoeLayer(
        layer=layer, experts=experts, k=k, hidden=sizes.hidden, inner=sizes.inner,
        matrices=sizes.matrices, expert_bytes=sizes.bytes, capacity_factor=0)))


def trouble(indices: Tensor, experts: int) -> str:
    """Why these cannot be the experts of tokens; "" when they can. Values only on the CPU."""
    if not families.integer(indices) or indices.dim() != 2:
        return (f"indices are {indices.dtype} of shape {tuple(indices.shape)}, not integers "
                "[tokens, k]")
    if not 1 <= experts <= MAX_EXPERTS:
        return f"the number of experts is {experts}, not 1 to {MAX_EXPERTS}"
    if not 1 <= indices.shape[1] <= min(MAX_K, experts):
        return f"{indices.shape[1]} experts a token out of {experts}, at most {MAX_K} can be"
    if indices.device.type == "cpu" and indices.numel():
        low, high = int(indices.min()), int(indices.max())
        # -1 and E stand for "not on this rank" under expert parallelism.
        if low < -1 or high > experts:
            return f"indices from {low} to {high} for {experts} experts"
    return ""


def lifeless(kind: type) -> Any:
    """The hooks of a copied or unpickled model: they are there, but they belong to nobody."""
    one = object.__new__(kind)
    one.running = False
    return one


class Site:
    """One MoE layer while a session runs."""

    def __reduce__(self) -> Any:
        return lifeless, (Site,)

    def __init__(self, session: Any, router: Router, number: int, watcher: Watcher,
                 weights: bool, scores: bool) -> None:
        self.session, self.router, self.layer = session, router, number
        self.watchers = [watcher]
        self.running = True
        self.broken = ""
        self.recorded = False
        self._weights, self._scores = weights, scores
        self._logits: Optional[Tensor] = None
        self._began: Any = None
        self._latency: Any = None
        self._inside: Optional[_SeeOneHot] = None
        self._op = ops.number(self)

    def attach(self) -> List[Any]:
        found, handles = self.router.found, []
        module = found.module
        if found.gate is not None:  # first, so that its time has nothing of ours in it
            _by_gate[id(found.gate)] = self
            handles.append(found.gate.register_forward_pre_hook(self._gate_before))
            handles.append(found.gate.register_forward_hook(self._gate_after))
        if found.when == "before":
            handles.append(module.register_forward_pre_hook(self._before, with_kwargs=True))
        elif found.when == "after":
            handles.append(module.register_forward_hook(self._after, with_kwargs=True))
        else:
            handles.append(module.register_forward_pre_hook(self._enter))
            handles.append(module.register_forward_hook(self._leave, always_call=True))
        return handles

    def detach(self) -> None:
        if site_of(self.router.found.gate) is self:
            _by_gate.pop(id(self.router.found.gate), None)
        self._logits = self._began = self._latency = None

    # Hooks. Traced by torch.compile, all but the operator vanishes.

    def _before(self, module: nn.Module, args: Tuple, kwargs: Dict[str, Any]) -> None:
        self._hand_over(module, args, kwargs, None)

    def _after(self, module: nn.Module, args: Tuple, kwargs: Dict[str, Any], output: Any) -> None:
        self._hand_over(module, args, kwargs, output)

    def _hand_over(self, module: nn.Module, args: Tuple, kwargs: Dict[str, Any],
                   output: Any) -> None:
        if not self.running:
            return
        if torch.compiler.is_compiling():
            with torch.no_grad():
                choice = self.router.found.read(module, args, kwargs, output)
                weights = choice.weights if self._weights else None
                ops.route(self.session.state, self._op, choice.indices.detach(),
                          None if weights is None else weights.detach(), choice.experts)
            return
        if self.broken or (self.session.inside and not self.wanted()):
            return
        try:
            with torch.no_grad():
                choice = self.router.found.read(module, args, kwargs, output)
        except Exception as why:  # the model goes on, whatever its router returned
            self.fail(str(why))
            return
        scores = None
        if self._scores:
            scores = choice.scores if choice.scores is not None else self._logits
            self._logits = None
        self.record(choice.indices, choice.weights if self._weights else None, scores,
                    choice.experts)

    def _enter(self, _module: nn.Module, _args: Tuple) -> None:
        if torch.compiler.is_compiling() or not self.running or self.broken:
            return
        if not self.session.inside or self.wanted():
            self._inside = _SeeOneHot()
            self._inside.__enter__()

    def _leave(self, _module: nn.Module, _args: Tuple, _output: Any) -> None:
        if torch.compiler.is_compiling() or not self.running or self._inside is None:
            return
        mode, self._inside = self._inside, None
        mode.__exit__(None, None, None)
        if mode.seen is not None:
            self.record(families.flat(mode.seen), None, None, 0)

    def _gate_before(self, _module: nn.Module, _args: Tuple) -> None:
        if torch.compiler.is_compiling() or not self.running or not self.wanted():
            return
        if self.router_device().type == "cuda":
            if not torch.cuda.is_current_stream_capturing():
                self._began = Latencies.mark()
        else:
            self._began = time.perf_counter()

    def _gate_after(self, module: nn.Module, _args: Tuple, output: Any) -> None:
        if torch.compiler.is_compiling() or not self.running or self._began is None:
            return
        began, self._began = self._began, None
        if isinstance(began, float):
            self._latency = (time.perf_counter() - began) * 1e3
        else:
            self._latency = (began, Latencies.mark())
        if self._scores:
            with torch.no_grad():
                self._logits = families.gate_scores(module, output)

    # At run time.

    def router_device(self) -> torch.device:
        for tensor in self.router.found.gate.parameters():
            return tensor.device
        return torch.device("cpu")

    def wanted(self) -> bool:
        return any(w.wants(self.session.index) for w in self.watchers)

    def fail(self, why: str) -> None:
        """Stops capturing this layer; a wrong figure is worse than none."""
        self.broken = why
        words = f"MoE layer {self.layer} ('{self.router.name}') is not captured: {why}"
        api.info(f"routing layer {self.layer}", f"not captured: {why}")
        warnings.warn(f"{words}; {HOW}", RuntimeWarning, stacklevel=2)

    def record(self, indices: Tensor, weights: Optional[Tensor], scores: Optional[Tensor],
               experts: int) -> None:
        """The choice of one call of the layer; also called by the operator of compiled code."""
        if self.broken or not self.session.running or torch._C._current_graph_task_id() != -1:
            return  # inside backward: the recomputation of a forward that was counted
        self.session.ensure_step(self.layer)
        if not self.wanted():
            return
        if hasattr(indices, "to_local"):
            indices = indices.to_local()
            weights = weights.to_local() if hasattr(weights, "to_local") else weights
        experts = experts or self.router.found.experts
        if not self.recorded:
            why = trouble(indices, experts)
            if why:
                self.fail(why)
                return
            self.recorded = True
            send_sizes(self.layer, experts, indices.shape[1], self.router.found.sizes)
        latency, self._latency = self._latency, None
        for watcher in self.watchers:
            if watcher.wants(self.session.index):
                sample = watcher.samples.setdefault(self.session.step, Sample())
                sample.add(indices.device, latency, self.session.memory(indices.device))
        with torch.no_grad():
            self._send(indices, weights, scores, experts)

    def _send(self, indices: Tensor, weights: Optional[Tensor], scores: Optional[Tensor],
              experts: int) -> None:
        if weights is not None and weights.shape != indices.shape:
            weights = None
        if scores is not None and scores.shape != (indices.shape[0], experts):
            scores = None
        mask = self.session.rows_mask(indices)
        if indices.device.type == "cuda":
            with torch.cuda.device(indices.device):
                why = self.session.recorder(indices.device).route(
                    self.layer, self.session.phase, experts, self._local(indices, experts),
                    weights, mask)
            if why:
                self.fail(why)
            return
        indices = indices.to(torch.int32)
        unused = (indices < 0) | (indices >= experts)
        indices = indices.masked_fill(unused, lib.SLOT_UNUSED)
        if mask is not None:
            indices = indices.masked_fill(~mask[:, None], lib.SLOT_PADDING)
        send(self.layer, experts, self.session.phase, indices, weights, scores)

    def _local(self, indices: Tensor, experts: int) -> Tensor:
        """Expert parallelism marks choices of other ranks; only then is another kernel worth it."""
        gate = self.router.found.gate
        if getattr(gate, "num_experts", experts) == experts:
            return indices
        return indices.masked_fill((indices < 0) | (indices >= experts), lib.SLOT_UNUSED)
