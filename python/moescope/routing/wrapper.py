# SPDX-License-Identifier: Apache-2.0
"""SimpleRouterWrapper: a module that replaces a router and captures what it returns."""
import time
import warnings
import weakref
from typing import TYPE_CHECKING, Any, Optional

import torch
from torch import Tensor, nn

from .. import _library as lib
from .. import api, errors, runs
from .._types import Args, Function, Json
from . import capture, families
from .detect import _experts_of, _registration, _top_k
from .metrics import RouterMetrics, View
from .samples import Moment, Watcher
from .sender import Sender, send_sizes
from .session import open_step
from .sizes import Sizes

if TYPE_CHECKING:
    from .capture import Site


class _Own:
    """The wrapper's own run, for routers outside a profiled model."""

    def __init__(self) -> None:
        self.recording: Optional[runs.Recording] = None
        self.open = False
        self.layer = 0
        self.sender: Optional[Sender] = None

    def acquire(self) -> tuple[runs.Recording, Sender]:
        if self.open and self.recording is not None and self.sender is not None:
            return self.recording, self.sender
        where = runs.acquire(None, "trace", temporary=True)
        if where is not self.recording:
            where.hold()
            if self.recording is not None:
                self.recording.let_go()
            self.recording, self.layer = where, where.take_layers(1)
            self.sender = Sender(self.layer)
        self.open = True
        assert self.sender is not None  # it came with the recording
        return where, self.sender

    def release(self) -> None:
        if self.open and self.recording is not None:
            self.open = False
            runs.release(self.recording)

    def dispose(self) -> None:
        self.release()
        if self.recording is not None:
            self.recording.let_go()
            self.recording = None


