# SPDX-License-Identifier: Apache-2.0
"""Operations of one step, from torch's collector into the run. Only those of the host: kernels are
recorded by the library."""
from typing import Any, Optional

from ..torchlike import into_run


class Operations:
    def __init__(self) -> None:
        self._collector: Any = None
        self.spans: list[into_run.Span] = []  # phases of the step
        self.switching = False  # torch's profiler is called by us

    @property
    def on(self) -> bool:
        return self._collector is not None

    def start(self) -> None:
        from torch.autograd import _profiler_enabled
        from torch.autograd.profiler import profile

        if _profiler_enabled():
            return
        self.spans.clear()
        self.switching = True
        try:
            collector = profile(use_kineto=True)
            collector.__enter__()
            self._collector = collector
        finally:
            self.switching = False

    def stop(self, write: bool) -> None:
        collector, self._collector = self._collector, None
        if collector is None:
            return
        self.switching = True
        try:
            collector.__exit__(None, None, None)
        finally:
            self.switching = False
        results: Optional[Any] = collector.kineto_results
        if write and results is not None:
            into_run.write(results.events(), set(), self.spans)
        self.spans.clear()
