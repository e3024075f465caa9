#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that every test file is run: that tests/meson.build has a test for each.

usage: check_tests.py [BUILD [ROOT]]
Prints one line per forgotten file and exits 1; exits 0 silently if there is none.
"""
import json
import os
import pathlib
import subprocess
import sys

PATTERNS = ("browser/test_*.py", "cli/test_*.py", "lab/test_*.py", "python/**/test_*.py", "unit/test_*.c")
# Not built without what they need: the CUDA headers, or an optional library.
NEED = {"test_gpu_": "test_gpu_probe", "test_recorder_": "test_gpu_probe", "test_sql": "test_sql",
        "test_ingest_nsight": "test_sql", "test_ingest_nomem": "test_sql",
        "test_ingest_gunzip": "test_ingest_gunzip", "test_plots": "test_plots"}


def main():
    build = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("MOESCOPE_BUILD", "build")
    root = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else pathlib.Path(__file__).resolve().parent.parent
    described = subprocess.run(["meson", "introspect", "--tests", build], check=True,
                               capture_output=True, text=True).stdout
    known = {pathlib.Path(word).name for test in json.loads(described) for word in test["cmd"]}
    files = [f for pattern in PATTERNS for f in (root / "tests").glob(pattern)]
    files += [f for f in (root / "tests" / "fault").glob("*.py") if f.name != "fault.py"]
    lost = [f for f in sorted(files) if (f.stem if f.suffix == ".c" else f.name) not in known
            and not any(f.name.startswith(start) and other not in known for start, other in NEED.items())]
    for file in lost:
        print(f"{file.relative_to(root)}: no test in tests/meson.build runs it")
    sys.exit(1 if lost else 0)


main()
