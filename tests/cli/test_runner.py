#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tools that run the tests: what they count, which files they miss, what clang-tidy remembers."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

from cli import MOESCOPE, Skip, check, equal, main, test

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import run_tests  # noqa: E402

BUILD = os.path.dirname(MOESCOPE)


def counted(output, result="OK", name="moescope:unit+unit_sql / test_sql", errors=""):
    layer = run_tests.Layer("unit", None, [])
    layer.count({"name": name, "stdout": output, "stderr": errors, "result": result,
                 "returncode": result != "OK", "duration": 1.0})
    return layer


@test
def lines_of_programs_are_counted():
    layer = counted("[       OK ] a\n[  SKIPPED ] b\nok c\nok d: with words\nskip e: why\nnot ok f\n")
    equal((layer.passed, layer.failed, layer.skipped),
          (3, [], ["unit test_sql: b", "unit test_sql: e: why"]))


@test
def a_failure_counts_once():
    """cmocka names it when it happens and again at the end."""
    layer = counted("[  FAILED  ] a\n[       OK ] b\n[  SKIPPED ] c\n", "FAIL",
                    errors="0x1 != 0x2\n[  SKIPPED ] c\n[  FAILED  ] a\n")
    equal((layer.passed, layer.failed, layer.skipped),
          (1, ["unit test_sql: a"], ["unit test_sql: c"]))
    check("0x1 != 0x2" in "".join(layer.output), layer.output)


@test
def what_ends_without_a_word_has_failed():
    equal(counted("ok a\n", "FAIL").failed, ["unit test_sql: FAIL, exit status True"])
    equal(counted("", "TIMEOUT").failed, ["unit test_sql: TIMEOUT, exit status True"])
    equal(counted("").failed, ["unit test_sql: ran no test"])
    equal(counted("FAIL a: why\n").failed, ["unit test_sql: a: why"])


@test
def a_check_is_one_test():
    layer = counted("3 inputs\n", name="moescope:replay / replay_csv")
    equal((layer.passed, layer.failed), (1, []))
    layer = counted("", "FAIL", name="moescope:lint / lint_locks")
    equal((layer.passed, len(layer.failed)), (0, 1))


@test
def a_forgotten_test_is_found():
    for folder, name in (("cli", "test_sql.py"), ("cli", "test_lost.py"), ("unit", "test_lost.c"),
                         ("python/deep", "test_lost.py"), ("fault", "lost.py")):
        os.makedirs(f"tests/{folder}", exist_ok=True)
        pathlib.Path("tests", folder, name).touch()
    done = subprocess.run([sys.executable, ROOT / "tools" / "check_tests.py", BUILD, "."], text=True,
                          capture_output=True, check=False)
    equal(done.returncode, 1, done)
    equal([line.split(":")[0] for line in done.stdout.splitlines()],
          ["tests/cli/test_lost.py", "tests/fault/lost.py", "tests/python/deep/test_lost.py",
           "tests/unit/test_lost.c"])


def tidy():
    return subprocess.run([sys.executable, ROOT / "tools" / "check_tidy.py", ".", "a.c"], text=True,
                          capture_output=True, check=False)


@test
def clang_tidy_remembers_what_was_clean():
    if not shutil.which("clang-tidy"):
        raise Skip("clang-tidy is not installed")
    shutil.copy(ROOT / ".clang-tidy", ".")
    source, header = pathlib.Path("a.c"), pathlib.Path("a.h")
    header.write_text("#define OTHER 1\n")
    source.write_text('#include "a.h"\nint f(int x);\nint f(int x)\n{\n#if OTHER\n\treturn x == 1;\n'
                      "#else\n\treturn x == x; /* as asked */\n#endif\n}\n")
    pathlib.Path("compile_commands.json").write_text(json.dumps([
        {"directory": os.getcwd(), "file": "a.c", "command": "cc -I. -c a.c", "output": "a.o"}]))
    for before in (0, 1):
        done = tidy()
        equal(done.returncode, 0, done)
        check(f"1 files, {before} of them clean before" in done.stdout, done)
    # The same file with another header is another text; what was found is found again.
    header.write_text("#define OTHER 0\n")
    for _ in range(2):
        done = tidy()
        equal(done.returncode, 1, done)
        check("misc-redundant-expression" in done.stdout, done)
    # A comment may ask for silence, so it is part of the text.
    loud = source.read_text()
    source.write_text(loud.replace("as asked", "NOLINT"))
    equal(tidy().returncode, 0)
    source.write_text(loud)
    equal(tidy().returncode, 1)


if __name__ == "__main__":
    main()
