# SPDX-License-Identifier: Apache-2.0
"""A CUDA device that is not there: the scripted driver of the C tests runs the recorder's kernels on
the host, every tensor says that it lies on cuda:0, and torch.cuda answers from here. What the package
does for a device then runs from the hooks to the run's file.

Launches run at once, on the thread that makes them: what is written over before a launch is wrong."""
import contextlib
import ctypes
import os
import pathlib

import pytest
import torch

from moescope.routing import device as routing_device

BUILD = pathlib.Path(os.environ.get("MOESCOPE_BUILD")
                     or pathlib.Path(__file__).resolve().parents[2] / "build")
DRIVER = BUILD / "tests" / "libfake_recorder_cuda.so"


class Driver(ctypes.Structure):
    """struct fake_recorder_cuda"""
    _fields_ = [(name, ctypes.CFUNCTYPE(result, *arguments)) for name, result, arguments in (
        ("set_context", None, [ctypes.c_bool]), ("other_context", None, []),
        ("fail_call", None, [ctypes.c_char_p, ctypes.c_int]), ("hold", None, [ctypes.c_bool]),
        ("capture", None, [ctypes.c_bool]), ("replay", None, []), ("defer", None, []),
        ("live", ctypes.c_uint, []), ("calls", ctypes.c_uint, []),
        ("launches", ctypes.c_uint, []))]


class Stream:
    def __init__(self, cuda, raw):
        self.cuda, self.cuda_stream = cuda, raw

    def wait_stream(self, other):
        self.cuda.waits.append((self.cuda_stream, other.cuda_stream))


class Event:
    def __init__(self, **_options):
        pass

    def record(self):
        pass

    def synchronize(self):
        pass

    def elapsed_time(self, _last):
        return 1.0


class Answer:
    """Memory of the host that the device writes into, when it comes to it."""

    def __init__(self, cuda):
        self.cuda, self.value = cuda, 0

    def fill_(self, value):
        self.value = value

    def copy_(self, value, non_blocking):
        assert non_blocking and self.value == routing_device.Trial.UNKNOWN
        self.cuda.asked += 1
        self.coming = int(value)
        if not self.cuda.slow:
            self.value = self.coming

    def __int__(self):
        if not self.cuda.slow:
            self.value = self.coming
        return self.value


class Cuda:
    """What a test says and sees of the device."""

    def __init__(self, driver):
        self.driver = driver
        self.raw, self.capturing = 7, False
        self.slow = False  # answers do not come
        self.asked = 0
        self.waits = []  # (stream, the one it waits for)

    def launches(self, work):
        before = self.driver.launches()
        work()
        return self.driver.launches() - before

    @contextlib.contextmanager
    def stream(self, stream):
        raw, self.raw = self.raw, getattr(stream, "cuda_stream", stream)
        yield
        self.raw = raw

    @contextlib.contextmanager
    def graph(self):
        self.capturing = True
        self.driver.capture(True)
        yield
        self.driver.capture(False)
        self.capturing = False


def without(function, *names):
    return lambda *args, **options: function(*args, **{key: value for key, value in options.items()
                                                       if key not in names})


@pytest.fixture
def cuda(monkeypatch):
    if torch.cuda.is_available() or not DRIVER.exists():
        pytest.skip(f"there is a device, or {DRIVER} is not built")
    monkeypatch.setenv("MOESCOPE_CUDA", str(DRIVER))
    monkeypatch.setenv("MOESCOPE_NVRTC", str(DRIVER))
    made = Cuda(Driver.in_dll(ctypes.CDLL(str(DRIVER)), "fake_recorder_cuda"))
    place = torch.device("cuda", 0)
    to = torch.Tensor.to
    for name, value in (("device", property(lambda _tensor: place)), ("get_device", lambda _tensor: 0),
                        ("is_cpu", property(lambda _tensor: False)),
                        ("to", lambda tensor, *args, **options: to(
                            tensor, *[a for a in args if a != place] or [tensor.dtype], **options))):
        monkeypatch.setattr(torch.Tensor, name, value)
    monkeypatch.setattr(torch, "zeros", without(torch.zeros, "device", "pin_memory"))
    for name, value in (("device", lambda _device: contextlib.nullcontext()), ("Event", Event),
                        ("current_stream", lambda _device=None: Stream(made, made.raw)),
                        ("stream", made.stream), ("synchronize", lambda _device=None: None),
                        ("memory_stats_as_nested_dict", lambda _device: {}),
                        ("is_current_stream_capturing", lambda: made.capturing)):
        monkeypatch.setattr(torch.cuda, name, value)
    for name, value in (("_raw_stream", lambda _index: made.raw), ("_current_device", lambda: 0),
                        ("_capturing", lambda: made.capturing),
                        ("_answer_place", lambda: Answer(made))):
        monkeypatch.setattr(routing_device, name, value)
    yield made
    made.driver.fail_call(None, 0)
