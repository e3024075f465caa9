# SPDX-License-Identifier: Apache-2.0
"""The recorder of routing on a device, with a scripted driver in place of one: the C recorder, fed by
models on the CPU, against a recount."""
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("MOESCOPE_BUILD") or ROOT / "build")
DRIVER = BUILD / "tests" / "libfake_recorder_cuda.so"


def test_recorder_counts_models_exactly():
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    if not DRIVER.exists():
        pytest.skip(f"{DRIVER} is not built (no CUDA headers, or no cmocka)")
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "gpu" / "routing_check.py"), "--device", "cpu", "--only",
         "recorder Mixtral,recorder Deepseek,gate,kept"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=120, env=dict(os.environ, MOESCOPE_CUDA=str(DRIVER), MOESCOPE_NVRTC=str(DRIVER),
                              OMP_NUM_THREADS="1"))
    assert done.returncode == 0, done.stdout
    passed = int(done.stdout.splitlines()[-1].split()[0])
    # A family that this transformers lacks, or has without the experts interface, is skipped.
    skipped = sum(line.startswith("skip ") for line in done.stdout.splitlines())
    assert passed + skipped == 4 and passed >= 2, done.stdout


FINDS = """
import ctypes, sys
ctypes.CDLL(sys.argv[1])
from moescope import _library as lib
options, handle = lib.RecorderOptions(layers=1, experts=8, k=2), ctypes.c_void_p()
library = lib.load()
status = library.moescope_recorder_open(ctypes.byref(options), ctypes.byref(handle))
print(status, library.moescope_recorder_words().decode())
"""


def nvrtc_and_runtime():
    """A libnvrtc of a Python package with the runtime that programs load with it, or None."""
    for folder in map(pathlib.Path, sys.path):
        for nvrtc in folder.glob("nvidia/*/lib/libnvrtc.so.1[0-9]*"):
            beside = [*nvrtc.parent.glob("libcudart.so.1?"),
                      *nvrtc.parent.glob("../../cuda_runtime/lib/libcudart.so.1?")]
            if beside:
                return beside[0]
    return None


def test_nvrtc_of_a_python_package_is_found():
    """Beside the CUDA runtime that the program has loaded. The code is real, the driver is not: it
    says that it cannot load it."""
    runtime = nvrtc_and_runtime()
    if runtime is None or not DRIVER.exists():
        pytest.skip("no libnvrtc from a Python package, or no scripted driver")
    env = {k: v for k, v in os.environ.items() if k not in ("MOESCOPE_NVRTC", "LD_LIBRARY_PATH")}
    done = subprocess.run(
        [sys.executable, "-c", FINDS, str(runtime)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, timeout=60, env=dict(env, MOESCOPE_CUDA=str(DRIVER),
                                        PYTHONPATH=str(ROOT / "python")))
    assert "cuModuleLoadData" in done.stdout, done.stdout
