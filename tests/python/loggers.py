# SPDX-License-Identifier: Apache-2.0
"""The packages of loggers.txt, for tests that need them."""
import functools
import os
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@functools.cache
def folder():
    """Where they are, or ""."""
    made = subprocess.run([os.path.join(ROOT, "tools", "python_env.sh"), "loggers"], text=True,
                          stdout=subprocess.PIPE)
    return made.stdout.splitlines()[-1] if made.returncode == 0 else ""


def need(name):
    """The module of this name, behind what is installed anyway; skips where it cannot be installed."""
    if folder() and folder() not in sys.path:
        sys.path.append(folder())
    return pytest.importorskip(name, reason=f"tools/python_env.sh loggers could not install {name}")
