# SPDX-License-Identifier: Apache-2.0
"""The run of this process: one at a time, shared by all who record, and read back.

The C library records into one run. Whoever comes first opens it, the last one closes it. Whoever
comes while one is open records into that one, whatever run it names; a run of `moescope run` or of
moescope.start stays open. A profiler without a run opens a temporary one, which is removed with the
last profiler that has figures in it. If something joins whose records must stay, it is kept under
the requested name: a link until it is closed, then the run itself.

Step and layer numbers are assigned here, so that two models in one run are distinct. Figures are
read only from the shards of this process, whatever other ranks write into the run.
"""
import atexit
import ctypes
import glob
import os
import shutil
import tempfile
import threading
import warnings
from ctypes import byref
from typing import TYPE_CHECKING, Any, Optional

from . import _library as lib
from . import api
from ._types import Json

if TYPE_CHECKING:
    from numpy import ndarray

_lock = threading.RLock()
_known: dict[str, "Recording"] = {}


class Recording:
    """A run directory, who uses it, and which of its numbers are taken."""

    def __init__(self, path: str, owned: bool, folder: Optional[str] = None) -> None:
        self.path, self.owned = path, owned
        self.folder = folder  # a temporary one around the run, to be removed
        self.kept: Optional[str] = None  # where the run goes from there
        self.shards: list[str] = []  # of this process, in the order of its sessions
        self.users = 0  # who record
        self.holders = 0  # who will read
        self.paused = False
        self._steps = 0
        self._layers = 0

    def take_step(self) -> int:
        """The next number that nobody has used, including the program."""
        with _lock:
            step = max(self._steps, int(lib.load().moescope_current_step()) + 1)
            self._steps = step + 1
            return step

    def take_layers(self, n: int) -> int:
        """The first of n layer numbers that are free in this run."""
        with _lock:
            self._layers += n
            return self._layers - n

    def take_layer(self, wanted: int) -> int:
        """This number, or another one if it is taken."""
        with _lock:
            if wanted < self._layers:
                return self.take_layers(1)
            self._layers = wanted + 1
            return wanted

    @property
    def shard(self) -> Optional[str]:
        """Of the last session."""
        return self.shards[-1] if self.shards else None

    @property
    def live(self) -> bool:
        return self.shard is not None and _shard() == self.shard

    def version(self) -> Any:
        """Changes whenever there is something new to read, which is then in the shards."""
        if not self.live:
            return self.path, len(self.shards)
        library = lib.load()
        if library.moescope_flush() != 0:
            warnings.warn(f"what was recorded last could not be written to {self.path} yet; figures "
                          "may lack it", RuntimeWarning, stacklevel=2)
        stats = lib.Stats()
        library.moescope_get_stats(byref(stats))
        return self.path, len(self.shards), stats.recorded

    def pause(self, on: bool) -> None:
        """Only while its opener is alone in it: what others record must not depend on the opener.
        """
        on = on and self.owned and self.users == 1
        if on != self.paused:
            self.paused = on
            library = lib.load()
            (library.moescope_pause if on else library.moescope_resume)()

    def hold(self) -> None:
        with _lock:
            self.holders += 1

    def let_go(self) -> None:
        """The last one who could read it is gone."""
        with _lock:
            self.holders -= 1
            self._settle()

    def keep(self, run: str, named: bool) -> None:
        """Somebody wants records from now on to be found at `run`."""
        if self.folder is None or self.kept is not None:
            where = self.kept or self.path
            if named and os.path.abspath(run) != os.path.abspath(where):
                warnings.warn(f"recording goes to {where}, which is open already; stop that first to "
                              f"record to {run}", RuntimeWarning, stacklevel=4)
            return
        self.kept = os.path.abspath(run)
        os.makedirs(os.path.dirname(self.kept), exist_ok=True)
        if not os.path.lexists(self.kept):
            os.symlink(os.path.abspath(self.path), self.kept)
        atexit.register(_close_at_exit, self)

    def _settle(self) -> None:
        """Once it is closed: moves a kept run to its place, removes a temporary one."""
        if self.folder is None or api.run_dir() == self.path:
            return
        if self.kept is not None:
            atexit.unregister(_close_at_exit)
            try:
                self._move(self.kept)
            except OSError as why:  # the program continues
                warnings.warn(f"the run could not be moved to {self.kept} and stays in {self.path}: "
                              f"{why}", RuntimeWarning, stacklevel=3)
                self.folder = self.kept = None
                return
        elif self.holders > 0:
            return
        _known.pop(self.path, None)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder = None
        if self.kept is not None:
            self.path = self.kept
            _known[self.path] = self

    def _move(self, to: str) -> None:
        if os.path.islink(to):
            os.unlink(to)
        if not os.path.exists(to):
            shutil.move(self.path, to)
            self.shards = [os.path.join(to, os.path.basename(shard)) for shard in self.shards]
            return
        moved = {}  # into a run that already existed
        for shard in sorted(glob.glob(os.path.join(glob.escape(self.path), "*.mst"))):
            stem, n = os.path.basename(shard)[:-len(".mst")], 1
            moved[shard] = os.path.join(to, f"{stem}.mst")
            while os.path.exists(moved[shard]):
                n += 1
                moved[shard] = os.path.join(to, f"{stem}-{n}.mst")
            shutil.move(shard, moved[shard])
        self.shards = [moved[shard] for shard in self.shards]


def _close_at_exit(recording: Recording) -> None:
    with _lock:
        if api.run_dir() == recording.path:
            api.stop()
        recording._settle()


