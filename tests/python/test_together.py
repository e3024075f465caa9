# SPDX-License-Identifier: Apache-2.0
"""What runs these files side by side: it loses no failure, however a file ends."""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
FILES = {
    "good": "def test_a(): pass\ndef test_b(): pass\n",
    "bad": "def test_a(): pass\ndef test_b(): assert 1 == 2\n",
    "killed": "import os\ndef test_a(): os.kill(os.getpid(), 9)\n",
    "late": "import atexit, os\ndef test_a(): atexit.register(os._exit, 3)\n",
    "broken": "import no_such_module\n",
    "away": "import pytest\npytest.skip('not here', allow_module_level=True)\n",
}


def together(folder, *names):
    paths = [folder / f"test_{name}.py" for name in names]
    for name, path in zip(names, paths):
        path.write_text(FILES[name])
    for heavy in ("torch.py", "transformers.py"):  # nothing to load
        (folder / heavy).touch()
    done = subprocess.run([sys.executable, os.path.join(HERE, "together.py"), *map(str, paths)],
                          env=dict(os.environ, PYTHONPATH=f"{folder}:{HERE}", PYTEST_PLUGINS="conftest"),
                          capture_output=True, text=True)
    return done.returncode, sorted(line for line in done.stdout.splitlines()
                                   if line.startswith(("ok ", "FAIL ", "skip ")))


def test_files_that_pass(tmp_path):
    status, lines = together(tmp_path, "good", "away")
    assert status == 0
    assert lines[:2] == ["ok good: test_a", "ok good: test_b"]
    assert len(lines) == 3 and lines[2].startswith("skip away: ") and "not here" in lines[2]


def test_each_way_to_fail_counts_once(tmp_path):
    status, lines = together(tmp_path, *FILES)
    assert status == 1
    failed = [line for line in lines if line.startswith("FAIL ")]
    assert [line.split(":")[0] for line in failed] == ["FAIL bad", "FAIL broken", "FAIL killed", "FAIL late"]
    assert failed[0] == "FAIL bad: test_b"
    assert failed[2:] == ["FAIL killed: exit status -9", "FAIL late: exit status 3"]
