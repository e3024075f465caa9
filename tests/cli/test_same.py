# SPDX-License-Identifier: Apache-2.0
"""tools/same.py finds what differs between two builds and nothing else; tools/check_symbols.py finds
circles of folders."""

import atexit
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from cli import MOESCOPE, PATIENCE_S, check, environment, equal, main, need, test

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(MOESCOPE).parent
sys.path.insert(0, str(ROOT / "tools"))
import same  # noqa: E402
import same_bench  # noqa: E402

# What of all cases these tests try: exports of one run, a table in all forms, and a metric.
SOME = (r"^moescope (export in/fakes/gpu.mscope --to|kernels in/fakes/gpu.mscope --by class|"
        r"steps in/fakes/gpu.mscope --width|explain cv)\b")


# Making the inputs takes longer than comparing a few cases, so they are made once.
WORK = pathlib.Path(tempfile.mkdtemp(prefix="moescope-cli-same-"))
atexit.register(shutil.rmtree, WORK, ignore_errors=True)


def tool(name, *words):
    return subprocess.run([sys.executable, str(ROOT / "tools" / name), *map(str, words)],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=PATIENCE_S, env=environment(), check=False)


def compare(old, new, *words, only=SOME):
    need(BUILD / "tests" / "save-fakes")
    return tool("same.py", old, new, "--quick", "--work", WORK, "--only", only, *words)


def wrapped(name, lines):
    """A build whose program is that of the real one, but for what the lines of shell do."""
    folder = pathlib.Path(name)
    folder.mkdir()
    program = folder / "moescope"
    program.write_text(f"#!/bin/sh\nreal={MOESCOPE}\necho \"$*\" >> {folder.resolve()}/calls\n"
                       f"{lines}\nexec \"$real\" \"$@\"\n", encoding="utf-8")
    program.chmod(0o755)
    for other in ("tinymoe", "libmoescope.so", "tests"):
        (folder / other).symlink_to(BUILD / other)
    return folder


def last_line(result):
    return result.stdout.splitlines()[-1]


@test
def a_build_is_the_same_as_itself():
    r = compare(BUILD, BUILD)
    equal(r.returncode, 0, r.stdout)
    numbers = re.fullmatch(r"(\d+) outputs compared, 0 differ", last_line(r))
    check(numbers and int(numbers.group(1)) > 12, r.stdout)
    # Every option of every command has values to try, or a reason why not.
    check("left out" not in r.stdout, r.stdout)


@test
def one_byte_of_one_file_is_found():
    """In a file that a rarely used export writes; nothing else is blamed."""
    other = wrapped("other", """
        case "$*" in
        export*folded-host) "$real" "$@" || exit; sed -i '1s/ \\([0-9]*\\)$/;\\1/' *.folded; exit ;;
        esac""")
    r = compare(BUILD, other)
    equal(r.returncode, 1, r.stdout)
    found = re.findall(r"^DIFFERS (.*)$", r.stdout, re.M)
    equal([f for f in found if "of the build" not in f],
          ["moescope export in/fakes/gpu.mscope --to folded-host"], r.stdout)
    check(re.search(r"^ file .*folded.*:\n  line 1, column \d+\n  old: .* \d+\n  new: .*;\d+$",
                    r.stdout, re.M), r.stdout)
    check("again: cd " in r.stdout, r.stdout)


@test
def streams_and_status_are_compared():
    for name, lines, part in (
            ("err", 'case "$*" in explain*) echo note >&2 ;; esac', "stderr"),
            ("status", 'case "$*" in explain*) "$real" "$@"; exit 7 ;; esac', "status"),
            ("out", 'case "$*" in explain*) echo ;; esac', "stdout")):
        r = compare(BUILD, wrapped(name, lines), only="^moescope explain cv$")
        equal(r.returncode, 1, r.stdout)
        equal(re.findall(r"^ (\w+):$", r.stdout, re.M), [part], r.stdout)
        equal(last_line(r), "1 outputs compared, 1 differ")


