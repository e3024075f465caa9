#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small CUDA programs with known work, through the driver's own interface: driver.py WAY [ARGUMENT]

  contexts   two contexts, a thread with a stream of its own in each
  late       no CUDA for a while, children that come and go, then kernels
  never      no CUDA at all
  fork       kernels, then a forked child without CUDA that ends by itself, then kernels
  fork-exec  the same, and the child becomes another program
  exit N     kernels, then os._exit(N)
  raise      kernels, then an exception
  signal N   kernels, then that signal to itself
Each kernel adds one to every cell; the cells are checked. Prints one JSON object with the number of
kernels launched. Needs no package: PyTorch would load CUDA its own way.
"""
import ctypes
import json
import os
import subprocess
import sys
import threading

KERNELS = 1000
CELLS = 32
PTX = b"""
.version 7.0
.target sm_80
.address_size 64
.visible .entry add_one(.param .u64 cells)
{
	.reg .u64 %address<4>;
	.reg .u32 %value<3>;
	ld.param.u64 %address1, [cells];
	cvta.to.global.u64 %address2, %address1;
	mov.u32 %value1, %tid.x;
	mul.wide.u32 %address3, %value1, 4;
	add.u64 %address2, %address2, %address3;
	ld.global.u32 %value2, [%address2];
	add.u32 %value2, %value2, 1;
	st.global.u32 [%address2], %value2;
	ret;
}
"""


class Cuda:
    """The driver, loaded on first use."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")
        self("cuInit", 0)

    def __call__(self, name, *arguments):
        status = getattr(self.library, name)(*arguments)
        if status != 0:
            sys.exit(f"driver.py: {name} failed with CUDA error {status}")


def work(cuda, context, kernels=KERNELS):
    """Launches that many kernels on a separate stream in this context, and checks their results."""
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    stream, cells = ctypes.c_void_p(), ctypes.c_uint64()
    host = (ctypes.c_uint32 * CELLS)()
    cuda("cuCtxSetCurrent", context)
    cuda("cuModuleLoadData", ctypes.byref(module), PTX)
    cuda("cuModuleGetFunction", ctypes.byref(function), module, b"add_one")
    cuda("cuStreamCreate", ctypes.byref(stream), 1)
    cuda("cuMemAlloc_v2", ctypes.byref(cells), ctypes.c_size_t(4 * CELLS))
    cuda("cuMemsetD32Async", cells, 0, ctypes.c_size_t(CELLS), stream)
    parameters = (ctypes.c_void_p * 1)(ctypes.addressof(cells))
    for _ in range(kernels):
        cuda("cuLaunchKernel", function, 1, 1, 1, CELLS, 1, 1, 0, stream, parameters, None)
    cuda("cuStreamSynchronize", stream)
    cuda("cuMemcpyDtoH_v2", host, cells, ctypes.c_size_t(4 * CELLS))
    if list(host) != [kernels] * CELLS:
        sys.exit(f"driver.py: the cells are {list(host)} after {kernels} kernels")
    return kernels


def primary(cuda):
    context = ctypes.c_void_p()
    cuda("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    return context


def contexts():
    cuda = Cuda()
    second = ctypes.c_void_p()
    cuda("cuCtxCreate_v2", ctypes.byref(second), 0, 0)
    done = []

    def worker(context):
        done.append(work(cuda, context))

    threads = [threading.Thread(target=worker, args=(c,)) for c in (primary(cuda), second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(done) != 2:
        sys.exit("driver.py: a thread failed")
    return sum(done)


def late():
    for _ in range(3):
        subprocess.run(["true"], check=True)
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    cuda = Cuda()
    return work(cuda, primary(cuda))


def forked(becomes_another):
    cuda = Cuda()
    context = primary(cuda)
    n = work(cuda, context)
    pid = os.fork()
    if pid == 0:
        if becomes_another:
            os.execvp("true", ["true"])
        sys.exit(0)  # the long way: exit handlers of everything that is loaded
    _, status = os.waitpid(pid, 0)
    if status != 0:
        sys.exit(f"driver.py: the child ended with {status}")
    return n + work(cuda, context)


def ending(way, argument):
    cuda = Cuda()
    print(json.dumps({"launched": work(cuda, primary(cuda))}), flush=True)
    if way == "exit":
        os._exit(argument)
    if way == "signal":
        os.kill(os.getpid(), argument)
    raise RuntimeError("this program ends so")


def main():
    way = sys.argv[1]
    ways = {"contexts": contexts, "late": late, "never": lambda: 0,
            "fork": lambda: forked(False), "fork-exec": lambda: forked(True)}
    if way in ways:
        print(json.dumps({"launched": ways[way]()}), flush=True)
    elif way in ("exit", "raise", "signal"):
        ending(way, int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    else:
        sys.exit(f"driver.py: unknown way '{way}'\n{__doc__}")


if __name__ == "__main__":
    main()
