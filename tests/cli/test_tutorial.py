# SPDX-License-Identifier: Apache-2.0
"""docs/tutorial.md: its commands work, and print the headings that it shows.

Numbers differ from machine to machine. So a heading is a line without any: a title, the first line of a
table. The models are smaller than a reader's, and trained for fewer steps.
"""

import os
import pathlib
import re
import subprocess

from cli import MOESCOPE, PATIENCE_S, TINY, TINYMOE, check, environment, equal, main, need, test

ROOT = pathlib.Path(__file__).resolve().parents[2]
TUTORIAL = ROOT / "docs" / "tutorial.md"
SMALL = [("make demo", "moescope demo --steps 12 -- " + " ".join(TINY)),
         ("tinymoe --steps 60", "tinymoe --steps 12 " + " ".join(TINY))]
# No step of a short run need be slow.
MAY_LACK = {"Slow steps"}


def calls():
    """Each command of the page with the lines shown below it."""
    for block in re.findall(r"^```console\n(.*?)^```$", TUTORIAL.read_text(encoding="utf-8"),
                            re.M | re.S):
        for call in re.findall(r"^\$ .*\n(?:(?!\$ ).*\n)*", block, re.M):
            command, *shown = call.splitlines()
            yield command[2:], shown


def heading(line):
    """Its words, or None. Percentiles and confidence are parts of names, not figures."""
    words = " ".join(line.split())
    figures = re.search(r"[\d▁-█░-▓]", re.sub(r"\bp\d\d\b|\b95%", "", words))
    indent = len(line) - len(line.lstrip())
    return words if indent <= 2 and not figures and re.search("[a-z]", words) else None


@test
def commands_work_and_print_their_headings():
    need(TINYMOE)
    os.symlink(ROOT / "tests", "tests")
    env = environment(PATH=f"{os.path.dirname(MOESCOPE)}:{os.environ['PATH']}")
    found = 0
    for command, shown in calls():
        for long, short in SMALL:
            command = command.replace(long, short)
        done = subprocess.run(command, shell=True, env=env, text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE_S,
                              check=False)
        equal(done.returncode, 0, command, done.stdout)
        printed = {" ".join(line.split()) for line in done.stdout.splitlines()}
        for line in filter(None, map(heading, shown)):
            check(line in printed | MAY_LACK, f"'{command}' does not print '{line}'")
            found += line in printed
    check(found >= 20, f"only {found} headings were recognised")


@test
def its_links_lead_somewhere():
    for page in [TUTORIAL, ROOT / "docs" / "README.md", ROOT / "README.md", ROOT / "CONTRIBUTING.md"]:
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            check((page.parent / link).exists(), f"{page.relative_to(ROOT)}: {link} is not there")


@test
def the_index_has_every_page():
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    for page in sorted((ROOT / "docs").glob("*.md")):
        if page.name != "README.md":
            check(f"]({page.name})" in index, f"docs/README.md does not name {page.name}")


if __name__ == "__main__":
    main()