@test
def work_that_was_done_is_not_done_again():
    other = wrapped("other", "# a program of its own, which nobody knows yet\n")
    calls = other / "calls"
    equal(compare(BUILD, other).returncode, 0)
    first = calls.read_text(encoding="utf-8").count("export")
    check(first > 5, first)
    equal(compare(BUILD, other).returncode, 0)
    equal(calls.read_text(encoding="utf-8").count("export"), first)
    # Another program is asked anew.
    with open(other / "moescope", "a", encoding="utf-8") as file:
        file.write("# changed\n")
    equal(compare(BUILD, other).returncode, 0)
    equal(calls.read_text(encoding="utf-8").count("export"), 2 * first)


@test
def options_that_nobody_gave_a_value_are_named():
    """And commands that only the newer one has."""
    adding = """
        if [ "$*" = "completion fish" ]; then
            "$real" "$@"
            echo "complete -c moescope -n '__fish_seen_subcommand_from kernels' -l %s -x -d 'a'"
            exit
        fi"""
    old, new = wrapped("old", adding % "strange"), wrapped("new", adding % "late")
    r = compare(old, new, only="^none$")
    check("left out: kernels --strange: no value for it in VALUES" in r.stdout, r.stdout)
    check("only new has kernels --late: not compared" in r.stdout, r.stdout)


@test
def a_folder_without_a_program_is_refused_in_a_sentence():
    r = tool("same.py", "nothing-here", BUILD)
    equal((r.returncode, r.stdout.count("\n")), (1, 1), r.stdout)
    check("neither a build folder" in r.stdout, r.stdout)


@test
def first_differences_are_shown():
    equal(same.first_difference(b"a\nb\nc", b"a\nB\nc"),
          ["  line 2, column 1", "  old: b", "  new: B"])
    equal(same.first_difference(b"a\n", b"a\nb"), ["  line 2, column 1", "  old: ", "  new: b"])
    equal(same.first_difference(None, b"a"), ["  only new has it"])
    packed = [same.gzip.compress(text, mtime=time) for text, time in ((b"a", 0), (b"b", 0), (b"a", 9))]
    equal(same.first_difference(packed[0], packed[1])[0], "  line 1, column 1 (after decompression)")
    equal(same.first_difference(packed[0], packed[2]),
          ["  compressed in another way, with the same content"])


@test
def slower_is_worse_only_beyond_noise():
    sink, sys.stdout = sys.stdout, open(os.devnull, "w", encoding="utf-8")
    try:
        slower = same_bench.row("", "s", [(1.0, 1.05 + 0.001 * i) for i in range(15)])
        noisy = same_bench.row("", "s", [(1.0, 0.8 + 0.04 * i) for i in range(15)])
        faster = same_bench.row("", "s", [(1.0, 0.9)] * 15)
    finally:
        sys.stdout.close()
        sys.stdout = sink
    equal((slower, noisy, faster), (True, False, False))


@test
def folders_call_each_other_one_way():
    r = tool("check_symbols.py", BUILD)
    equal(r.returncode, 0, r.stdout)
    check(re.search(r"^\d+ objects in \d+ folders, no circle$", r.stdout, re.M), r.stdout)


@test
def a_circle_of_folders_is_found():
    """Two files of which each calls the other, as if they lay in different folders."""
    pathlib.Path("plan").write_text("lower trace/shard_read.c\nupper trace/salvage.c\n",
                                    encoding="utf-8")
    r = tool("check_symbols.py", BUILD, "--plan", "plan")
    equal(r.returncode, 1, r.stdout)
    check(re.search(r"^circle of folders: .*lower.*upper", r.stdout, re.M), r.stdout)
    check("  trace/salvage.c -> trace/shard_read.c: " in r.stdout, r.stdout)
    check("  trace/shard_read.c -> trace/salvage.c: " in r.stdout, r.stdout)


main()
