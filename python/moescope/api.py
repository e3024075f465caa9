# SPDX-License-Identifier: Apache-2.0
"""How a program reports to the profiler: steps, ranges, marks. The C API in Python. Programs start
and stop through runs.py, which knows who else records."""
import errno
import functools
import itertools
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import byref
from typing import Callable, Optional

from . import _library as lib
from . import checks, errors
from ._types import Function

LEVELS = {"counts": lib.COUNTS, "steps": lib.STEPS, "trace": lib.TRACE, "full": lib.FULL}
PHASES = {None: lib.NO_PHASE, "forward": lib.FORWARD, "backward": lib.BACKWARD,
          "optimizer": lib.OPTIMIZER, "data": lib.DATA, "prefill": lib.PREFILL,
          "decode": lib.DECODE, "recompute": lib.RECOMPUTE, "evaluation": lib.EVALUATION}
# Called when a run has been closed, and is still where it was.
after_stop: list[Callable[[], None]] = []
# The program numbers the steps of this run itself: integrations then make none.
stepping = False
# Called when the program begins to profile itself, with what it uses: what marks steps for programs
# that do not (auto/) then ends.
before_own: list[Callable[[str], None]] = []


def profiles_itself(what: str) -> None:
    while before_own:
        before_own.pop()(what)


def start(run: Optional[str] = None, level: str = "trace") -> str:
    """moescope_start_with: the full path of the run directory being written."""
    checks.one_of("level", level, LEVELS)
    library = lib.load()
    # The experts of each token are megabytes per step, and the usual ring holds one.
    options = lib.Options(level=LEVELS[level], ring_bytes=16 << 20 if level == "full" else 0)
    status = library.moescope_start_with(lib.encoded(run), byref(options))
    if status != 0:
        raise errors.StartError(-status, _why_not(-status, run))
    return run_dir() or ""


def _why_not(code: int, run: Optional[str]) -> str:
    """The sentence for a run that could not be started."""
    if run is None:
        return (f"recording could not start in the current directory: {os.strerror(code)}; give a "
                "run directory that can be written")
    folder = os.path.dirname(os.path.abspath(run))
    if not os.path.isdir(folder) and code == errno.ENOENT:
        return (f"recording could not start: there is no folder '{folder}'; make it, or choose "
                "another run directory")
    why = {errno.ENOTDIR: f"a part of the path '{run}' is a file; choose",
           errno.EEXIST: f"'{run}' is there already and is not a run; choose",
           errno.EACCES: f"'{run}' may not be written by this user; choose",
           errno.EROFS: f"'{run}' is on a file system that is read-only; choose",
           errno.ENOSPC: f"the disk of '{run}' is full; make room, or choose"}
    return ("recording could not start: "
            + why.get(code, f"'{run}': {os.strerror(code)}; choose") + " another run directory")


def stop() -> None:
    """moescope_stop."""
    global stepping
    stepping = False
    lib.load().moescope_stop()
    for call in after_stop:
        call()


def run_dir() -> Optional[str]:
    """The run being written, or None."""
    path = lib.load().moescope_run_dir()
    return os.fsdecode(path) if path else None


def recording() -> bool:
    return bool(lib.load().moescope_recording())


def step(tokens: int = 0) -> None:
    """One step ends here and the next begins; it processed `tokens`, 0: unknown.

    Call it at the end of an iteration: n calls are n steps. The first one begins where recording
    started.
    """
    global stepping
    profiles_itself("moescope.step")
    stepping = True
    lib.load().moescope_step(checks.whole("tokens", tokens))


@functools.lru_cache(maxsize=65536)
def intern(name: str) -> int:
    return int(lib.load().moescope_intern(checks.text("name", name).encode(errors="replace")))


@contextmanager
def range(name: str, layer: int = -1, expert: int = -1,
          phase: Optional[str] = None) -> Iterator[None]:
    """A named range of this thread; ranges nest."""
    library = lib.load()
    library.moescope_range_begin(intern(name), checks.whole("layer", layer, -1),
                                 checks.whole("expert", expert, -1),
                                 PHASES[checks.one_of("phase", phase, PHASES)])
    try:
        yield
    finally:
        library.moescope_range_end()


def ranged(name: Optional[str] = None) -> Callable[[Function], Function]:
    """Decorator: each call of the function is a range."""
    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def call(*args: object, **kwargs: object) -> object:
            with range(name or function.__qualname__):
                return function(*args, **kwargs)
        return call
    return decorate


class request:
    """One inference request, from here to the end of the `with`: call token() for each token, or
    pass it as model.generate(..., streamer=r), which calls put() first with the prompt and then
    with each token.

    prompt_tokens: 0 for unknown. A token on a CUDA device has arrived when the host has it;
    generate waits for that.
    """

    _numbers = itertools.count(1)

    def __init__(self, prompt_tokens: int = 0) -> None:
        self.prompt_tokens = checks.whole("prompt_tokens", prompt_tokens)
        self.number = next(self._numbers)
        self._prompt_seen = False

    def __enter__(self) -> "request":
        lib.load().moescope_request_begin(self.number, self.prompt_tokens)
        return self

    def __exit__(self, *exception: object) -> None:
        lib.load().moescope_request_end(self.number)

    def token(self) -> None:
        lib.load().moescope_token(self.number)

    def put(self, value: object) -> None:
        """transformers' streamers take one sequence."""
        if self._prompt_seen:
            self.token()
        self._prompt_seen = True

    def end(self) -> None:
        """transformers calls it after the last token; the request ends with its `with`."""


def mark(text: str) -> None:
    """An instant with a text."""
    lib.load().moescope_mark(checks.text("text", text).encode(errors="replace"))


def counter(name: str, value: float) -> None:
    """A sample of a numeric series."""
    lib.load().moescope_counter(checks.text("name", name).encode(errors="replace"),
                                checks.real("value", value))


def warn(words: str) -> None:
    """From a hook, in the middle of the program's own calls: never an exception, even if the
    program turns warnings into errors."""
    try:
        warnings.warn(words, RuntimeWarning, stacklevel=3)
    except RuntimeWarning:
        print(f"moescope: {words}", file=sys.stderr)


def info(key: str, value: str) -> None:
    """A fact about the run, shown in the report."""
    lib.load().moescope_info(checks.text("key", key).encode(errors="replace"),
                             checks.text("value", value).encode(errors="replace"))
