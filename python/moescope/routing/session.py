# SPDX-License-Identifier: Apache-2.0
"""Hooks on a whole model, from start to stop: its steps, its padding, and the sites of its layers.

The same rules as for the layers hold: see capture.py."""
import inspect
import weakref
from typing import Any, Dict, List, Optional, Tuple

import torch
from torch import Tensor, nn

from .. import _library as lib
from .. import api
from . import ops
from .capture import MAX_K, Site, lifeless
from .device import DeviceRecorder, memory_mb
from .recording import Recording

_sessions: List["weakref.ref[Session]"] = []


def open_step() -> Optional[int]:
    """The step that some session has open."""
    for ref in reversed(_sessions):
        session = ref()
        if session is not None and session.step is not None:
            return session.step
    return None


def running_session(model: nn.Module) -> Optional["Session"]:
    """The session that has its hooks on this model already."""
    for ref in _sessions:
        session = ref()
        if session is not None and session.running and session.model() is model:
            return session
    return None


class Session:
    """One model from start to stop."""

    def __reduce__(self) -> Any:
        return lifeless, (Session,)

    def __init__(self, model: nn.Module, recording: Recording, manual: bool, max_tokens: int,
                 weights: bool) -> None:
        self.recording, self.manual = recording, manual
        self.model = weakref.ref(model)
        self.sites: List[Site] = []
        self.owners = 1
        self.graphs = False  # of which replays are steps that nobody here has seen
        self.step: Optional[int] = None
        self.index = 0
        self.phase = lib.NO_PHASE
        self.running = False
        device = next((p.device for p in model.parameters()), torch.device("cpu"))
        self.state = torch.zeros(1, device="cpu" if device.type == "meta" else device)
        self._names = [n for n in inspect.signature(model.forward).parameters]
        self._mask: Optional[Tensor] = None
        self._masks: Dict[torch.device, Tensor] = {}
        self._memory: Dict[torch.device, Optional[float]] = {}
        self._rows = 0
        self._odd_rows = False
        self._depth = 0
        self._implicit = -1
        self._borrowed = False
        self._library = lib.load()
        self._recorders: Dict[torch.device, DeviceRecorder] = {}
        self._max_tokens, self._weights = max_tokens, weights
        self._handles: List[Any] = []
        self._op = ops.number(self)

    def attach(self) -> None:
        """Puts the hooks on; on trouble none is left."""
        model = self.model()
        try:
            for device in {torch.device(s.router.device) for s in self.sites}:
                if device.type == "cuda":
                    self.recorder(device)
            for site in self.sites:
                self._handles += site.attach()
            self._handles.append(model.register_forward_pre_hook(self._before, with_kwargs=True))
            self._handles.append(model.register_forward_hook(self._after, always_call=True))
        except BaseException:
            self.detach()
            raise
        self.running = True
        _sessions.append(weakref.ref(self))

    def detach(self) -> None:
        """Takes the hooks off and fetches what is on devices. Doing it twice is fine."""
        if self.running and self.step is not None and self._implicit >= 0:
            self._close_step(0)
        self.running = False
        _sessions[:] = [ref for ref in _sessions if ref() not in (None, self)]
        for handle in self._handles:
            handle.remove()
        self._handles = []
        for site in self.sites:
            site.detach()
        for recorder in self._recorders.values():
            self.graphs = self.graphs or recorder.captured
            recorder.close()
        self._recorders = {}

    def recorder(self, device: torch.device) -> DeviceRecorder:
        if device not in self._recorders:
            found = [site.router.found for site in self.sites]
            experts = max((f.experts for f in found), default=1)
            self._recorders[device] = DeviceRecorder(
                device, layers=1 + max(site.layer for site in self.sites), experts=experts,
                k=max((f.k or min(MAX_K, experts)) for f in found), tokens=self._max_tokens,
                weights=self._weights)
        return self._recorders[device]

    @property
    def inside(self) -> bool:
        """The model's forward is running."""
        return self._depth > 0

    # Hooks of the whole model.

    def _before(self, module: nn.Module, args: Tuple, kwargs: Dict[str, Any]) -> None:
        if not self.running:
            return
        mask, rows, new = self._describe(args, kwargs)
        training = module.training and torch.is_grad_enabled()
        if torch.compiler.is_compiling():
            ops.step_begin(self.state, self._op, mask, rows, new, training)
        else:
            self.step_begin(mask, rows, new, training)

    def _after(self, _module: nn.Module, _args: Tuple, _output: Any) -> None:
        if not self.running:
            return
        if torch.compiler.is_compiling():
            ops.step_end(self.state, self._op)
        else:
            self.step_end()

    def _describe(self, args: Tuple, kwargs: Dict[str, Any]) -> Tuple[Optional[Tensor], int, int]:
        """(padding mask of the new positions or None, rows, new positions of a sequence)."""
        given = dict(zip(self._names, args))
        given.update(kwargs)
        ids = given.get("input_ids")
        if ids is None:
            ids = given.get("inputs_embeds")
        if ids is None:
            ids = next((a for a in args if isinstance(a, Tensor)), None)
        if not isinstance(ids, Tensor) or ids.dim() < 2:
            return None, 0, 2
        batch, new = ids.shape[0], ids.shape[1]
        mask = given.get("attention_mask")
        if not isinstance(mask, Tensor) or mask.dim() != 2 or mask.shape[0] != batch \
                or mask.shape[1] < new or mask.is_floating_point():
            return None, batch * new, new
        return mask[:, mask.shape[1] - new:], batch * new, new

    # At run time; also called by the operators of compiled code.

    def step_begin(self, mask: Optional[Tensor], rows: int, new: int, training: bool) -> None:
        if not self.running or torch._C._current_graph_task_id() != -1:
            return
        self._depth += 1
        if self._depth > 1:
            return
        if self._implicit >= 0 and self.step is not None:
            self._close_step(0)
        if training:
            self.phase = lib.FORWARD
        else:
            self.phase = lib.PREFILL if new > 1 else lib.DECODE
        self._masks = {}
        self._mask = None if mask is None else mask.reshape(-1) != 0
        self._rows = rows
        self._open_step()

    def step_end(self) -> None:
        if not self.running or self._depth == 0 or torch._C._current_graph_task_id() != -1:
            return
        self._depth -= 1
        if self._depth:
            return
        tokens = self._rows
        if self._mask is not None:
            # Counting on a device would wait for it: then the step's tokens stay unknown.
            tokens = int(self._mask.sum()) if self._mask.device.type == "cpu" else 0
        self._close_step(tokens)

    def _open_step(self) -> None:
        """A step of its own, unless a model around this one has one open."""
        outer = open_step()
        self.manual = self.manual or api.stepping
        self._borrowed = outer is not None
        self.step = outer if self._borrowed else self.recording.take_step()
        self._implicit = -1
        if not self.manual and not self._borrowed:
            self._library.moescope_step_begin(self.step)

    def _close_step(self, tokens: int) -> None:
        for device, recorder in self._recorders.items():
            with torch.cuda.device(device):
                recorder.step(self._library.moescope_current_step() if self.manual
                              else self.step)
            self.graphs = self.graphs or recorder.captured
        if not self.manual and not self._borrowed:
            self._library.moescope_step_end(tokens)
        self.step, self._mask, self._masks, self._memory = None, None, {}, {}
        self._implicit = -1
        self.index += 1

    def ensure_step(self, layer: int) -> None:
        """A part of the model was called by itself: a step ends where the layers start over."""
        if self._depth:
            return
        if self._implicit < 0 or layer <= self._implicit:
            if self._implicit >= 0:
                self._close_step(0)
            self.phase, self._mask, self._rows = lib.NO_PHASE, None, 0
            self._open_step()
        self._implicit = layer

    def memory(self, device: torch.device) -> Optional[float]:
        """Asked once a step: the allocator takes its time to answer."""
        if device not in self._memory:
            self._memory[device] = memory_mb(device)
        return self._memory[device]

    def rows_mask(self, indices: Tensor) -> Optional[Tensor]:
        """True for tokens, False for padding; None when no padding is known for these rows."""
        mask = self._mask
        if mask is None:
            return None
        if mask.numel() != indices.shape[0]:
            if not self._odd_rows:
                self._odd_rows = True
                api.info("routing padding", f"a layer routed {indices.shape[0]} rows of "
                         f"{mask.numel()} positions: padding among them is counted as tokens")
            return None
        if indices.device not in self._masks:
            there = mask.to(indices.device, non_blocking=True)
            # The recorder reads bytes, torch's bool is one.
            self._masks[indices.device] = there.contiguous()
        return self._masks[indices.device]
