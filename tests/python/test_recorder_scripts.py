# SPDX-License-Identifier: Apache-2.0
"""The checks of routing on a device, with a scripted driver in place of one: the C recorder, fed by
models of five families on the CPU, against a recount."""
import os
import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("MOESCOPE_BUILD") or ROOT / "build")
DRIVER = BUILD / "tests" / "libfake_recorder_cuda.so"


def test_recorder_counts_models_exactly():
    if not DRIVER.exists():
        pytest.skip(f"{DRIVER} is not built (no CUDA headers, or no cmocka)")
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "gpu" / "routing_check.py"), "--device", "cpu", "--only",
         "recorder,gate,kept"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=120, env=dict(os.environ, MOESCOPE_CUDA=str(DRIVER), MOESCOPE_NVRTC=str(DRIVER),
                              OMP_NUM_THREADS="1"))
    assert done.returncode == 0, done.stdout
    passed = int(done.stdout.splitlines()[-1].split()[0])
    # A family that this transformers lacks, or has without the experts interface, is no check.
    skipped = sum(line.startswith("skip ") for line in done.stdout.splitlines())
    assert passed + skipped == 7 and passed >= 2, done.stdout
