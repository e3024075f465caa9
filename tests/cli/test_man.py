# SPDX-License-Identifier: Apache-2.0
"""The manual and the help say the same: the same pages, options, short forms and metavars."""

import os
import pathlib
import re
import shutil
import subprocess

from cli import Skip, check, commands, equal, main, moescope, purposes, test

MANUAL = pathlib.Path(__file__).resolve().parents[2] / "docs" / "man"


def page(name):
    """Its source, with the options that pages share, as docs/man/meson.build puts them in."""
    def shared(found):
        return (MANUAL / "shared" / f"{found.group(1).lower()}.md").read_text(encoding="utf-8").strip()

    return re.sub(r"^@(\w+)@$", shared, (MANUAL / f"{name}.1.md").read_text(encoding="utf-8"), flags=re.M)


def section(text, title):
    found = re.search(rf"^# {title}\n\n(.*?)(?=^# |\Z)", text, re.M | re.S)
    check(found, f"no section {title}")
    return found.group(1)


def help_options(command):
    text = moescope(command, "--help").out.split("\noptions:\n")[1].split("\nexamples:\n")[0]
    return set(re.findall(r"^  (?:-(\w), |    )--([a-z-]+)(?: ([A-Z:]+))?(?:  |$)", text, re.M))


def manual_options(text):
    return set(re.findall(r"^(?:`-(\w)`, )?`--([a-z-]+)`(?: \*([A-Z:]+)\*)?\n: ",
                          section(text, "OPTIONS"), re.M))


@test
def every_command_has_a_page_and_every_page_a_command():
    pages = {path.name for path in MANUAL.glob("*.md")}
    equal(pages, {"moescope.1.md"} | {f"moescope-{c}.1.md" for c in commands()})
    built = re.findall(r"^  '(moescope[a-z-]*)',$",
                       (MANUAL / "meson.build").read_text(encoding="utf-8"), re.M)
    equal({f"{name}.1.md" for name in built}, pages)


@test
def options_are_the_same():
    for command in commands():
        wanted = help_options(command)
        check(("h", "help", "") in wanted, command, wanted)
        equal(manual_options(page(f"moescope-{command}")), wanted, command)
    equal(manual_options(page("moescope")), {("h", "help", ""), ("", "version", "")})


@test
def names_and_synopses_are_the_same():
    overview = {name: summary for group in purposes().values() for name, summary in group}
    for command in commands():
        text = page(f"moescope-{command}")
        check(text.startswith(f"title: MOESCOPE-{command.upper()}\n"), command)
        equal(section(text, "NAME").strip(), f"moescope-{command} - {overview[command]}")
        usage = re.match(r"usage: moescope (.*)", moescope(command, "--help").out).group(1)
        equal(re.sub(r"[*`]", "", section(text, "SYNOPSIS")).strip(), f"moescope {usage}")


@test
def the_main_page_and_the_readme_group_the_commands_as_the_overview():
    wanted = [(title[0].upper() + title[1:], [name for name, _ in group])
              for title, group in purposes().items()]
    groups = re.findall(r"^## ([^\n]*)\n\n(.*?)(?=^## |\Z)", section(page("moescope"), "COMMANDS"), re.M | re.S)
    equal([(title, re.findall(r"^\*\*moescope-(\w+)\*\*\(1\)\n: ", text, re.M)) for title, text in groups],
          wanted)
    seen = re.findall(r"moescope-(\w+)\(1\)", section(page("moescope"), "SEE ALSO"))
    equal(seen, [name for _, group in wanted for name in group])
    table = (MANUAL.parents[1] / "README.md").read_text(encoding="utf-8").split("\n## Commands\n")[1]
    rows = re.findall(r"^\| (?:\*\*(.*)\*\*|`moescope (\w+).*?`) \|", table.split("\n## ")[0], re.M)
    shown = []
    for title, name in rows:
        if title:
            shown.append((title, []))
        else:
            shown[-1][1].append(name)
    equal(shown, wanted)


@test
def examples_are_the_same():
    for command in commands():
        lines = moescope(command, "--help").out.split("\nexamples:\n")[1].splitlines()
        wanted = [line.strip() for line in lines if re.match(r"  \S", line)]
        equal(re.findall(r"^    (\S.*)$", section(page(f"moescope-{command}"), "EXAMPLES"), re.M),
              wanted)


@test
def pages_build():
    if not shutil.which("lowdown"):
        raise Skip("lowdown is not installed")
    for path in sorted(MANUAL.glob("*.md")):
        r = subprocess.run(["lowdown", "-s", "-Tman", "--out-no-smarty"], input=page(path.name[:-len(".1.md")]),
                           stdout=subprocess.PIPE, text=True, check=True)
        check(r.stdout.startswith(".\\\"") or ".TH" in r.stdout[:400], path)
        if shutil.which("man"):
            with open("page.1", "w", encoding="utf-8") as file:
                file.write(r.stdout)
            shown = subprocess.run(["man", "--warnings", "-l", "page.1"], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, check=False,
                                   env={**os.environ, "MANPAGER": "cat", "MANWIDTH": "80"})
            equal((shown.returncode, shown.stderr), (0, ""), path)
            check("NAME" in shown.stdout, path)


if __name__ == "__main__":
    main()
