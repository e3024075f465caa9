# SPDX-License-Identifier: Apache-2.0
"""Finds the MoE layers of a model. Anything uncertain is rejected with the remedy."""
import inspect
import re
from collections.abc import Iterable
from typing import Any, Callable, NamedTuple, Optional, Union

from torch import Tensor, nn

from .. import errors
from .._types import Args, Json
from . import families, sizes, suspects
from .families import Choice, Found

RegisteredFunction = Callable[[nn.Module, Args, Any], Args]
_registered: dict[Union[type, str], RegisteredFunction] = {}

HOW = ("register it: moescope.register_router(ClassOrName, function), where function(module, args, "
       "output) gives (indices, weights or None, scores or None, num_experts)")


class Router(NamedTuple):
    """One MoE layer: where to listen and what is known about it."""
    layer: int
    name: str
    found: Found
    source: str

    @property
    def device(self) -> str:
        for tensor in list(self.found.module.parameters()) or (
                list(self.found.gate.parameters()) if self.found.gate is not None else []):
            return str(tensor.device)
        return "cpu"


def register_router(module: Union[type, str], function: RegisteredFunction) -> None:
    """Says how to read the choice of an unlisted router, for all profilers created afterwards.

    `module` is its class, the class's name, or the module's full name in the model.
    function(module, args, output) is called after its forward and returns (indices [tokens, k],
    weights [tokens, k] or None, scores [tokens, experts] or None, num_experts).
    """
    if not isinstance(module, (type, str)):
        raise TypeError("register_router takes a class, a class's name or a module's name")
    if not callable(function):
        raise TypeError("register_router takes a function(module, args, output)")
    _registered[module] = function


def unregister_router(module: Union[type, str]) -> None:
    """Forgets a registration; a missing one is fine."""
    _registered.pop(module, None)


def _registration(name: str, module: nn.Module) -> Optional[RegisteredFunction]:
    for kind in type(module).__mro__:
        if kind in _registered:
            return _registered[kind]
    return _registered.get(type(module).__name__) or _registered.get(name)


def _by_registration(function: RegisteredFunction, module: nn.Module) -> Found:
    def read(hooked: nn.Module, args: Args, _kwargs: Json, output: Any) -> Choice:
        indices, weights, scores, experts = function(hooked, args, output)
        return Choice(indices, weights, scores, int(experts))
    return Found(module, "after", read, module, _experts_of(module), _top_k(module), sizes.Sizes())


def _experts_of(module: nn.Module) -> int:
    for name in ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"):
        value = getattr(module, name, None)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    weight = getattr(module, "weight", None)
    return weight.shape[0] if isinstance(weight, Tensor) and weight.dim() == 2 else 0


def _top_k(*modules: Optional[nn.Module]) -> int:
    for module in modules:
        for name in ("top_k", "num_experts_per_tok", "moe_top_k", "k"):
            value = getattr(module, name, None)
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return value
    return 0


def _interface(module: nn.Module, parent: Optional[nn.Module]) -> Optional[Found]:
    """experts(hidden_states, indices, weights) with stacked weights: it sees the indices in use."""
    experts, down = getattr(module, "num_experts", None), getattr(module, "down_proj", None)
    if not isinstance(experts, int) or not isinstance(down, Tensor) or down.dim() != 3:
        return None
    names = [p.name for p in list(inspect.signature(type(module).forward).parameters.values())[1:]
             if p.kind == p.POSITIONAL_OR_KEYWORD]
    if len(names) < 3:
        return None
    gate = _gate_of(parent)
    # Under expert parallelism the module holds fewer experts than the router knows.
    return Found(module, "before", families.experts_call(names[:3], experts), gate, experts,
                 _top_k(gate, parent, module), sizes.of_cubes(module, down.shape[0]), True)


def _gate_of(block: Optional[nn.Module]) -> Optional[nn.Module]:
    for name in ("gate", "router"):
        gate = getattr(block, name, None)
        if isinstance(gate, nn.Module):
            return gate
    return None


def _given(module: nn.Module) -> Found:
    """A module that the user names as a router: its output must contain the indices."""
    experts = _experts_of(module)
    return Found(module, "after", families.returned(experts, _top_k(module)), module, experts,
                 _top_k(module), sizes.Sizes(), True)


def _parent(names: dict[str, nn.Module], name: str) -> Optional[nn.Module]:
    return names.get(name.rpartition(".")[0]) if name else None


