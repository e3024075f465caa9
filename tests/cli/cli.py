# SPDX-License-Identifier: Apache-2.0
"""The small harness of the command-line tests.

A test is a function decorated with @test. It runs in an empty temporary directory, and fails by
raising. main() runs them all, prints "ok NAME", "skip NAME: why" or "FAIL NAME: why", and exits
with 1 when one failed. MOESCOPE names the program under test.
"""

import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import traceback

MOESCOPE = os.path.abspath(os.environ.get("MOESCOPE", "build/moescope"))
TINYMOE = os.path.join(os.path.dirname(MOESCOPE), "tinymoe")
# A model that trains in a blink.
TINY = ["--layers", "2", "--width", "16", "--heads", "2", "--experts", "4", "--top-k", "2",
        "--expert-width", "16", "--batch", "2", "--context", "16", "--threads", "1"]

# For a program that hangs. On a busy machine all take long, so that less would say nothing.
PATIENCE_S = 600
# Verdicts on what other programs do to this one: true of any machine that is shared.
OF_OTHERS = {"host-neighbours", "host-stolen"}

_tests = []


class Skip(Exception):
    pass


def test(function):
    _tests.append(function)
    return function


def environment(**changes):
    """The environment of a user with a UTF-8 locale; None removes a variable."""
    env = {k: v for k, v in os.environ.items()
           if not k.startswith("MOESCOPE") and k not in ("NO_COLOR", "COLUMNS", "LINES")}
    env["LC_ALL"] = "C.UTF-8"
    for key, value in changes.items():
        if value is None:
            env.pop(key, None)
        else:
            env[key] = str(value)
    return env


class Result:
    def __init__(self, process):
        self.status = process.returncode
        self.out = process.stdout
        self.err = process.stderr

    def __repr__(self):
        return f"status {self.status}\nstdout: {self.out!r}\nstderr: {self.err!r}"


def moescope(*args, stdin=None, env=None, timeout=PATIENCE_S, cpu_s=None, **kwargs):
    """cpu_s: it must not compute longer than that, whatever else the machine does."""
    if cpu_s:
        kwargs["preexec_fn"] = lambda: resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
    return Result(subprocess.run([MOESCOPE, *map(str, args)], input=stdin, text=True,
                                 stdout=kwargs.pop("stdout", subprocess.PIPE),
                                 stderr=subprocess.PIPE, timeout=timeout,
                                 stdin=None if stdin is not None else subprocess.DEVNULL,
                                 env=env or environment(), check=False, **kwargs))


def check(condition, *context):
    if not condition:
        raise AssertionError("; ".join(str(c) for c in context) or "condition is false")


def equal(got, wanted, *context):
    check(got == wanted, f"got {got!r}, wanted {wanted!r}", *context)


def one_sentence(result, status, *words):
    """A failure as users should see it: the status, nothing on stdout, one line on stderr."""
    equal(result.status, status, result)
    equal(result.out or "", "", result)
    lines = result.err.splitlines()
    equal(len(lines), 1, result)
    check(lines[0].startswith("moescope: "), result)
    for word in words:
        check(word in lines[0], f"no {word!r} in {lines[0]!r}")


def purposes():
    """The overview: the title of each group, and its commands with their summaries."""
    text = moescope("--help").out.split("\noptions:\n")[0]
    return {title: re.findall(r"^  (\w+) +(\S.*)$", lines, re.M)
            for title, lines in re.findall(r"^(\w[\w ,]*):\n((?:  .*\n)+)", text, re.M)}


def commands():
    return [name for group in purposes().values() for name, _ in group]


def need(path):
    if not os.path.exists(path):
        raise Skip(f"{path} is not built")


def record(name="a.mscope", steps=6, *options):
    """A real run, of the embedded model."""
    need(TINYMOE)
    r = moescope("run", "-q", "-o", name, *options, "--", TINYMOE, *TINY, "--steps", steps)
    equal(r.status, 0, r)
    return name


def as_in_source(name, known=()):
    """A C++ symbol by binutils, in whole where it was cut from one that is known; other names as they are."""
    if not name.startswith("_Z"):
        return name
    whole = next((symbol for symbol in known if symbol.startswith(name)), name)
    return subprocess.run(["c++filt", "-r", whole], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def main():
    wanted = sys.argv[1:]
    failed = 0
    start = os.getcwd()
    if not os.access(MOESCOPE, os.X_OK):
        print(f"FAIL setup: {MOESCOPE} is not there; set MOESCOPE to the program to test")
        sys.exit(1)
    for function in _tests:
        name = function.__name__
        if wanted and name not in wanted:
            continue
        directory = tempfile.mkdtemp(prefix="moescope-cli-")
        os.chdir(directory)
        try:
            function()
            print(f"ok {name}", flush=True)
        except Skip as reason:
            print(f"skip {name}: {reason}", flush=True)
        except Exception as failure:  # pylint: disable=broad-except
            failed += 1
            place = traceback.extract_tb(failure.__traceback__)
            line = next((f.lineno for f in reversed(place)
                         if pathlib.Path(f.filename).name != "cli.py"), 0)
            print(f"FAIL {name}: line {line}: {type(failure).__name__}: {failure}", flush=True)
        finally:
            os.chdir(start)
            shutil.rmtree(directory, ignore_errors=True)
    sys.exit(1 if failed else 0)
