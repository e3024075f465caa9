# SPDX-License-Identifier: Apache-2.0
"""Programs under moescope run --stacks, and what is told of them."""

import glob
import json
import os
import pathlib
import shutil
import subprocess
import sys

from cli import Skip, check, equal, moescope


def version(python):
    r = subprocess.run([python, "-c", "import sys; print(*sys.version_info[:2])"], text=True,
                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    return tuple(map(int, r.stdout.split())) if r.returncode == 0 else None


def pythons():
    """Each that stacks are known of, once: path and version."""
    candidates = [sys.executable, "/usr/bin/python3"]
    for minor in range(9, 15):
        candidates += glob.glob(os.path.expanduser(f"~/.pyenv/versions/3.{minor}[.-]*/bin/python3"))
        candidates += [shutil.which(f"python3.{minor}{without_lock}") or "" for without_lock in ("", "t")]
    found = {os.path.realpath(p): p for p in candidates if os.access(p, os.X_OK)}
    known = [(path, version(path)) for path in found]
    known = [(path, v) for path, v in known if v and (3, 9) <= v <= (3, 14)]
    if not known:
        raise Skip("no Python from 3.9 to 3.14 is here")
    return known


def has_lock(python):
    """The global one, unless it is asked for (PYTHON_GIL=1)."""
    return not os.path.realpath(python).endswith("t")


def any_python():
    return pythons()[0][0]


def write(name, text):
    pathlib.Path(name).write_text(text, encoding="utf-8")
    return name


def stacks(run, *options):
    r = moescope("stacks", run, "--json", *options)
    equal(r.status, 0, r)
    return json.loads(r.out)


def record_stacks(*words, status=0, name="a.mscope"):
    """What the program printed."""
    r = moescope("run", "--stacks", "-q", "-f", "-o", name, "--", *words)
    equal(r.status, status, r)
    check("left out" not in r.err and "not all" not in r.err, r.err)  # before somebody wonders where they are
    return r.out
