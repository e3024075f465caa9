# SPDX-License-Identifier: Apache-2.0
"""Options, help and usage errors of every command."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

from cli import (MOESCOPE, check, commands, environment, equal, main, moescope, one_sentence,
                 purposes, record, test)

ROOT = pathlib.Path(__file__).resolve().parents[2]


def source(path):
    return (ROOT / path).read_text(encoding="utf-8")


@test
def no_command_shows_the_overview_and_fails():
    r = moescope()
    equal(r.status, 2, r)
    equal(r.out, "")
    check("usage: moescope COMMAND" in r.err, r)


@test
def overview_groups_all_commands_and_ends_with_what_to_type():
    wanted = {path.stem[len("cmd_"):] for path in (ROOT / "src" / "cmd").glob("cmd_*.c")}
    subjects = "".join(map(source, (ROOT / "src" / "subjects").glob("*/*.c")))
    wanted |= set(re.findall(r'\.name = "(\w+)",(?:(?!\.name).)*?\.command = {', subjects, re.S))
    equal(sorted(commands()), sorted(wanted))
    groups = purposes()
    equal(list(groups)[0], "record")
    check(len(groups) >= 5 and all(2 <= len(group) <= 16 for group in groups.values()), groups)
    for words in (["--help"], ["-h"], ["help"]):
        r = moescope(*words)
        equal((r.status, r.out), (0, moescope().err), r)
    check(max(map(len, r.out.splitlines())) <= 80, "lines over 80 columns")
    following = re.findall(r"^  moescope (\w+)", r.out.split("\nnext:\n")[1], re.M)
    equal(following, ["COMMAND", "run", "demo"])
    check(r.out.splitlines()[-1].startswith("  moescope demo  "), r)


@test
def the_version_of_meson_build_is_everywhere():
    version = re.search(r"^  version : '(\d+\.\d+\.\d+)',$", source("meson.build"), re.M).group(1)
    r = moescope("--version")
    equal((r.status, r.out), (0, f"moescope {version}\n"), r)
    equal(".".join(re.findall(r"^#define MOESCOPE_VERSION_\w+ (\d+)$", source("include/moescope.h"),
                              re.M)), version)
    equal(re.search(r"^## \[([^]]+)\]", source("CHANGELOG.md"), re.M).group(1), version)
    check('dynamic = ["version"]' in source("pyproject.toml"))
    shown = subprocess.run([sys.executable, "-c", "import moescope; print(moescope.__version__)"],
                           env=environment(PYTHONPATH=ROOT / "python"), text=True, check=True,
                           stdout=subprocess.PIPE).stdout
    equal(shown, f"{version}\n")
    pages = list((pathlib.Path(MOESCOPE).parent / "docs" / "man").glob("*.1"))
    for page in pages:
        equal(page.read_text(encoding="utf-8").splitlines()[1].split('"')[7], f"moescope {version}", page)
    check(pages or not shutil.which("lowdown"), "no manual pages were built")


@test
def help_of_every_command_has_usage_options_and_examples():
    for command in commands():
        r = moescope(command, "--help")
        equal(r.status, 0, r)
        equal(r.err, "")
        check(r.out.startswith(f"usage: moescope {command} "), r)
        check("\noptions:\n" in r.out and "\nexamples:\n  " in r.out, r)
        check(max(map(len, r.out.splitlines())) <= 80, f"{command}: lines over 80 columns")
        equal(moescope("help", command).out, r.out)
        equal(moescope(command, "-h").out, r.out)


@test
def unknown_command_names_the_nearest():
    one_sentence(moescope("reprot"), 2, "unknown command 'reprot'", "'report'",
                 "See 'moescope --help'.")
    one_sentence(moescope("xyzzy"), 2, "unknown command 'xyzzy'.")
    one_sentence(moescope("help", "opss"), 2, "'ops'")
    one_sentence(moescope("--frobnicate"), 2, "'--frobnicate'")


@test
def unknown_option_names_the_nearest():
    one_sentence(moescope("ops", "--limt", "3"), 2,
                 "unknown option '--limt'; did you mean '--limit'? See 'moescope ops --help'.")
    one_sentence(moescope("ops", "--limt=3"), 2, "did you mean '--limit'?")
    one_sentence(moescope("ops", "--frobnicate"), 2, "unknown option '--frobnicate'.")
    one_sentence(moescope("ops", "-Z"), 2, "unknown option '-Z'")
    for command in commands():
        one_sentence(moescope(command, "--frobnicate"), 2, f"'moescope {command} --help'")


@test
def wrong_values_say_what_is_wanted():
    one_sentence(moescope("ops", "--limit"), 2, "needs a value", "--limit N")
    one_sentence(moescope("ops", "--limit", "many"), 2, "whole number", "'many'")
    one_sentence(moescope("ops", "--limit", "3x"), 2, "'3x'")
    one_sentence(moescope("ops", "--limit", ""), 2, "whole number")
    one_sentence(moescope("ops", "--limit", "99999999999999999999"), 2, "whole number")
    one_sentence(moescope("ops", "--layer", "-1"), 2, "out of range")
    one_sentence(moescope("ops", "--width", "7"), 2, "out of range", "40")
    one_sentence(moescope("routing", "--capacity-factor", "nan"), 2, "number")
    one_sentence(moescope("routing", "--capacity-factor", "0"), 2, "out of range")
    one_sentence(moescope("routing", "--capacity-factor", "1,2,"), 2, "X,X")
    one_sentence(moescope("routing", "--columns", "rows"), 2, "layers, steps, experts")
    one_sentence(moescope("ops", "--color", "allways"), 2, "did you mean 'always'")
    one_sentence(moescope("ops", "--phase", "sideways"), 2, "forward", "backward")
    one_sentence(moescope("ops", "--json=yes"), 2, "takes no value")
    one_sentence(moescope("ops", "--sort", ""), 2, "--sort")
    for window in ("x", "1:x", ":", "5:1", "1:2:3"):
        one_sentence(moescope("steps", "--steps", window), 2, "--steps")


@test
def wrong_numbers_of_arguments():
    one_sentence(moescope("ops", "a", "b"), 2, "'b'")
    one_sentence(moescope("run"), 2, "PROGRAM")
    one_sentence(moescope("run", "--"), 2, "PROGRAM")
    one_sentence(moescope("dump"), 2, "SHARD")
    one_sentence(moescope("completion"), 2, "bash")
    one_sentence(moescope("completion", "tcsh"), 2, "bash, zsh, fish")
    one_sentence(moescope("doctor", "x"), 2, "'x'")
    one_sentence(moescope("demo", "x"), 2, "'x'", "'--'")


@test
def all_forms_of_an_option_work():
    record()
    wanted = json.loads(moescope("ops", "a.mscope", "--json", "--limit", "2").out)["rows"]
    equal(len(wanted), 2)
    for form in (["--limit=2"], ["-n", "2"], ["-n2"]):
        for words in ([*form, "--json", "a.mscope"], ["a.mscope", "--json", *form],
                      ["--json", *form, "--", "a.mscope"]):
            equal(json.loads(moescope("ops", *words).out)["rows"], wanted, words)


@test
def forms_exclude_each_other():
    record()
    for one, two in (("--json", "--csv"), ("--json", "--markdown"), ("--csv", "--markdown")):
        one_sentence(moescope("ops", "a.mscope", two, one), 2, one, two)
        one_sentence(moescope("compare", "a.mscope", "b.mscope", two, one), 2, one, two)


@test
def full_output_device_is_a_failure():
    with open("/dev/full", "w", encoding="ascii") as full:
        for words in (["--help"], ["explain"], ["explain", "--json"], ["completion", "bash"]):
            r = moescope(*words, stdout=full)
            equal(r.status, 1, words, r)
            equal(r.err, "moescope: cannot write to standard output: "
                         "No space left on device.\n", words)


@test
def closed_stdout_is_a_failure():
    r = subprocess.run(["sh", "-c", '"$0" explain >&-', MOESCOPE], stderr=subprocess.PIPE,
                       text=True, env=environment(), check=False)
    equal(r.returncode, 1, r)
    check("cannot write to standard output" in r.stderr, r)


@test
def closed_pipe_is_a_quiet_failure():
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        r = moescope("explain", stdout=write_end)
    finally:
        os.close(write_end)
    equal(r.status, 1, r)
    equal(r.err, "")


if __name__ == "__main__":
    main()
