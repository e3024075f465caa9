#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks python/moescope with ruff and mypy, as pyproject.toml sets them up."""
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def main():
    folder = pathlib.Path(subprocess.run([ROOT / "tools" / "python_env.sh", "lint"], check=True,
                                         stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1])
    build = pathlib.Path(os.environ.get("MOESCOPE_BUILD", ROOT / "build"))
    commands = (["ruff", "check", "--quiet", "--no-cache", "--output-format", "concise", "python/moescope"],
                ["mypy", "--no-error-summary", "--cache-dir", str(build / "mypy")])
    env = {**os.environ, "PYTHONPATH": str(folder), "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
    sys.exit(max(subprocess.run([sys.executable, "-m", *command], cwd=ROOT, env=env,
                                check=False).returncode for command in commands))


main()
