# SPDX-License-Identifier: Apache-2.0
"""Runs at the start of every Python under `moescope run`: waits for torch, and is gone.

Python imports the first sitecustomize on its path, and this folder is first. So this one removes the
folder from the path and then imports the next one, as Python would have done: its errors, and that
there is none, are Python's own to handle. MOESCOPE_AUTO is set unless `moescope run --no-auto` says
otherwise. Only the standard library, and little of it: a Python without torch pays for all of this.
Any Python may come here, also one that is too old for the package: no syntax of newer ones, so types
are in comments.
"""
# ruff: noqa: F401, UP031
import os
import sys

TYPE_CHECKING = False  # typing's own would have to be imported
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any, Optional

_FOLDER = os.path.dirname(__file__)
_OLDEST = (3, 9)  # of the package


def _note(words):
    # type: (str) -> None
    """For the run, where no library is there to record it. `moescope run` puts it into run.json."""
    try:
        path = os.path.join(os.environ["MOESCOPE_RUN"], "auto-%d.note" % os.getpid())
        with open(path, "a", encoding="utf-8") as file:
            file.write(" ".join(words.split()) + "\n")
    except (OSError, KeyError):
        pass  # there is nowhere left to say it, and the program comes first


def _package():
    # type: () -> Any
    """moescope.auto.program, wherever it is."""
    names = {"__file__": os.path.join(os.path.dirname(_FOLDER), "own_package.py"),
             "__name__": "_moescope_own_package"}  # type: Any
    with open(names["__file__"], encoding="utf-8") as file:
        exec(compile(file.read(), names["__file__"], "exec"), names)
    return names["part"]("auto.program")


def _torch_is_there():
    # type: () -> None
    missing = "steps and phases of PyTorch are not recorded: "
    if sys.version_info < _OLDEST:
        _note(missing + "Python %d.%d is too old; use %d.%d or newer"
              % (sys.version_info[:2] + _OLDEST))
        return
    try:
        _package().install(_note)
    except Exception as why:
        _note("%s%s: %s" % (missing, type(why).__name__, why))


class _Torch:
    """A finder that finds nothing, and is asked first: from it we learn that torch is imported."""

    def find_spec(self, name, path=None, target=None):
        # type: (str, Any, Any) -> Optional[ModuleSpec]
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        from importlib.util import find_spec

        spec = find_spec("torch")
        loader = getattr(spec, "loader", None)  # type: Any
        if loader is None:
            return spec
        run = loader.exec_module

        def exec_module(module):
            # type: (ModuleType) -> None
            del loader.exec_module
            run(module)
            _torch_is_there()

        # In a traceback of torch's own, Python leaves such frames of its import system out.
        exec_module.__code__ = exec_module.__code__.replace(
            co_filename="<frozen importlib._bootstrap>", co_name="_call_with_frames_removed")
        loader.exec_module = exec_module
        return spec


def _begin():
    # type: () -> None
    sys.path[:] = [entry for entry in sys.path if entry != _FOLDER]
    sys.path_importer_cache.pop(_FOLDER, None)
    del sys.modules["sitecustomize"]
    if os.environ.get("MOESCOPE_AUTO") and sys.version_info >= (3, 8):  # code can be changed
        sys.meta_path.insert(0, _Torch())


_begin()
import sitecustomize  # type: ignore[import-not-found] # noqa: E402 - the next one on the path
