# SPDX-License-Identifier: Apache-2.0
"""docs/skill.md: every command in it works, and what it promises about them holds."""

import os
import pathlib
import re
import subprocess

from cli import MOESCOPE, PATIENCE_S, TINY, TINYMOE, check, commands, environment, equal, main, need, test

SKILL = pathlib.Path(__file__).resolve().parents[2] / "docs" / "skill.md"


def calls():
    text = SKILL.read_text(encoding="utf-8")
    for block in re.findall(r"^```console\n(.*?)^```$", text, re.M | re.S):
        for line in block.splitlines():
            check(line.startswith("$ moescope "), f"not a command: {line}")
            yield line[2:]


@test
def every_command_works():
    need(TINYMOE)
    env = environment(PATH=f"{os.path.dirname(MOESCOPE)}:{os.environ['PATH']}")
    out = {}
    for command in calls():
        # A smaller model; the page's own takes a minute. Its speed is no matter here.
        short = re.sub(r"tinymoe --steps 60(.*)", f"tinymoe --steps 24 {' '.join(TINY)}\\1", command)
        short = short.replace("> 50%", "> 100000%")
        done = subprocess.run(short, shell=True, env=env, text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE_S, check=False)
        equal(done.returncode, 0, command, done.stderr)
        check(done.stdout or " run " in command, f"'{command}' prints nothing")
        out[command] = done.stdout
    check(len(out) >= 10, f"only {len(out)} commands were found")
    verdicts = next(text for command, text in out.items() if "from verdicts" in command)
    check("router-collapsed" in verdicts, verdicts)


@test
def the_tables_that_it_names_are_commands():
    rows = re.findall(r"^\| .* \| (`.*`) \|$", SKILL.read_text(encoding="utf-8"), re.M)
    named = {word.split()[0] for row in rows for word in re.findall(r"`([^`-][^`]*)`", row)}
    check(len(named) >= 9 and named <= set(commands()), named)


if __name__ == "__main__":
    main()
