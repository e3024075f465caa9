# SPDX-License-Identifier: Apache-2.0
"""Runs test files side by side, each under pytest in a process of its own that has PyTorch and
transformers loaded already: together.py FILE... Loading them is half of what many files cost, and is
done once. Prints what each file printed when it is done, its results as 'ok FILE: TEST', and exits 1
when one failed."""
import os
import pathlib
import re
import sys
import tempfile

import pytest

for heavy in ("torch._dynamo", "transformers.models.mixtral.modeling_mixtral"):
    try:
        __import__(heavy)
    except ImportError:
        pass  # the files that need it say so

JOBS = (os.cpu_count() or 2) + 1
RESULT = re.compile(r"^(ok|FAIL|skip) ", re.M)


def print_results(path, status, out):
    out.seek(0)
    text = out.read().decode(errors="replace")
    name = pathlib.Path(path).stem.removeprefix("test_")
    print(RESULT.sub(rf"\1 {name}: ", text), end="")
    if status and "FAIL" not in RESULT.findall(text):
        print(f"FAIL {name}: exit status {status}")
    sys.stdout.flush()


def fork(path):
    """(PID, None) in this process; (0, pytest's status) in the new one, when the file is done."""
    out = tempfile.TemporaryFile()
    pid = os.fork()
    if pid == 0:
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
        return 0, int(pytest.main(["-q", "-p", "no:cacheprovider", "--tb=short", "--lines", path]))
    return pid, out


def main():
    waiting, running, failed = sys.argv[1:], {}, 0
    while waiting or running:
        if waiting and len(running) < JOBS:
            path = waiting.pop(0)
            pid, result = fork(path)
            if pid == 0:
                return result
            running[pid] = path, result
            continue
        pid, status = os.wait()
        path, out = running.pop(pid)
        print_results(path, os.waitstatus_to_exitcode(status), out)
        failed += status != 0
    return 1 if failed else 0


# The end of a process is what it is without this: handlers and destructors run.
sys.exit(main())
