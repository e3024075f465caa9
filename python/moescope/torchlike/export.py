# SPDX-License-Identifier: Apache-2.0
"""Trace files: Chrome's format, with the names that TensorBoard's profiler plugin looks for."""
import json
import os
import socket
import time
from typing import Any, Callable, Optional

from .. import _library as lib


def name_run(collector: Any, run: Optional[str]) -> None:
    """Traces of a torch profiler that has not started yet will say which run they belong to."""
    collector.preset_metadata_json("moescope", json.dumps({"version": lib.VERSION, "run": run}))


def write_chrome_trace(collector: Any, path: str) -> None:
    """The window of a torch profiler; the file appears when it is whole."""
    root, ext = (path[:-3], ".gz") if path.endswith(".gz") else (path, "")
    partial = f"{root}.part{ext}"  # torch compresses by the end of the name
    try:
        collector.export_chrome_trace(partial)
        os.replace(partial, path)
    except BaseException:
        if os.path.exists(partial):
            os.unlink(partial)
        raise


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
