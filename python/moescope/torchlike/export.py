# SPDX-License-Identifier: Apache-2.0
"""Trace files: Chrome's format, with the names that TensorBoard's profiler plugin looks for."""
import gzip
import json
import os
import shutil
import socket
import time
from typing import TYPE_CHECKING, Any, Callable, Optional

from .. import errors
from ..version import __version__

if TYPE_CHECKING:
    from torch.profiler import profile as TorchProfile


def name_run(collector: "TorchProfile", run: Optional[str]) -> None:
    """Traces of a torch profiler that has not started yet will name the run they belong to."""
    text = json.dumps({"version": __version__, "run": run}, ensure_ascii=False)
    if "\\" in text:  # a path is right or absent
        text = json.dumps({"version": __version__, "run": None})
    collector.preset_metadata_json("moescope", text)


def json_for_torch(text: str) -> str:
    """The same JSON without backslashes: torch writes a slash for each, and the file would be
    invalid. Quotes inside strings become single quotes, backslashes slashes, control characters
    spaces."""
    def plain(value: Any) -> Any:
        if isinstance(value, str):
            marks = value.replace('"', "'").replace("\\", "/")
            return "".join(" " if c < " " or c == "\x7f" else c for c in marks)
        if isinstance(value, list):
            return [plain(one) for one in value]
        if isinstance(value, dict):
            return {plain(key): plain(one) for key, one in value.items()}
        return value
    return json.dumps(plain(json.loads(text)), ensure_ascii=False)


class TraceFile:
    """The trace of one window. torch returns it once; later files are copies of the first."""

    def __init__(self, collector: "TorchProfile") -> None:
        self._collector = collector
        self._first: Optional[str] = None

    def write(self, path: str) -> None:
        """Compressed if the name ends with .gz. The file appears when it is complete."""
        root, end = (path[:-3], ".gz") if path.endswith(".gz") else (path, "")
        partial = f"{root}.part{end}"  # torch compresses by file suffix
        try:
            if self._first is None:
                self._collector.export_chrome_trace(partial)
            else:
                self._copy(partial)
            os.replace(partial, path)
        except BaseException:
            if os.path.exists(partial):
                os.unlink(partial)
            raise
        self._first = self._first or os.path.abspath(path)

    def _copy(self, path: str) -> None:
        if self._first is None or not os.path.exists(self._first):
            raise errors.NotCaptured(f"the trace of this window was in {self._first} and is "
                                     "gone from there; torch has no second copy: keep that file")
        with _open(self._first, "rb") as source, _open(path, "wb") as target:
            shutil.copyfileobj(source, target)


def _open(path: str, mode: str) -> Any:
    return gzip.open(path, mode) if path.endswith(".gz") else open(path, mode)


def tensorboard_trace_handler(dir_name: str, worker_name: Optional[str] = None,
                              use_gzip: bool = False) -> Callable[[Any], None]:
    """For on_trace_ready: each window becomes DIR/WORKER.TIME.pt.trace.json, or .json.gz.

    `worker_name` must differ between processes; it is HOST_PID unless given."""
    def handle(profiler: Any) -> None:
        os.makedirs(dir_name, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        name = f"{worker}.{time.time_ns()}.pt.trace.json" + (".gz" if use_gzip else "")
        profiler.export_chrome_trace(os.path.join(dir_name, name))
    return handle
