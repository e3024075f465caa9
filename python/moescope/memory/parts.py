# SPDX-License-Identifier: Apache-2.0
"""Bytes of a PyTorch model by layer and by expert.

Parameters, gradients and optimizer state are read from the tensors. Activations are what autograd
saves for the backward pass inside a layer's forward, each storage once, without parameters. A layer
is an entry of the outermost ModuleList that is not a list of experts; an expert is an entry of such
a list, or a slice of parameters stacked over the experts.
"""
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Union

from .. import _library as lib
from .. import api
from .._types import Json

if TYPE_CHECKING:
    from pandas import DataFrame
    from torch import Tensor, nn
    from torch.optim import Optimizer

USES = ("parameters", "gradients", "optimizer", "activations")
EXPERT_COUNTS = ("num_experts", "num_local_experts", "moe_num_experts", "n_routed_experts")
NO_FORWARD = "not measured: run the forward pass inside 'with memory.activations():'"
STACKED = "the experts of this layer run in one operation; its activations belong to all of them"
_addresses = iter(range(3 << 62, 1 << 64))  # for the library; above any user-space address


class Part(NamedTuple):
    """A place in the model. layer: the module's path ("" outside layers); expert: or None."""

    layer: str
    index: Optional[int]  # type: ignore[assignment] # tuple has a method of that name
    expert: Optional[int]
    device: int  # -1: the host


def tensor_bytes(tensor: "Tensor") -> int:
    """Bytes of a tensor's own elements on this process's device; none for meta tensors."""
    if hasattr(tensor, "to_local"):
        tensor = tensor.to_local()
    if tensor.device.type == "meta":
        return 0
    if str(tensor.layout) == "torch.sparse_coo":
        return tensor_bytes(tensor._values()) + tensor_bytes(tensor._indices())
    return int(tensor.numel() * tensor.element_size())


def _device(tensor: "Tensor") -> int:
    return (tensor.device.index or 0) if tensor.device.type == "cuda" else -1


def _is_list(module: object) -> bool:
    return type(module).__name__ == "ModuleList"


def place_of(modules: Json, name: str) -> tuple[str, Optional[int], Optional[int]]:
    """(layer, its index, expert) of a module or parameter, by its path."""
    words = name.split(".")
    layer, index, expert = "", None, None
    for i, word in enumerate(words):
        if not (word.isdigit() and i and _is_list(modules.get(".".join(words[:i])))):
            continue
        if re.search("expert", words[i - 1]):
            expert = int(word) if expert is None else expert
        elif index is None:
            layer, index = ".".join(words[:i + 1]), int(word)
    return layer, index, expert


def stacked_experts(module: "nn.Module", parameter: "nn.Parameter") -> int:
    """How many experts a parameter of this module holds as slices; 0: it is not stacked."""
    experts = next((n for n in (getattr(module, key, None) for key in EXPERT_COUNTS)
                    if isinstance(n, int)), None)
    own = list(module.parameters(recurse=False))
    if not experts or parameter.ndim == 0 or parameter.shape[0] % experts:
        return 0
    # A router has a matrix with one row per expert: that is not an expert's weight.
    if any(p.ndim == 3 and p.shape[0] == experts for p in own):
        return experts if parameter.shape[0] == experts else 0
    return experts if "expert" in type(module).__name__.lower() else 0


