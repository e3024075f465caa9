# SPDX-License-Identifier: Apache-2.0
"""Completion scripts: they parse, and they complete."""

import os
import pathlib
import shlex
import shutil
import subprocess

from cli import PATIENCE_S, Skip, check, commands, environment, equal, main, moescope, test


def script(shell):
    if not shutil.which(shell):
        raise Skip(f"{shell} is not installed")
    r = moescope("completion", shell)
    equal(r.status, 0, r)
    path = pathlib.Path(f"moescope.{shell}").resolve()
    path.write_text(r.out, encoding="utf-8")
    parsed = subprocess.run([shell, "-n", str(path)], stderr=subprocess.PIPE, text=True,
                            check=False)
    equal((parsed.returncode, parsed.stderr), (0, ""))
    return str(path)


def shell_run(shell, code):
    flags = {"bash": ["--norc", "--noprofile"], "fish": ["--no-config"], "zsh": ["-f"]}[shell]
    r = subprocess.run([shell, *flags, "-c", code], stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, text=True, check=False,
                       env=environment(HOME=os.getcwd(), XDG_CONFIG_HOME=os.getcwd()))
    equal(r.returncode, 0, r.stderr)
    return r


def bash_complete(path, *words):
    """What bash offers for the last of the words."""
    quoted = " ".join(shlex.quote(word) for word in ("moescope", *words))
    r = shell_run("bash", f"source {shlex.quote(path)}; COMP_WORDS=({quoted}); "
                          f"COMP_CWORD={len(words)}; _moescope; "
                          "printf '%s\\n' \"${COMPREPLY[@]}\"")
    equal(r.stderr, "", words)
    return [line for line in r.stdout.splitlines() if line]


def fish_complete(path, line):
    r = shell_run("fish", f"source {shlex.quote(path)}; complete -C {shlex.quote(line)}")
    return [word.split("\t")[0] for word in r.stdout.splitlines()]


def make_places():
    os.mkdir("a.mscope")
    os.mkdir("b c.mscope")
    os.mkdir("other")
    pathlib.Path("file.txt").touch()


@test
def bash_completes():
    path = script("bash")
    os.mkdir("w")
    os.chdir("w")
    make_places()
    equal(sorted(bash_complete(path, "")), sorted([*commands(), "--help", "--version"]))
    equal(bash_complete(path, "rou"), ["routing"])
    equal(bash_complete(path, "ops", "--li"), ["--limit"])
    equal(bash_complete(path, "ops", "--color", "a"), ["auto", "always"])
    equal(bash_complete(path, "ops", "--color", "=", "n"), ["never"])
    equal(bash_complete(path, "run", "--level", "f"), ["full"])
    equal(bash_complete(path, "run", "-l", ""), ["counts", "steps", "trace", "full"])
    equal(sorted(bash_complete(path, "report", "")), ["a.mscope", "b c.mscope"])
    equal(bash_complete(path, "report", "ot"), ["other"])
    equal(bash_complete(path, "ops", "--limit", ""), [])
    equal(bash_complete(path, "explain", "cv_e"), ["cv_excess"])
    equal(bash_complete(path, "completion", "z"), ["zsh"])
    equal(bash_complete(path, "help", "exp"), ["export", "explain"])
    equal(bash_complete(path, "export", "-o", "fi"), ["file.txt"])
    equal(bash_complete(path, "run", "-o", "ot"), ["other"])
    check("bash" in bash_complete(path, "run", "--", "bas"))
    equal(bash_complete(path, "run", "--", "cat", "fi"), ["file.txt"])
    for command in commands():
        check("--help" in bash_complete(path, command, "--h"), command)


@test
def fish_completes():
    path = script("fish")
    os.mkdir("w")
    os.chdir("w")
    make_places()
    equal(sorted(fish_complete(path, "moescope ")), sorted(commands()))
    equal(fish_complete(path, "moescope ops --li"), ["--limit"])
    equal(sorted(fish_complete(path, "moescope ops --color a")), ["always", "auto"])
    equal(fish_complete(path, "moescope run --level f"), ["full"])
    check("a.mscope/" in fish_complete(path, "moescope report a"))
    check("file.txt" not in fish_complete(path, "moescope report "))
    equal(fish_complete(path, "moescope explain cv_e"), ["cv_excess"])
    equal(fish_complete(path, "moescope completion z"), ["zsh"])


@test
def zsh_registers():
    path = script("zsh")
    r = shell_run("zsh", "autoload -U compinit; compinit -D -u; "
                         f"source {shlex.quote(path)}; print -r -- $_comps[moescope]")
    equal(r.stdout, "_moescope\n", r.stderr)


# Completes in a real interactive zsh on a pseudo-terminal, one line of input.
ZSH_ASK = r"""
zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z 'PS1=; autoload -U compinit; compinit -D -u; zstyle ":completion:*" list-prompt ""'
zpty -w z 'LISTMAX=1000; setopt no_always_last_prompt; source '$1
zpty -w z 'print BEG""IN'
zpty -r z before '*BEGIN*'
zpty -n -w z "$2"$'\t'
zpty -n -w z $'\t\n'
zpty -w z 'print EN""D'
zpty -r z after '*END*'
print -r -- "$after"
"""


@test
def zsh_completes():
    path = script("zsh")
    for line, wanted in (("moescope rou", "moescope routing"),
                         ("moescope ops --li", "moescope ops --limit"),
                         ("moescope run --level=fu", "moescope run --level=full"),
                         ("moescope explain cv_e", "moescope explain cv_excess")):
        r = subprocess.run(["zsh", "-f", "-c", ZSH_ASK, "ask", path, line], text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                           timeout=PATIENCE_S, env=environment(HOME=os.getcwd(), TERM="dumb"))
        check(wanted in r.stdout.replace("\b", ""), line, r.stdout)


if __name__ == "__main__":
    main()
