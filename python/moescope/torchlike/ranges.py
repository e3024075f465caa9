# SPDX-License-Identifier: Apache-2.0
"""record_function: a range of the run that other torch profilers see too."""
import contextlib
import sys
import time
from typing import Any, Optional

from .. import _library as lib
from .. import api

# Names that are both ranges of the run and annotations of torch.
annotated: set[str] = set()


class Range:
    """One open range: in the run, and as an annotation for other torch profilers.

    Begin and end may be in different functions (hooks, callbacks) of one thread.
    """

    def __init__(self, name: str, phase: Optional[str] = None, args: Optional[str] = None,
                 annotate: bool = True, spans: Optional[list[Any]] = None) -> None:
        self.name, self.phase, self.args, self.annotate = name, phase, args, annotate
        self._spans, self._start = spans, 0  # receives (start, end, phase) at the end
        self._annotation: Any = None

    def begin(self) -> "Range":
        torch = sys.modules.get("torch")
        if torch is not None and self.annotate:
            self._annotation = torch.profiler.record_function(self.name, self.args)
            self._annotation.__enter__()
            annotated.add(self.name)
        self._start = time.monotonic_ns()
        lib.load().moescope_range_begin(api.intern(self.name), -1, -1, api.PHASES[self.phase])
        return self

    def end(self) -> None:
        lib.load().moescope_range_end()
        if self._spans is not None:
            self._spans.append((self._start, time.monotonic_ns(), api.PHASES[self.phase]))
        if self._annotation is not None:
            self._annotation.__exit__(None, None, None)
            self._annotation = None


class record_function(contextlib.ContextDecorator):
    """A named range, as a context manager or a decorator; the same as torch.profiler's."""

    def __init__(self, name: str, args: Optional[str] = None) -> None:
        self.name, self.args = name, args
        self._open: list[Any] = []

    def _recreate_cm(self) -> "record_function":
        return type(self)(self.name, self.args)  # calls of a decorated function may overlap

    def __enter__(self) -> "record_function":
        self._open.append(Range(self.name, args=self.args).begin())
        return self

    def __exit__(self, *exception: object) -> None:
        self._open.pop().end()