def _family(module: nn.Module) -> Optional[Callable[[nn.Module], Found]]:
    """The table's entry for this block; None if its forward is not the one that the table knows."""
    kind: Any = next((k for k in type(module).__mro__ if k.__name__ in families.BLOCKS), None)
    if kind is None or not kind.__module__.startswith("transformers.models."):
        return None
    forward = type(module).forward
    replaced = "forward" in vars(module) and not hasattr(module, "_hf_hook")  # accelerate's is fine
    if replaced or forward is not kind.forward or forward.__module__ != kind.__module__:
        return None
    return families.BLOCKS[kind.__name__]


def _find_one(names: dict[str, nn.Module], name: str,
              module: nn.Module) -> Optional[tuple[str, Found, str]]:
    """(name of the block, where to listen, how it is known), or None."""
    function = _registration(name, module)
    block = name.rpartition(".")[0]
    if function:
        return block, _by_registration(function, module), "registered"
    found = _interface(module, _parent(names, name))
    if found:
        return block, found, "experts interface"
    family = _family(module)
    experts = getattr(module, "experts", None)
    if family and not (isinstance(experts, nn.Module) and _interface(experts, module)):
        try:
            return name, family(module), "family"
        except (AttributeError, TypeError, IndexError):
            return None  # the same name for something else: it will be a suspect
    return None


def _router_of_family(names: dict[str, nn.Module], name: str,
                      module: nn.Module) -> Optional[tuple[str, Found, str]]:
    """The router of a block in the table: its output need not be indices."""
    parent = _parent(names, name)
    one = _find_one(names, name.rpartition(".")[0], parent) if parent is not None else None
    return one if one and one[2] == "family" and one[1].gate is module else None


def find_routers(model: nn.Module, routers: Optional[Iterable[Union[str, nn.Module]]] = None,
                 pattern: Optional[str] = None) -> list[Router]:
    """The MoE layers of `model`, in its order.

    routers: the routers or their names; pattern: a regular expression that matches their names.
    Both refer to routers whose output contains the indices, or that are registered.
    """
    names = dict(model.named_modules())
    found: list[Router] = []
    if routers is not None or pattern is not None:
        for name, module in _chosen(names, routers, pattern):
            one = _find_one(names, name, module) or _router_of_family(names, name, module)
            where, source = (one[1], one[2]) if one else (_given(module), "given")
            found.append(Router(len(found), name, where, source))
        return found
    claimed: list[str] = []  # blocks that are understood
    done: list[str] = []  # modules whose parts need no further look
    for name, module in names.items():
        if any(name.startswith(d + ".") for d in done):
            continue
        one = _find_one(names, name, module)
        if one:
            done.append(name)
            claimed += [name, one[0]]
            found.append(Router(len(found), name, one[1], one[2]))
    doubt = suspects.find(names, claimed)
    if doubt:
        raise errors.UnknownRouter(suspects.message(names, doubt, HOW))
    if not found:
        experts = suspects.configured(model)
        raise errors.NoExpertsFound(
            f"{type(model).__name__} is configured for {experts} experts, but no part of it looks "
            f"like them; give the routers with routers= or pattern=, or {HOW}" if experts else
            f"no mixture of experts was found in {type(model).__name__}; if it has one, give the "
            f"routers with routers= or pattern=, or {HOW}")
    return found


def _chosen(names: dict[str, nn.Module], routers: Optional[Iterable[Union[str, nn.Module]]],
            pattern: Optional[str]) -> list[tuple[str, nn.Module]]:
    if routers is not None:
        chosen = []
        by_id = {id(module): name for name, module in names.items()}
        for router in routers:
            name = router if isinstance(router, str) else by_id.get(id(router))
            if name not in names:
                raise errors.UnknownRouter(f"the model has no module '{name or router}'; "
                                           "take a name of model.named_modules()")
            chosen.append((name, names[name]))
        return chosen
    assert pattern is not None  # the caller has one of the two
    try:
        chosen = [item for item in names.items() if item[0] and re.search(pattern, item[0])]
    except re.error as why:
        raise ValueError(f"pattern '{pattern}' is not a regular expression: {why}") from why
    # Among nested matches the outermost is the router; its parts are not.
    outer = [n for n, _ in chosen]
    chosen = [(n, m) for n, m in chosen if not any(n.startswith(o + ".") for o in outer if o != n)]
    if not chosen:
        raise errors.UnknownRouter(f"no module's name matches '{pattern}'; "
                                   "print(model) shows the names")
    return chosen
