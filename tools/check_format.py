#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the C sources with clang-format. Versions differ in taste; the files follow version 14
(Debian 12), and with another version this is skipped (exit status 77)."""
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("src", "include", "bench", "tests", "examples")
SUFFIXES = (".c", ".h", ".cu", ".cuh")


def main():
    # Distributions with a newer one have this next to it.
    program = shutil.which("clang-format-14") or "clang-format"
    version = subprocess.run([program, "--version"], check=True, capture_output=True,
                             text=True).stdout.strip()
    if " 14." not in version:
        print(f"skip clang-format: wants version 14, this is {version}")
        sys.exit(77)
    files = sorted(f for folder in FOLDERS for f in (ROOT / folder).rglob("*")
                   if f.suffix in SUFFIXES)
    sys.exit(subprocess.run([program, "--dry-run", "-Werror", *files], check=False).returncode)


main()
