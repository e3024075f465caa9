# SPDX-License-Identifier: Apache-2.0
"""The Python examples run as their page says."""
import os
import subprocess
import sys

import pytest

from moescope import _library

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def test_routing(tmp_path):
    pytest.importorskip("transformers")
    run = str(tmp_path / "a.mscope")
    done = subprocess.run([sys.executable, os.path.join(ROOT, "examples", "pytorch", "routing.py"),
                           "--run", run, "--tokens", "6"], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": os.path.join(ROOT, "python")})
    assert done.returncode == 0, done.stderr
    assert "layer_3" in done.stdout
    rows = _library.table("routing", run)["rows"]
    prefill = [row for row in rows if row["phase"] == "prefill"]
    decode = [row for row in rows if row["phase"] == "decode"]
    assert [row["assignments"] for row in prefill] == [4 * 64 * 2] * 4
    assert [row["assignments"] for row in decode] == [4 * 5 * 2] * 4