class ModelMemory:
    """Bytes of a model, by place and use. Refresh with update(); see rows() and total()."""

    def __init__(self, model: "nn.Module", optimizer: Optional["Optimizer"] = None) -> None:
        self.model, self.optimizer = model, optimizer
        self._bytes: dict[Part, dict[str, int]] = {}
        self._activations: Optional[dict[Part, int]] = None
        self._saved: list[tuple[Any, Part, int]] = []  # weak reference to the storage, bytes
        self._written: list[tuple[int, int]] = []
        self.update()

    # ------------------------------------------------------------ reading

    def update(self) -> "ModelMemory":
        """Rereads parameters, gradients and optimizer state."""
        self._bytes = {}
        modules = dict(self.model.named_modules())
        for name, parameter in self.model.named_parameters():
            home = modules[name.rpartition(".")[0]]
            layer, index, expert = place_of(modules, name)
            experts = 0 if expert is not None else stacked_experts(home, parameter)
            parts = ([Part(layer, index, e, _device(parameter)) for e in range(experts)]
                     or [Part(layer, index, expert, _device(parameter))])
            self._add(parts, "parameters", tensor_bytes(parameter))
            if parameter.grad is not None:
                self._add(parts, "gradients", tensor_bytes(parameter.grad))
            self._add_state(parts, parameter)
        return self

    def _add(self, parts: list[Part], use: str, size: int) -> None:
        for part in parts:  # slices of equal size: the division has no remainder
            uses = self._bytes.setdefault(part, dict.fromkeys(USES[:3], 0))
            uses[use] += size // len(parts)

    def _add_state(self, parts: list[Part], parameter: "nn.Parameter") -> None:
        for value in self.optimizer.state.get(parameter, {}).values() if self.optimizer else ():
            if not hasattr(value, "element_size"):
                continue
            alike = value.shape == parameter.shape
            where = parts if alike else [parts[0]._replace(
                expert=parts[0].expert if len(parts) == 1 else None)]
            self._add([part._replace(device=_device(value)) for part in where], "optimizer",
                      tensor_bytes(value))

    @contextmanager
    def activations(self) -> Iterator["ModelMemory"]:
        """Measures what the forward passes in its body save for the backward pass.

        The figures are the bytes alive when the body ends; run one forward pass in it and keep its
        result. Afterwards the model's hooks and results are as before.
        """
        import torch
        from torch.multiprocessing.reductions import StorageWeakRef

        own = {StorageWeakRef(p.untyped_storage()).cdata for p in self.model.parameters()}
        stack: list[tuple[str, Optional[int], Optional[int]]] = []
        saved: dict[int, tuple[Any, Part, int]] = {}
        hooks = []

        def pack(tensor: "Tensor") -> Any:
            if tensor.device.type != "meta" and tensor.layout is torch.strided:
                storage = tensor.untyped_storage()
                weak = StorageWeakRef(storage)
                if weak.cdata not in own and weak.cdata not in saved:
                    part = Part(*(stack[-1] if stack else ("", None, None)), _device(tensor))
                    saved[weak.cdata] = (weak, part, storage.nbytes())
            # Detached: an output that holds itself through its own graph would never be freed.
            return tensor.detach()

        def enter(place: Any) -> Any:
            return lambda *_: stack.append(place)

        def leave(*_: object) -> None:
            if stack:
                stack.pop()

        modules = dict(self.model.named_modules())
        for name, module in modules.items():
            parent = modules.get(name.rpartition(".")[0])
            if name and _is_list(parent):
                hooks.append(module.register_forward_pre_hook(enter(place_of(modules, name))))
                hooks.append(module.register_forward_hook(leave, always_call=True))
        try:
            with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
                yield self
        finally:
            for hook in hooks:
                hook.remove()
            self._saved = list(saved.values())
            self._activations = self._alive()
            self.update()
            if api.run_dir() is not None:
                self.write()

    def _alive(self) -> dict[Part, int]:
        """Bytes of the last measured activations that have not been freed yet."""
        self._saved = [entry for entry in self._saved if not entry[0].expired()]
        out: dict[Part, int] = {}
        for _, part, size in self._saved:
            out[part] = out.get(part, 0) + size
        return out

    # ------------------------------------------------------------ results

    def rows(self) -> list[Json]:
        """One row per layer, expert and device; None is unknown, with its reason."""
        parts = sorted(set(self._bytes) | set(self._activations or {}),
                       key=lambda p: (p.index is not None, p.layer.rpartition(".")[0],
                                      p.index or 0, -1 if p.expert is None else p.expert, p.device))
        return [self._row(part) for part in parts]

    def _row(self, part: Part) -> Json:
        row: Json = {"layer": part.layer, "index": part.index, "expert": part.expert,
                               "device": "cpu" if part.device < 0 else f"cuda:{part.device}"}
        uses = self._bytes.get(part, dict.fromkeys(USES[:3], 0))
        row.update({f"{use}_bytes": uses[use] for use in USES[:3]})
        row["activations_bytes"] = None
        if self._activations is None:
            row["activations_bytes_reason"] = NO_FORWARD
        elif part in self._activations or part.expert is None:
            row["activations_bytes"] = self._activations.get(part, 0)
        elif any(p.expert is not None and p.layer == part.layer for p in self._activations):
            row["activations_bytes"] = 0
        else:
            row["activations_bytes_reason"] = STACKED
        return row

    def layers(self) -> list[Json]:
        """The rows with the experts of a layer summed."""
        out: dict[tuple[str, str], Json] = {}
        for row in self.rows():
            key = (row["layer"], row["device"])
            if key not in out:
                out[key] = {"layer": row["layer"], "index": row["index"], "device": row["device"],
                            "experts": 0, **{f"{use}_bytes": 0 for use in USES}}
                if self._activations is None:
                    out[key].update(activations_bytes=None, activations_bytes_reason=NO_FORWARD)
            into = out[key]
            into["experts"] += row["expert"] is not None
            for use in USES:
                if into[f"{use}_bytes"] is not None:
                    into[f"{use}_bytes"] += row[f"{use}_bytes"] or 0
        return list(out.values())

    def experts(self) -> list[Json]:
        """The rows of experts."""
        return [row for row in self.rows() if row["expert"] is not None]

    def total(self) -> dict[str, Optional[int]]:
        """Bytes by use over the whole model."""
        out: dict[str, Optional[int]] = {
            use: sum(uses[use] for uses in self._bytes.values()) for use in USES[:3]}
        out["activations"] = (None if self._activations is None
                              else sum(self._activations.values()))
        return out

    def to_df(self) -> Union[list[Json], "DataFrame"]:
        """The rows as a pandas DataFrame, or as a list if pandas is not installed."""
        try:
            import pandas
        except ImportError:
            return self.rows()
        return pandas.DataFrame(self.rows())

    def write(self) -> "ModelMemory":
        """Writes the figures to the run being recorded, replacing those written before.

        `moescope memory RUN` then shows the composition of memory. Activations freed since they
        were measured are left out: they are no longer memory.
        """
        library = lib.load()
        activations = self._alive()
        for address, device in self._written:
            library.moescope_free(address, device)
        self._written = []
        for part in set(self._bytes) | set(activations):
            sizes = dict(self._bytes.get(part, {}), activations=activations.get(part, 0))
            for use, size in sizes.items():
                if size:
                    address = next(_addresses)
                    library.moescope_alloc(address, size, part.device, lib.MEMORY_USES[use],
                                           api.intern(_site(part)))
                    self._written.append((address, part.device))
        return self


def _site(part: Part) -> str:
    where = part.layer or "outside layers"
    return where if part.expert is None else f"{where}, expert {part.expert}"


def model_memory(model: "nn.Module", optimizer: Optional["Optimizer"] = None) -> ModelMemory:
    """Bytes of a PyTorch model by layer and expert; written to the run if one is being recorded."""
    memory = ModelMemory(model, optimizer)
    if api.run_dir() is not None:
        memory.write()
    return memory
