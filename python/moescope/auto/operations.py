# SPDX-License-Identifier: Apache-2.0
"""Operations of one step, from torch's collector into the run. Only those of the host: kernels are
recorded by the library.

The collector is torch's older one: the one behind torch.profiler prints lines of its own to the
program's stderr, and opens CUPTI where there is a GPU. The older one knows threads by numbers of its own.
"""
import glob
import threading
import time
from typing import TYPE_CHECKING, Any, Optional

from ..torchlike import into_run

if TYPE_CHECKING:
    from torch.autograd import ProfilerEvent

_HIDDEN = ("profiler::", "aten::is_leaf", "aten::output_nr", "aten::_version", "__")


class Operations:
    def __init__(self) -> None:
        self.on = False
        self.spans: list[into_run.Span] = []  # phases of the step
        self._start_ns = 0

    def start(self) -> None:
        from torch._C._profiler import ProfilerConfig, ProfilerState, _ExperimentalConfig
        from torch.autograd import _enable_profiler_legacy, _profiler_enabled

        if _profiler_enabled():
            return
        self.spans.clear()
        before_ns = time.monotonic_ns()
        # with shapes, no memory, no stacks, with FLOPs, no modules
        _enable_profiler_legacy(ProfilerConfig(ProfilerState.CPU, True, False, False, True, False,
                                               _ExperimentalConfig()))
        self._start_ns = (before_ns + time.monotonic_ns()) // 2
        self.on = True

    def stop(self, write: bool = True) -> None:
        if not self.on:
            return
        from torch.autograd import _disable_profiler_legacy

        self.on = False
        end_ns = time.monotonic_ns()
        threads = _disable_profiler_legacy()
        if write:
            into_run.write_operations(_operations(threads, self._start_ns, end_ns), self.spans)
        self.spans.clear()


def _operations(threads: list[list["ProfilerEvent"]], start_ns: int,
                end_ns: int) -> list[into_run.Operation]:
    start = next(event for events in threads for event in events if event.name() == "__start_profile")
    names = _thread_ids(threads, start)
    found: list[into_run.Operation] = []
    for events in threads:
        thread = names.get(events[0].thread_id()) if events else None
        if thread is None:
            continue
        _add_thread(found, events, thread, start, start_ns, end_ns)
    return found


def _add_thread(found: list[into_run.Operation], events: list["ProfilerEvent"], thread: int,
                start: "ProfilerEvent", start_ns: int, end_ns: int) -> None:
    open_now: list[tuple[int, Any, int]] = []  # handle, event (None: merged with its namesake), time
    before: Optional[str] = None  # what the event before has begun

    def end(event: Optional["ProfilerEvent"], begun_ns: int, ended_ns: int) -> None:
        if event is not None:
            depth = sum(one[1] is not None for one in open_now)
            found.append((event.name(), into_run.shape_text(event.shapes()), thread, depth, begun_ns,
                          max(0, ended_ns - begun_ns), int(event.flops())))

    for event in events:
        name, kind = event.name(), event.kind()
        if name.startswith(_HIDDEN):
            continue
        moment = start_ns + int(start.cpu_elapsed_us(event) * 1000)
        if kind == "push":
            open_now.append((event.handle(), None if name == before else event, moment))
            before = name
        elif kind == "pop":
            before = None
            if open_now and open_now[-1][0] == event.handle():  # else it began before the window
                _, begun, begun_ns = open_now.pop()
                end(begun, begun_ns, moment)
    while open_now:  # the optimizer's own annotation, which ends the step from inside
        _, begun, begun_ns = open_now.pop()
        end(begun, begun_ns, end_ns)


def _thread_ids(threads: list[list["ProfilerEvent"]], start: "ProfilerEvent") -> dict[int, int]:
    """The kernel's numbers for torch's. This thread's is known. Backward passes on a device run on a
    thread that torch names after it. With several devices it is not clear which one is used, as that is
    CUDA's to say: they are left out.
    """
    own = start.thread_id()
    numbers = {own: threading.get_native_id()}
    others = sorted({events[0].thread_id() for events in threads if events} - {own})
    if not others:
        return numbers
    named = []
    for path in glob.glob("/proc/self/task/*/comm"):
        with open(path, encoding="utf-8") as file:
            name = file.read().strip()
        if name.startswith("pt_autograd_"):
            named.append(int(path.split("/")[4]))
    if len(others) == 1 and len(named) == 1:
        numbers[others[0]] = named[0]
    return numbers