def _shard() -> Optional[str]:
    path = lib.load().moescope_shard()
    return os.fsdecode(path) if path else None


def level() -> int:
    """The current level, MOESCOPE_OFF if nothing is recorded."""
    return ctypes.c_uint32.in_dll(lib.load(), "moescope_gate").value & 0xff


def _default_run() -> str:
    """The name that the C library gives."""
    return f"moescope-{os.getpid()}.mscope"


def _open(run: Optional[str], wanted: str, named: bool, temporary: bool) -> Recording:
    api.profiles_itself("moescope's profilers")
    current = api.run_dir()
    if current is None:
        api.stepping = False  # earlier calls belonged to no session
        folder = tempfile.mkdtemp(prefix="moescope-") if temporary and run is None else None
        if folder is not None:
            run = os.path.join(folder, "routing.mscope")
        path = api.start(run, wanted)
        recording = _known.get(path)
        if recording is None or not recording.shards or not os.path.exists(recording.shards[0]):
            recording = Recording(path, True, folder)
        _known[path] = recording
    else:
        recording = _known.get(current) or Recording(current, owned=False)
        _known[current] = recording
        if not temporary:
            recording.keep(run or _default_run(), named)
        recording.pause(False)
        lib.load().moescope_start(None)  # under `moescope run` the program starts here
        if level() < api.LEVELS[wanted]:
            lib.load().moescope_set_level(api.LEVELS[wanted])
    shard = _shard()
    if shard is not None and shard not in recording.shards:
        recording.shards.append(shard)
    return recording


def acquire(run: Optional[str], wanted: str, named: bool = True,
            temporary: bool = False) -> Recording:
    """The run in use, or a new one at `run`, at least at the level `wanted`.

    named: the user has chosen `run`, and is warned if it is another. temporary: without a `run` it
    need not outlive the caller.
    """
    with _lock:
        recording = _open(run, wanted, named and run is not None, temporary)
        recording.users += 1
        return recording


def release(recording: Recording) -> None:
    """The last user of a run that is ours closes it."""
    with _lock:
        recording.users -= 1
        if recording.users == 0 and recording.owned and api.run_dir() == recording.path:
            api.stop()
        recording._settle()


def start(run: Optional[str] = None, level: str = "trace") -> str:
    """Starts recording into the run directory `run` and returns its path.

    None: the run of `moescope run`, or a new one in the current directory. If a run is open, it
    continues, and the first step begins here.
    """
    with _lock:
        recording = _open(run, level, run is not None, False)
        recording.owned = False  # until stop()
        return recording.kept or recording.path


def stop() -> None:
    """Writes pending records and closes the run, whoever else records into it."""
    with _lock:
        recording = _known.get(api.run_dir() or "")
        api.stop()
        if recording is not None:
            recording._settle()


def series(recording: Recording, layer: int, steps: Optional[set[int]]) -> list[Json]:
    """What this process recorded of a layer, step by step, phases combined; `steps`: only these."""
    rows: list[Json] = []
    for shard in recording.shards:
        rows += _merge(lib.table("routing", shard, "--layer", str(layer))["rows"])
    if steps is None:
        return rows
    missing = steps - {row["step"] for row in rows}
    if missing:
        warnings.warn(f"{len(missing)} of {len(steps)} steps of layer {layer} were recorded and are "
                      f"not in {recording.path}: 'moescope report' says what was lost",
                      RuntimeWarning, stacklevel=2)
    return [row for row in rows if row["step"] in steps]


def token_experts(recording: Recording, layer: int) -> dict[int, "ndarray"]:
    """{step: numpy array [tokens, k]} of this process, with the calls of a step concatenated."""
    import numpy

    def rows(shard: str, columns: str, table: str) -> Any:
        text = lib.run_tool("sql", shard, "--csv",
                            f"select {columns} from {table} where layer = {layer}")
        numbers = text.replace(",", " ").split()[len(columns.split(",")):]
        return numpy.array(numbers, dtype=numpy.int64).reshape(-1, len(columns.split(",")))

    found: dict[int, list[Any]] = {}
    for shard in recording.shards:
        experts, at = rows(shard, "expert", "routed_slots")[:, 0], 0
        for step, k, slots in rows(shard, "step,k,slots", "routed").tolist():
            part = experts[at:at + slots].astype(numpy.int32).reshape(-1, k)
            at += slots
            have = found.setdefault(step, [])
            width = max(k, have[0].shape[1]) if have else k
            found[step] = [_wider(numpy, one, width) for one in have + [part]]
    return {step: numpy.concatenate(parts) for step, parts in sorted(found.items())}


def _wider(numpy: Any, rows: Any, k: int) -> Any:
    """For calls of one step with another k: their additional slots are unused."""
    return numpy.pad(rows, ((0, 0), (0, k - rows.shape[1])), constant_values=lib.SLOT_UNUSED)


def _merge(table: list[Json]) -> list[Json]:
    """Merges rows of one step in several phases: counts add up, means are weighted by tokens."""
    by_step: dict[int, Json] = {}
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


def _add(a: list[int], b: list[int]) -> list[int]:
    size = max(len(a), len(b))
    return [x + y for x, y in zip(a + [0] * (size - len(a)), b + [0] * (size - len(b)))]


def _mean(have: Json, one: Json, key: str) -> None:
    if have[key] is None or one[key] is None:
        have[key] = have[key] if one[key] is None else one[key]
        return
    both = have["tokens"] + one["tokens"]
    if both:
        have[key] = (have[key] * have["tokens"] + one[key] * one["tokens"]) / both
