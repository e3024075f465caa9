# SPDX-License-Identifier: Apache-2.0
"""Parts of a model that look like a mixture of experts but that nothing here can read: they are
named, with code to paste. A guess is never captured."""
import re
from typing import Any, Callable, NamedTuple, Optional

from torch import nn

_CLASS = re.compile(r"(Experts?|M[oO]E|Moe|M[oO]ELayer|MoeLayer|MixtureOfExperts|Router|TopKGating|"
                    r"Top[12]Gate|SparseMoeBlock|SparseMLP)$")
_MEMBER = re.compile(r"experts?$|^experts?_|_experts?$")
_GATE = re.compile(r"^(w?gate|w?gating|router|switch|wg|gating_network|chooser|classifier)$")
_COUNT = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts", "n_experts")


class Suspect(NamedTuple):
    """A block, how many experts it seems to have (0: unknown), and what may be its gate."""
    name: str
    experts: int
    gate: str


def configured(model: nn.Module) -> int:
    """Experts named in the model's configuration or that of its text part; 0: none."""
    config: Any = getattr(model, "config", None)
    for one in (config, getattr(config, "text_config", None)):
        for name in _COUNT:
            value = one.get(name) if isinstance(one, dict) else getattr(one, name, None)
            if isinstance(value, int) and not isinstance(value, bool) and value > 1:
                return value
    return 0


def _outputs(module: nn.Module) -> int:
    """How many numbers a gate gives a token: rows of its only matrix; 0: it is not a gate."""
    rows = [p.shape[0] for p in module.parameters() if p.dim() == 2]
    return rows[0] if len(rows) == 1 else 0


def _gates(block: nn.Module) -> list[int]:
    """Outputs of the parts named like a gate."""
    return [_outputs(child) for name, child in block.named_children()
            if _GATE.match(name.lower()) or re.search(r"Gate|Gating|Router", type(child).__name__)]


def _experts(block: nn.Module) -> int:
    """Experts among the direct parts of a block: a container of networks, or stacked weights."""
    gates = _gates(block)
    for name, child in block.named_children():
        if isinstance(child, (nn.ModuleList, nn.ModuleDict)) and len(child) > 1 and (
                _MEMBER.search(name.lower()) or len(child) in gates):
            return len(child)
    stacks = [block, *(c for c in block.children() if not type(c).__module__.startswith("torch."))]
    cubes = [p.shape[0] for part in stacks for p in part.parameters(recurse=False) if p.dim() == 3]
    return next((n for n in cubes if n > 1 and n in gates), 0)


def _gate(name: str, block: nn.Module, experts: int) -> str:
    """The part with as many outputs as there are experts, or the name of a gate."""
    dot = name + "." if name else ""
    children = [(n, c) for n, c in block.named_children()
                if not isinstance(c, (nn.ModuleList, nn.ModuleDict))]
    fits: Callable[[str, nn.Module], object]
    for fits in (lambda n, c: experts and _outputs(c) == experts and _GATE.match(n.lower()),
                 lambda n, c: experts and _outputs(c) == experts,
                 lambda n, c: _GATE.match(n.lower())):
        for child, module in children:
            if fits(child, module):
                return f"{dot}{child}"
    return ""


def find(names: dict[str, nn.Module], claimed: list[str]) -> list[Suspect]:
    """Parts that look like a mixture of experts and belong to no detected layer."""
    def known(name: str) -> bool:
        return name in claimed or any(name.startswith(c + ".") or c.startswith(name + ".")
                                      for c in claimed if c and name)
    found: list[Suspect] = []
    for name, module in names.items():
        if known(name) or any(s.name and name.startswith(s.name + ".") for s in found):
            continue
        if isinstance(module, (nn.ModuleList, nn.ModuleDict)):
            continue  # the enclosing block says more
        experts = _experts(module)
        beside = "" in claimed and "." not in name  # a router at the top of the model
        if experts or (name and not beside and _CLASS.search(type(module).__name__) and any(
                True for _ in module.parameters())):
            found.append(Suspect(name, experts, _gate(name, module, experts)))
    return found


def _key(names: dict[str, nn.Module], gate: str) -> tuple[str, Optional[str]]:
    """What to register, and how to find all gates like this one if its class says nothing."""
    kind = type(names[gate])
    if kind.__module__.startswith("torch."):
        return "name", gate.rpartition(".")[2]
    return repr(kind.__name__), None


def _paste(names: dict[str, nn.Module], suspect: Suspect) -> str:
    block, gate = names[suspect.name], names[suspect.gate]
    experts = suspect.experts or _outputs(gate)
    k = next((getattr(m, n) for m in (block, gate) for n in ("top_k", "k", "num_experts_per_tok")
              if isinstance(getattr(m, n, None), int)), 0)
    key, last = _key(names, suspect.gate)
    lines = ["def read(module, args, output):  # after the gate's forward; do as your block does",
             f"    weights, indices = output.softmax(-1).topk({k or 2})"
             + ("" if k else "  # 2: your k"),
             f"    return indices, weights, None, {experts}"]
    if last is None:
        return "\n".join([*lines, f"moescope.register_router({key}, read)"])
    return "\n".join([*lines, "for name, module in model.named_modules():",
                      f"    if name.rpartition('.')[2] == {last!r}:",
                      "        moescope.register_router(name, read)"])


def message(names: dict[str, nn.Module], doubt: list[Suspect], how: str) -> str:
    """One sentence, and what to paste if the gate is known."""
    first = next((s for s in doubt if s.gate), doubt[0])
    kind = type(names[first.name]).__name__
    size = f" of {first.experts} experts" if first.experts else " of experts"
    words = (f"'{first.name}' ({kind}) looks like a mixture{size}, but how its router chooses is not "
             "known, so nothing is captured; ")
    if not first.gate:
        return words + how
    return (words + f"its gate seems to be '{first.gate}': check this and paste it, with "
            f"moescope.register_router, before the profiler is made:\n{_paste(names, first)}")
