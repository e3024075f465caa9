# SPDX-License-Identifier: Apache-2.0
"""log_to and log_run: figures of a run while it is recorded, and afterwards.

Nothing of this runs in the program's steps: a thread reads what the shard has gained every few
seconds, by the tool, and writes it. It competes with the program for Python's lock only while it
parses and writes, and what it does each time is limited. A target that fails is told about once and
left alone from then on.
"""
import atexit
import math
import os
import threading
import time
from typing import Any, Optional

from .. import _library as lib
from .. import api, checks, clock, errors
from .._types import Path
from . import figures, targets

SECONDS = 5.0
FIRST = 0.25  # seconds: soon, to learn how much there is
MOST = 2000  # figures to write each time; if there were more, of every 2nd, 4th, ... step
SHARE = 20  # a pause is at least this many times as long as what was done before it
PATIENCE = 30.0  # seconds that the end of a recording waits for a target


class Log:
    """One shard into one target, from the current step to finish()."""

    def __init__(self, shard: str, target: targets.Target, seconds: float, first_step: int) -> None:
        self._target, self._seconds, self._first_step = target, seconds, first_step
        self._shard = os.fsencode(shard)
        self._reader = figures.Reader(shard, after=int(lib.load().moescope_current_step()) - 1,
                                      since_ns=clock.monotonic_ns())
        self._every = 1
        self._end = threading.Event()
        self._pid = os.getpid()
        self.cpu_s, self.steps, self.figures = 0.0, 0, 0  # for bench/log_to.py
        self._thread = threading.Thread(target=self._follow, name="moescope log", daemon=True)
        self._thread.start()
        _open.append(self)

    def finish(self) -> None:
        """Writes the rest: the run is closed, or stays open without us. Waits, but not for ever."""
        if self not in _open or os.getpid() != self._pid:  # a child has no such thread
            return
        _open.remove(self)
        self._end.set()
        self._thread.join(PATIENCE)
        if self._thread.is_alive():
            api.warn("moescope has not logged the last figures: "
                     f"{self._target.name} took over {PATIENCE:.0f} s")

    def _follow(self) -> None:
        before, pause, last = time.monotonic(), min(FIRST, self._seconds), False
        try:
            while not last:
                last = self._end.wait(pause)
                now = time.monotonic()
                count = self._pass(last)
                pause = max(self._seconds, SHARE * (time.monotonic() - now))
                self._thin(count / (now - before), pause)
                before = now
            self._target.close()
        except BaseException as why:  # the program continues
            words = f"{type(why).__name__}: {why}".splitlines()[0][:300]
            api.warn(f"moescope logs nothing more to {self._target.name}, and goes on recording: {words}")
        finally:
            self.cpu_s = time.thread_time()

    def _pass(self, last: bool) -> int:
        library = lib.load()
        if library.moescope_shard() == self._shard and library.moescope_flush() != 0 and last:
            api.warn("moescope could not write what was recorded last, so it is not logged")
        found = self._reader.read(self._every, last)
        if self._every > 1:
            for one in found:
                one.values["moescope/logged_every"] = float(self._every)
        if found:
            self._target.write([one._replace(step=one.step + self._first_step) for one in found])
            self._target.flush()
        count = sum(len(one.values) for one in found)
        self.steps, self.figures = self.steps + len(found), self.figures + count
        return count

    def _thin(self, per_second: float, pause: float) -> None:
        """So that the next time has at most MOST, if steps go on as they did before it. Few figures may
        be chance, where few steps are logged: so it never grows by more than two from one to the next."""
        expected = per_second * self._every * pause
        self._every = max(self._every // 2, 2 ** math.ceil(math.log2(max(1.0, expected / MOST))))


_open: list[Log] = []


def finish_all() -> None:
    for log in list(_open):
        log.finish()


api.after_stop.append(finish_all)
atexit.register(finish_all)


class Logs:
    """The targets of a profiler, which it starts and ends with its own recording."""

    def __init__(self) -> None:
        self._wanted: list[tuple[targets.Target, float, int]] = []
        self.running: list[Log] = []

    def add(self, target: Any, seconds: float, first_step: int, run_id: Optional[str],
            every_step: bool, shard: Optional[str]) -> None:
        """shard: that is being recorded, or None."""
        if not checks.real("seconds", seconds) > 0:
            raise ValueError(f"seconds is {seconds}; give more than 0")
        wanted = (targets.find(target, run_id, every_step), float(seconds),
                  checks.whole("first_step", first_step))
        self._wanted.append(wanted)
        if shard is not None:
            self.running.append(Log(shard, *wanted))

    def start(self, shard: Optional[str]) -> None:
        """A recording has begun."""
        try:
            self.running = [Log(shard, *wanted) for wanted in self._wanted if shard is not None]
        except RuntimeError as why:  # there can be no more threads; the program continues
            api.warn(f"moescope logs nothing: {why}")

    def finish(self) -> None:
        for log in self.running:
            log.finish()
        self.running = []


def log_to(target: Any, *, seconds: float = SECONDS, first_step: int = 0,
           run_id: Optional[str] = None, every_step: bool = False) -> None:
    """Writes figures of the run that this process records, from here until moescope.stop().

    target: a SummaryWriter, a run of W&B or MLflow, an MLflow client (with run_id), one of these
    modules, "tensorboard", "wandb", "mlflow", or a function f(step, {name: value}). first_step: what
    the training calls the run's step 0. seconds: how often, at most. every_step: for W&B, which otherwise
    shows one step of each time, as part of the program's next row; then each step has a row of its own.
    Only for programs that call wandb.log without step=: W&B counts rows, and drops what comes with a
    smaller number.
    """
    shard = lib.load().moescope_shard()
    if not shard:
        raise errors.ProfilerClosed("nothing is recorded, so there is nothing to log; call "
                                    "moescope.start() first, or use 'moescope run'")
    Logs().add(target, seconds, first_step, run_id, every_step, os.fsdecode(shard))


def log_run(run: Path, target: Any, *, rank: Optional[int] = None, first_step: int = 0,
            run_id: Optional[str] = None) -> int:
    """Writes the figures of a run that is on disk, and returns how many steps those were.

    rank: of a run of several; by default the lowest. target, first_step and run_id: see log_to. W&B
    gets a row for every step: give it a run of its own.
    """
    found = figures.of_run(os.fspath(run), rank)
    wanted = targets.find(target, run_id)
    wanted.write_all([one._replace(step=one.step + first_step) for one in found])
    wanted.close()
    return len(found)
