# SPDX-License-Identifier: Apache-2.0
"""libmoescope.so through ctypes, and the moescope program next to it.

Loaded on first use, never at import. Search order: MOESCOPE_LIBRARY, a copy already in the process
(`moescope run` sets CUDA_INJECTION64_PATH), the folder `_native` of this package (an installed
wheel), the build folder of a source tree, the system's libraries.
"""
import ctypes
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from ctypes import (
    POINTER,
    Structure,
    c_char_p,
    c_double,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
)
from functools import cache
from typing import Any, Optional

from . import errors
from ._types import Json
from .version import UNKNOWN as UNKNOWN_VERSION
from .version import __version__ as VERSION

NO_PHASE, FORWARD, BACKWARD, OPTIMIZER, DATA, PREFILL, DECODE, RECOMPUTE, EVALUATION = range(9)
OFF, COUNTS, STEPS, TRACE, FULL = range(5)
SLOT_PADDING, SLOT_UNUSED, SLOT_DROPPED = -1, -2, -3
I32, I64, F32, F16, BF16 = range(5)
UNKNOWN = 2**64 - 1
MEMORY_USES = {"other": 0, "parameters": 1, "gradients": 2, "optimizer": 3, "activations": 4,
               "cache": 5}


class Sized(Structure):
    """A structure of moescope.h, whose first field is its own size."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(struct_size=ctypes.sizeof(type(self)), **fields)


class Routing(Sized):
    _fields_ = [("struct_size", c_size_t), ("layer", c_int32), ("phase", c_int),
                ("experts", c_uint32), ("k", c_uint32), ("tokens", c_uint64),
                ("indices", c_void_p), ("weights", c_void_p), ("scores", c_void_p),
                ("mask", c_void_p), ("indices_type", c_int), ("weights_type", c_int),
                ("elsewhere", c_uint32), ("reserved", c_uint32)]


class MoeLayer(Sized):
    _fields_ = [("struct_size", c_size_t), ("layer", c_int32), ("experts", c_uint32),
                ("k", c_uint32), ("hidden", c_uint32), ("inner", c_uint32),
                ("matrices", c_uint32), ("expert_bytes", c_uint64), ("capacity_factor", c_double)]


class Options(Sized):
    _fields_ = [("struct_size", c_size_t), ("level", c_int), ("ring_bytes", c_uint32),
                ("flush_ms", c_uint32)]


class Schedule(Sized):
    _fields_ = [("struct_size", c_size_t), ("skip_first", c_uint32), ("wait", c_uint32),
                ("warmup", c_uint32), ("active", c_uint32), ("repeat", c_uint32),
                ("sample", c_uint32)]


class Stats(Sized):
    _fields_ = [("struct_size", c_size_t), ("recorded", c_uint64), ("dropped", c_uint64),
                ("written_bytes", c_uint64), ("write_errors", c_uint64),
                ("drain_cpu_ns", c_uint64)]


class RecorderOptions(Sized):
    _fields_ = [("struct_size", c_size_t), ("layers", c_uint32), ("experts", c_uint32),
                ("k", c_uint32), ("tokens", c_uint64), ("slots", c_uint32),
                ("weights", c_uint32)]


class DeviceRouting(Sized):
    _fields_ = [("struct_size", c_size_t), ("layer", c_int32), ("phase", c_int),
                ("experts", c_uint32), ("k", c_uint32), ("tokens", c_uint64),
                ("indices", c_void_p), ("indices_type", c_int), ("weights_type", c_int),
                ("weights", c_void_p), ("valid", c_void_p), ("mask", c_void_p),
                ("stream", c_void_p)]


class PastOp(Structure):
    """struct moescope_past_op"""
    _fields_ = [("name", c_uint32), ("shape", c_uint32), ("layer", c_int32), ("expert", c_int32),
                ("phase", c_int), ("thread", c_uint32), ("depth", c_uint32),
                ("start_ns", c_int64), ("duration_ns", c_int64), ("flops", c_uint64),
                ("bytes", c_uint64)]


class PastMemory(Structure):
    """struct moescope_past_memory"""
    _fields_ = [("time_ns", c_int64), ("address", c_uint64), ("bytes", c_uint64),
                ("device", c_int32), ("event", c_int), ("use", c_int), ("site", c_uint32)]


# name: (result, arguments), as in moescope.h
FUNCTIONS = {
    "moescope_start": (c_int, [c_char_p]),
    "moescope_start_with": (c_int, [c_char_p, POINTER(Options)]),
    "moescope_stop": (None, []),
    "moescope_step": (None, [c_uint64]),
    "moescope_step_begin": (None, [c_int64]),
    "moescope_step_guess": (None, [c_int64]),
    "moescope_step_end": (None, [c_uint64]),
    "moescope_step_cancel": (None, []),
    "moescope_current_step": (c_int64, []),
    "moescope_range_push": (None, [c_char_p]),
    "moescope_range_pop": (None, []),
    "moescope_range_begin": (None, [c_uint32, c_int32, c_int32, c_int]),
    "moescope_range_end": (None, []),
    "moescope_op_begin": (None, [c_uint32, c_int32, c_int32, c_uint32]),
    "moescope_op_end": (None, [c_uint64, c_uint64]),
    "moescope_past_ops": (None, [POINTER(PastOp), c_size_t]),
    "moescope_intern": (c_uint32, [c_char_p]),
    "moescope_mark": (None, [c_char_p]),
    "moescope_counter": (None, [c_char_p, c_double]),
    "moescope_route": (None, [POINTER(Routing)]),
    "moescope_routes": (None, [POINTER(Routing), c_size_t]),
    "moescope_moe_layer": (None, [POINTER(MoeLayer)]),
    "moescope_request_begin": (None, [c_uint64, c_uint64]),
    "moescope_token": (None, [c_uint64]),
    "moescope_request_end": (None, [c_uint64]),
    "moescope_alloc": (None, [c_void_p, c_uint64, c_int32, c_int, c_uint32]),
    "moescope_free": (None, [c_void_p, c_int32]),
    "moescope_past_memory": (None, [POINTER(PastMemory), c_size_t]),
    "moescope_device_sample": (None, [c_uint32, c_uint32, c_double]),
    "moescope_info": (None, [c_char_p, c_char_p]),
    "moescope_pause": (None, []),
    "moescope_resume": (None, []),
    "moescope_set_level": (None, [c_int]),
    "moescope_recording": (c_int, []),
    "moescope_set_schedule": (None, [POINTER(Schedule)]),
    "moescope_schedule_records": (c_int, [POINTER(Schedule), c_int64]),
    "moescope_get_stats": (None, [POINTER(Stats)]),
    "moescope_version": (c_char_p, []),
    "moescope_run_dir": (c_char_p, []),
    "moescope_shard": (c_char_p, []),
    "moescope_flush": (c_int, []),
    "moescope_wait_for_leave": (None, []),
    "moescope_leave": (None, []),
    "moescope_recorder_open": (c_int, [POINTER(RecorderOptions), POINTER(c_void_p)]),
    "moescope_recorder_route": (c_int, [c_void_p, POINTER(DeviceRouting)]),
    "moescope_recorder_routes": (c_int, [c_void_p, POINTER(DeviceRouting), c_size_t]),
    "moescope_recorder_lost": (None, [c_void_p, c_uint64]),
    "moescope_recorder_step": (c_int, [c_void_p, c_int64, c_void_p]),
    "moescope_recorder_gate": (c_int, [c_void_p, c_int, c_void_p]),
    "moescope_recorder_flush": (c_int, [c_void_p]),
    "moescope_recorder_close": (None, [c_void_p]),
    "moescope_recorder_words": (c_char_p, []),
}


def _folders() -> Iterator[str]:
    """Folders with a library and a program of the same build, best first."""
    here = os.path.dirname(os.path.abspath(__file__))
    yield os.path.join(here, "_native")
    tree = os.path.dirname(os.path.dirname(here))
    if os.path.exists(os.path.join(tree, "include", "moescope.h")):
        yield os.environ.get("MOESCOPE_BUILD") or os.path.join(tree, "build")


chosen: Optional[str] = None  # the one that is in the process already, if somebody knows it (auto/join.py)


def _candidates() -> list[str]:
    given = chosen or os.environ.get("MOESCOPE_LIBRARY")
    if given:
        return [given]
    injected = os.environ.get("CUDA_INJECTION64_PATH", "")
    found = [injected] if "libmoescope" in injected else []
    found += [os.path.join(folder, "libmoescope.so") for folder in _folders()]
    return [path for path in found if os.path.exists(path)] + ["libmoescope.so"]


@cache
def load() -> Any:
    """The library with its functions typed; always the same object."""
    trouble = []
    for path in _candidates():
        try:
            library = ctypes.CDLL(path)
        except OSError as why:
            trouble.append(str(why))
            continue
        _check(library, path)
        return library
    raise errors.LibraryNotFound(
        "libmoescope.so was not found (" + "; ".join(trouble) + "); install the package with 'pip "
        "install .', or build it with 'make' and set MOESCOPE_LIBRARY to its path")


def _check(library: Any, path: str) -> None:
    missing = []
    for name, (result, arguments) in FUNCTIONS.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            missing.append(name)
            continue
        function.restype, function.argtypes = result, arguments
    version = library.moescope_version().decode() if "moescope_version" not in missing else "unknown"
    if missing or VERSION not in (version, UNKNOWN_VERSION):
        raise errors.LibraryMismatch(
            f"{path} is version {version}, this package is {VERSION}"
            + (f", and it lacks {missing[0]}" if missing else "")
            + "; install both from one source, or unset MOESCOPE_LIBRARY")


def short_calls(library: Any) -> Any:
    """The same library for calls that never wait: Python's lock is kept, which another thread would
    otherwise take and hold for milliseconds."""
    calls = ctypes.PyDLL(library._name, handle=library._handle)
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(calls, name)
        function.restype, function.argtypes = result, arguments
    return calls


def tool_path() -> str:
    """The moescope program of the same build as the library."""
    given = os.environ.get("MOESCOPE_TOOL")
    for path in [given] if given else [os.path.join(f, "moescope") for f in _folders()]:
        if os.path.exists(path):
            return path
    found = None if given else shutil.which("moescope")
    if not found:
        raise errors.LibraryNotFound(
            "the moescope program was not found; install the package with 'pip install .', or set "
            "MOESCOPE_TOOL to its path")
    return found


def run_tool(*words: str) -> str:
    """Its standard output; a failure is a ToolError with its message."""
    done = subprocess.run([tool_path(), *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise errors.ToolError(done.stderr.strip() or f"moescope {words[0]}: status "
                               f"{done.returncode}")
    return done.stdout


def table(command: str, run: str, *options: str) -> Json:
    """`moescope COMMAND RUN --json` as a dictionary."""
    found: Json = json.loads(run_tool(command, run, "--json", *options))
    return found


def encoded(path: Optional[str]) -> Optional[bytes]:
    """A path encoded for C."""
    if path is None:
        return None
    name = os.fsencode(path)
    if b"\0" in name:
        raise ValueError(f"the path {path!r} has a zero byte in it; choose another")
    return name
