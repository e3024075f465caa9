# SPDX-License-Identifier: Apache-2.0
"""The package as pip makes it: library and tool inside, found from anywhere."""
import os
import subprocess
import sys

import pytest

import moescope

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with the installed package, and the environment that sees it alone."""
    pytest.importorskip("mesonpy")
    folder = tmp_path_factory.mktemp("site")
    env = {k: v for k, v in os.environ.items() if not k.startswith(("MOESCOPE_", "PYTHON"))}
    env["PATH"] = os.path.dirname(sys.executable) + os.pathsep + env["PATH"]
    done = subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-build-isolation",
                           "--no-deps", "--disable-pip-version-check", "--target", folder, ROOT],
                          capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return folder, {**env, "PYTHONPATH": str(folder)}


def run(installed, *words):
    folder, env = installed
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, env=env,
                          cwd=folder.parent)


def test_library_and_tool_are_inside(installed):
    done = run(installed, "-c", "from moescope import _library as l; l.load(); "
               "print(l.load()._name); print(l.tool_path())")
    assert done.returncode == 0, done.stderr
    for path in done.stdout.split():
        assert path.startswith(str(installed[0])) and "_native" in path


def test_the_program(installed):
    shown = run(installed, "-m", "moescope", "--version").stdout
    metadata = run(installed, "-c", "import importlib.metadata as m, moescope; "
                   "print(m.version('moescope'), moescope.__version__)").stdout
    assert metadata == f"{moescope.__version__} {moescope.__version__}\n"
    assert shown == f"moescope {moescope.__version__}\n"


def test_a_program_under_it(installed, tmp_path):
    code = "import moescope; moescope.start(); moescope.step(); moescope.step(5)"
    done = run(installed, "-m", "moescope", "run", "-q", "-o", str(tmp_path / "a.mscope"), "--",
               sys.executable, "-c", code)
    assert done.returncode == 0, done.stderr
    table = run(installed, "-m", "moescope", "steps", str(tmp_path / "a.mscope"), "--csv")
    assert ",5," in table.stdout, table.stdout + table.stderr