class SimpleRouterWrapper(nn.Module, View):
    """Calls `original_router`, returns what it returns, and keeps what it chose.

    Inside a model that a MoEProfiler captures it shows that layer; elsewhere each call of the
    router is a separate step. num_experts, hidden_dim and expert_dim (of the experts, for FLOPs)
    are checked against the router; expert_dim None: the experts' FLOPs are unknown. top_k is needed
    for a router that returns only logits, because their k is the block's. matrices: 2, or 3 for
    gated experts.
    """

    def __init__(self, original_router: nn.Module, num_experts: int = 8,
                 expert_dim: Optional[int] = None, hidden_dim: Optional[int] = None,
                 warmup_steps: int = 5, sampling_rate: int = 1, top_k: Optional[int] = None,
                 matrices: int = 3) -> None:
        super().__init__()
        if not isinstance(original_router, nn.Module):
            raise TypeError("SimpleRouterWrapper takes a module, the router")
        self.original_router = original_router
        self.watcher = Watcher()
        self.warmup_steps, self.sampling_rate = warmup_steps, sampling_rate
        self.num_experts = _checked_experts(original_router, num_experts)
        self.hidden_dim = _checked_hidden(original_router, hidden_dim)
        if expert_dim is not None and expert_dim < 1:
            raise errors.BadDimensions("expert_dim is 1 or more: the inner dimension of an expert")
        self.expert_dim, self.matrices = expert_dim, matrices
        self._k = top_k or _top_k(original_router)
        self.metrics = RouterMetrics(self)
        self.device = next((str(p.device) for p in original_router.parameters()), "cpu")
        self.key = "layer_0"
        self._place: Optional[tuple[runs.Recording, int]] = None
        self._site: Optional[Site] = None
        self._sent = False
        self.not_captured = ""
        self._index = 0
        self._own = _Own()
        weakref.finalize(self, self._own.dispose)

    def __getattr__(self, name: str) -> Any:
        """Attributes that this module lacks are the router's: blocks read its top_k and weight."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "original_router":
                raise
            return getattr(super().__getattr__("original_router"), name)

    # The state keeps the router's own keys: a checkpoint does not know about the wrapper.

    def state_dict(self, *args: Any, destination: Any = None, prefix: str = "",
                   keep_vars: bool = False) -> Json:
        state: Json = self.original_router.state_dict(*args, destination=destination, prefix=prefix,
                                                      keep_vars=keep_vars)
        return state

    def _load_from_state_dict(self, state: Json, prefix: str, *_rest: object) -> None:
        """Moves the router's keys to where load_state_dict will look for them next."""
        inner = prefix + "original_router."
        for name in self.original_router.state_dict():
            if prefix + name in state:
                state[inner + name] = state.pop(prefix + name)

    def forward(self, *args: object, **kwargs: object) -> Any:
        if torch.compiler.is_compiling():
            return self.original_router(*args, **kwargs)
        site = capture.site_of(self.original_router)
        if site is None:
            site = capture.site_of(self)
        if site is not None:
            return self._watch(site, args, kwargs)
        began = time.perf_counter()
        output = self.original_router(*args, **kwargs)
        latency = (time.perf_counter() - began) * 1e3
        if torch._C._current_graph_task_id() == -1 and not self.not_captured:
            self._keep(args, output, latency)
        return output

    def _watch(self, site: "Site", args: Args, kwargs: Json) -> Any:
        """The profiler already captures this layer: watch its steps, do not count them twice."""
        if self._site is not site:
            self._site = site
            sizes = site.router.found.sizes
            self.hidden_dim = self.hidden_dim or sizes.hidden or None
            self.expert_dim = self.expert_dim or sizes.inner or None
            self._place = (site.session.recording, site.layer)
        site.watch(self.watcher)
        return self.original_router(*args, **kwargs)

    def _keep(self, args: Args, output: Any, latency: float) -> None:
        index, self._index = self._index, self._index + 1
        if not self.watcher.wants(index):
            return
        try:
            with torch.no_grad():
                choice = self._read(args, output)
            why = capture.trouble(choice.indices, choice.experts or self.num_experts)
        except Exception as error:  # the model continues, whatever its router returned
            why = str(error)
        if why:
            self.not_captured = why
            warnings.warn(f"the router is not captured: {why}", RuntimeWarning, stacklevel=3)
            return
        where, sender = self._own.acquire()
        self._place, self._site = (where, self._own.layer), None
        self._send(where, sender, choice, latency)

    def _read(self, args: Args, output: Any) -> families.Choice:
        router = self.original_router
        function = _registration("", router)
        if function:
            return families.Choice(*function(router, args, output))
        parts = output if isinstance(output, (tuple, list)) else (output,)
        if any(families.integer(part) for part in parts):
            return families.returned(self.num_experts)(router, args, {}, output)
        logits = parts[0]
        if len(parts) == 1 and isinstance(logits, Tensor) and logits.shape[-1] == self.num_experts:
            if not self._k:
                raise errors.UnknownRouter(
                    "it returns logits and the block around it takes the top k: give top_k=")
            return families.softmax_top_k(self._k, True)(router, args, {}, logits)
        raise errors.UnknownRouter("its output holds no indices of experts: tell how to read it "
                                   "with moescope.register_router")

    def _send(self, where: runs.Recording, sender: Sender, choice: families.Choice, latency: float) -> None:
        step = open_step()
        library = lib.load()
        own = step is None and not api.stepping
        if step is None:
            step = where.take_step() if own else library.moescope_current_step()
        indices, weights = choice.indices, choice.weights
        if indices.device.type != "cpu":
            self.not_captured = "its choice is on a device: profile the model with MoEProfiler"
            warnings.warn(self.not_captured, RuntimeWarning, stacklevel=4)
            return
        experts = choice.experts or self.num_experts
        if not self._sent:
            self._sent = True
            send_sizes(self._own.layer, experts, indices.shape[1],
                       Sizes(self.hidden_dim or 0, self.expert_dim or 0, self.matrices, 0))
        if own:
            library.moescope_step_guess(step)
        sender.send(lib.NO_PHASE, experts, indices, weights)
        if own:
            library.moescope_step_end(indices.shape[0])
        self.watcher.samples.moments[step] = Moment(time.time(), "cpu", None)
        self.watcher.samples.time_gate(step, [latency])

    def source(self) -> Optional[tuple[runs.Recording, int, bool]]:
        self._own.release()
        return None if self._place is None else (*self._place, self.manual)

    @property
    def manual(self) -> bool:  # type: ignore[override]
        session = self._site.session if self._site is not None else None
        return session is not None and (session.others or session.graphs)

    def extra_repr(self) -> str:
        return f"num_experts={self.num_experts}"

    def __deepcopy__(self, memo: dict[int, object]) -> "SimpleRouterWrapper":
        """A copy of the router with its own wrapper: figures belong to one of them."""
        from copy import deepcopy
        return SimpleRouterWrapper(
            deepcopy(self.original_router, memo), self.num_experts, self.expert_dim,
            self.hidden_dim, self.warmup_steps, self.sampling_rate, self._k, self.matrices)

    def __reduce__(self) -> tuple[Function, Args]:
        return (SimpleRouterWrapper,
                (self.original_router, self.num_experts, self.expert_dim, self.hidden_dim,
                 self.warmup_steps, self.sampling_rate, self._k, self.matrices))


def _checked_experts(router: nn.Module, given: int) -> int:
    """8 is the signature's default and yields to what the router says."""
    known = _experts_of(router)
    if known and given not in (known, 8):
        raise errors.BadDimensions(f"num_experts={given}, but the router has {known}; leave it out")
    if given < 1:
        raise errors.BadDimensions("num_experts is 1 or more")
    return known or given


def _checked_hidden(router: nn.Module, given: Optional[int]) -> Optional[int]:
    weight = getattr(router, "weight", None)
    known = weight.shape[1] if isinstance(weight, Tensor) and weight.dim() == 2 else None
    if known and given not in (None, known):
        raise errors.BadDimensions(f"hidden_dim={given}, but the router takes {known}; "
                                   "leave it out")
    return known or given
