# SPDX-License-Identifier: Apache-2.0
"""The run that routing goes to: one at a time in a process, shared by all who capture.

The C library records into one run. Whoever comes first opens it, the last one closes it, and a run
that is not ours (of `moescope run`, or of moescope.start) is used and left open. Step and layer
numbers are handed out here, so that two models in one run are told apart."""
import ctypes
import os
import threading
import time
from typing import Any, Dict, List, Optional, Set

from .. import _library as lib
from .. import api, errors

_lock = threading.RLock()
_known: Dict[str, "Recording"] = {}
WAIT_S = 5.0


class Recording:
    """A run directory, and which numbers of it are taken."""

    def __init__(self, path: str, owned: bool) -> None:
        self.path, self.owned = path, owned
        self.users = 0
        self._steps = 0
        self._layers = 0

    def take_step(self) -> int:
        with _lock:
            self._steps += 1
            return self._steps - 1

    def take_layers(self, n: int) -> int:
        """The first of n layer numbers that nobody else has in this run."""
        with _lock:
            self._layers += n
            return self._layers - n

    @property
    def live(self) -> bool:
        return self.users > 0 or (not self.owned and api.run_dir() == self.path)


def level() -> int:
    """The level recorded now, MOESCOPE_OFF when nothing is."""
    return ctypes.c_uint32.in_dll(lib.load(), "moescope_gate").value & 0xff


def acquire(run: str, wanted: str) -> Recording:
    """The run in use, or a new one at `run`, at least at the level `wanted`."""
    with _lock:
        current = api.run_dir()
        if current is None:
            recording = _known.get(run)
            if recording is None or not os.path.isdir(run):
                recording = Recording(run, owned=True)
            api.start(run, wanted)
            recording.path = api.run_dir() or run
            _known[run] = _known[recording.path] = recording
        else:
            recording = _known.get(current) or Recording(current, owned=False)
            _known[current] = recording
            if level() < api.LEVELS[wanted]:
                lib.load().moescope_set_level(api.LEVELS[wanted])
        recording.users += 1
        return recording


def release(recording: Recording) -> None:
    """The last user of a run that is ours closes it."""
    with _lock:
        recording.users -= 1
        if recording.users == 0 and recording.owned and api.run_dir() == recording.path:
            api.stop()


def forget(path: str) -> None:
    """The directory is gone: a later run of the same name begins anew."""
    with _lock:
        _known.pop(path, None)


def series(recording: Recording, layer: int, steps: Optional[Set[int]]) -> List[Dict[str, Any]]:
    """What the tool has of a layer, step by step, phases together.

    A run that is still written shows a step a moment later: then this waits for `steps`."""
    deadline = time.monotonic() + WAIT_S
    while True:
        rows = _merge(lib.table("routing", recording.path, "--layer", str(layer))["rows"])
        missing = (steps or set()) - {row["step"] for row in rows}
        if not missing or not recording.live:
            break
        if time.monotonic() > deadline:
            raise errors.NotCaptured(
                f"{len(missing)} steps are not in {recording.path} yet; call stop() first")
        threading.Event().wait(0.05)  # a poll: the writer gives no sign
    return [row for row in rows if steps is None or row["step"] in steps]


def token_experts(recording: Recording, layer: int) -> Dict[int, Any]:
    """{step: numpy array [tokens, k]} of this process, calls of a step one below the other."""
    import numpy

    def rows(columns: str, table: str) -> Any:
        text = lib.run_tool("sql", recording.path, "--csv", f"select {columns} from {table} "
                            f"where layer = {layer} and pid = {os.getpid()}")
        numbers = text.replace(",", " ").split()[len(columns.split(",")):]
        return numpy.array(numbers, dtype=numpy.int64).reshape(-1, len(columns.split(",")))

    calls, experts = rows("step,k,slots", "routed"), rows("expert", "routed_slots")[:, 0]
    found: Dict[int, List[Any]] = {}
    at = 0
    for step, k, slots in calls.tolist():
        part = experts[at:at + slots].astype(numpy.int32).reshape(-1, k)
        at += slots
        have = found.setdefault(step, [])
        width = max(k, have[0].shape[1]) if have else k
        found[step] = [_wider(numpy, one, width) for one in have + [part]]
    return {step: numpy.concatenate(parts) for step, parts in sorted(found.items())}


def _wider(numpy: Any, rows: Any, k: int) -> Any:
    """Calls of one step with another k: their further slots are unused."""
    return numpy.pad(rows, ((0, 0), (0, k - rows.shape[1])), constant_values=lib.SLOT_UNUSED)


def _merge(table: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """Rows of one step in several phases become one: counts add up, means are by tokens."""
    by_step: Dict[int, Dict[str, Any]] = {}
    for row in table:
        for one in row["series"]:
            have = by_step.get(one["step"])
            if have is None:
                by_step[one["step"]] = dict(one, phase=row["phase"])
                continue
            for key in ("router_confidence", "router_confidence_k"):
                _mean(have, one, key)
            for key in ("load", "k_hist"):
                have[key] = _add(have[key], one[key])
            for key in ("flops_router", "flops_expert"):
                known = have[key] is not None and one[key] is not None
                have[key] = have[key] + one[key] if known else None
            have["tokens"] += one["tokens"]
            have["time_ns"] = min(have["time_ns"], one["time_ns"])
            have["phase"] = "mixed"
    return [by_step[step] for step in sorted(by_step)]


def _add(a: List[int], b: List[int]) -> List[int]:
    size = max(len(a), len(b))
    return [x + y for x, y in zip(a + [0] * (size - len(a)), b + [0] * (size - len(b)))]


def _mean(have: Dict[str, Any], one: Dict[str, Any], key: str) -> None:
    if have[key] is None or one[key] is None:
        have[key] = have[key] if one[key] is None else one[key]
        return
    both = have["tokens"] + one["tokens"]
    if both:
        have[key] = (have[key] * have["tokens"] + one[key] * one["tokens"]) / both
