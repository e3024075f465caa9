# SPDX-License-Identifier: Apache-2.0
"""What `moescope attach --inside` runs in a program that knows nothing of it.

Not imported: the main thread runs a line that starts a thread, which executes this file with these names:
path (this file), run, library, page (the address of that line, to be given back; 0: it is in memory of
Python's) and steps (0: no limit). A thread of its own, because handlers of the program's signals run on the
main thread alone and may raise: none of that may end up here.

Prints nothing and raises nothing; what goes wrong is told to the run. Only the standard library, and what the
program has probably imported already.
"""
from typing import Any, Optional

_given: dict[str, Any] = globals()
path: bytes = _given["path"]
run: bytes = _given["run"]
library: bytes = _given["library"]
page: int = _given["page"]
steps: int = _given["steps"]

_PAGE_BYTES, _LEFT_AT = 8192, 256  # landing.h
_PATIENCE_S = 1.0
_LEAVING_S = 3.0


def _block_signals() -> None:
    """The program's signals are for the program's threads."""
    import signal

    faults = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL}
    signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.valid_signals()) - faults)


def _write(name: bytes, words: str) -> None:
    import os

    with open(os.path.join(run, name), "a", encoding="utf-8") as file:
        file.write(" ".join(words.split()) + "\n")


def _state(words: str) -> None:
    """For the attaching moescope (joining.c)."""
    _write(b"join.state", words)


def _note(words: str) -> None:
    """For the run; `moescope attach` puts it into run.json."""
    import os

    _write(b"auto-%d.note" % os.getpid(), words)


def _load() -> Any:
    import ctypes
    import os

    loaded = ctypes.CDLL(os.fsdecode(library))
    loaded.moescope_run_dir.restype = ctypes.c_char_p
    loaded.moescope_start.argtypes = [ctypes.c_char_p]
    loaded.moescope_info.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
    return loaded


def _give_back_page() -> None:
    """Once the main thread has left the code in it: then a time is there. Otherwise two pages stay."""
    import ctypes
    import time

    left = ctypes.c_int64.from_address(page + _LEFT_AT)
    until = time.monotonic() + _PATIENCE_S
    while not left.value:
        if time.monotonic() > until:
            return
        time.sleep(0.001)
    unmap = ctypes.CDLL(None).munmap
    unmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    unmap(page, _PAGE_BYTES)


def _is_wanted(directory: bytes) -> bool:
    import os

    return os.path.exists(os.path.join(directory, b"join.lock"))


def _start(loaded: Any) -> Optional[str]:
    """Why not, or None."""
    import os
    import time

    until = time.monotonic() + _LEAVING_S
    already = loaded.moescope_run_dir()
    while already and not _is_wanted(already) and time.monotonic() < until:
        time.sleep(0.01)  # the one before us is leaving
        already = loaded.moescope_run_dir()
    if already:
        return f"it records itself already, into {os.fsdecode(already)}"
    status = loaded.moescope_start(run)
    if status < 0:
        return f"recording could not start inside: {os.strerror(-status)}"
    loaded.moescope_info(b"joined", b"the program was already running; what came before is not here")
    return None


def _find_steps() -> Any:
    """Of PyTorch, if it is there; None: it is not, or something failed, which the run then says."""
    import os
    import sys

    if "torch" not in sys.modules:
        return None
    try:
        names = {"__file__": os.path.join(os.path.dirname(os.fsdecode(path)), "own_package.py"),
                 "__name__": "_moescope_own_package"}
        with open(names["__file__"], encoding="utf-8") as file:
            exec(compile(file.read(), names["__file__"], "exec"), names)
        part: Any = names["part"]
        part("_library").chosen = os.fsdecode(library)
        return part("auto.joined").install(_note, steps)
    except Exception as why:
        _note(f"steps and phases of PyTorch are not recorded: {type(why).__name__}: {why}")
        return None


def _join() -> None:
    import os

    if not _is_wanted(run):
        return  # it took too long, and nobody waits any more
    _state("starting")
    if not _is_wanted(run):  # since then: taken back, in case that somebody has read it
        os.unlink(os.path.join(run, b"join.state"))
        return
    loaded = _load()
    why = _start(loaded)
    if why:
        _state("refused " + why)
        return
    program = None
    try:
        program = _find_steps()
        _state("inside")
        loaded.moescope_wait_for_leave()
        if program is not None:
            program.leave()
    finally:
        loaded.moescope_stop()
        if os.path.isdir(run):
            _state("ended")


def _run() -> None:
    _block_signals()
    try:
        if page:
            _give_back_page()
        _join()
    except BaseException as why:
        _state(f"refused because of a fault of moescope; please report it: {type(why).__name__}: {why}")


_run()
