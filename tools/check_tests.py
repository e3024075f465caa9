#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that every test file is run: that tests/meson.build has a test of each.

usage: check_tests.py BUILD, where BUILD is a build with all features
Prints one line for each that is forgotten and exits 1; exits 0 without a word when there is none.
"""
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PATTERNS = ("cli/test_*.py", "lab/test_*.py", "python/**/test_*.py", "unit/test_*.c")
# Beside the test programs, and none themselves; without a GPU's headers there are fewer.
NEEDS_CUDA = ("test_gpu_", "test_recorder_")


def main():
    build = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("MOESCOPE_BUILD", "build")
    described = subprocess.run(["meson", "introspect", "--tests", build], check=True,
                               capture_output=True, text=True).stdout
    known = {pathlib.Path(word).name for test in json.loads(described) for word in test["cmd"]}
    cuda = any(name.startswith(NEEDS_CUDA) for name in known)
    files = [f for pattern in PATTERNS for f in (ROOT / "tests").glob(pattern)]
    files += [f for f in (ROOT / "tests" / "fault").glob("*.py") if f.name != "fault.py"]
    lost = [f for f in sorted(files) if (f.stem if f.suffix == ".c" else f.name) not in known
            and (cuda or not f.name.startswith(NEEDS_CUDA))]
    for file in lost:
        print(f"{file.relative_to(ROOT)}: no test in tests/meson.build runs it")
    sys.exit(1 if lost else 0)


main()
