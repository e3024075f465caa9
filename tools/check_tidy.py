#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the sources with clang-tidy, all cores at once.

usage: check_tidy.py [BUILD] [FILE...]; without files, all of src

A file is read once for each way in which it is compiled; what differs only in the program that it is
linked into is one way. What was found clean is remembered in BUILD/tidy by everything that the
answer depends on: the preprocessed text with its comments and macros, the checks, and the version.
"""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
# The paths of a function that the analyzer follows: a quarter of clang's own limit takes less than half the time.
DEPTH = [f"-extra-arg={word}" for word in ("-Xclang", "-analyzer-config", "-Xclang", "max-nodes=60000")]


def compiled(build, wanted):
    """The entries of compile_commands.json to check, one for each way."""
    ways = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        file = (build / entry["file"]).resolve()
        macros = frozenset(re.findall(r"-D\S+", entry["command"]))
        if file in wanted if wanted else file.is_relative_to(ROOT / "src"):
            ways.setdefault((file, macros), entry)
    return [ways[way] for way in sorted(ways, key=lambda way: (way[0], sorted(way[1])))]


def preprocessed(entry):
    """The text that clang-tidy sees, with its comments and macros."""
    words = shlex.split(entry["command"])
    start = next(i for i, word in enumerate(words) if word.startswith("-"))
    flags = [w for w in words[start:] if w.startswith(("-D", "-I", "-U", "-std", "-isystem", "-f"))]
    done = subprocess.run(["clang", "-w", "-E", "-CC", "-dD", *flags, entry["file"]],
                          cwd=entry["directory"], capture_output=True, check=False)
    return done.stdout if done.returncode == 0 else None


def check(entry, common, cache):
    """clang-tidy's findings; nothing if it has none, or had none last time."""
    text = preprocessed(entry)
    known = cache / hashlib.sha256(common + entry["command"].encode() + text).hexdigest() if text else None
    if known and known.exists():
        return "", True
    with tempfile.TemporaryDirectory(prefix="moescope-tidy-") as folder:
        pathlib.Path(folder, "compile_commands.json").write_text(json.dumps([entry]))
        done = subprocess.run(["clang-tidy", "-quiet", *DEPTH, "-p", folder,
                               os.path.join(entry["directory"], entry["file"])], cwd=ROOT,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        return done.stdout, False
    if known:
        known.touch()
    return "", False


def main():
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else
                         os.environ.get("MOESCOPE_BUILD", ROOT / "build")).resolve()
    wanted = {pathlib.Path(file).resolve() for file in sys.argv[2:]}
    entries = compiled(build, wanted)
    if not entries:
        sys.exit(f"check_tidy: none of the files is compiled in {build}")
    version = subprocess.run(["clang-tidy", "--version"], capture_output=True, check=True).stdout
    common = version + (ROOT / ".clang-tidy").read_bytes() + " ".join(DEPTH).encode()
    cache = build / "tidy"
    cache.mkdir(exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(lambda entry: check(entry, common, cache), entries))
    for text, _ in found:
        print(text, end="")
    bad = sum(bool(text) for text, _ in found)
    print(f"{len(found)} files, {sum(known for _, known in found)} of them clean before; "
          f"{bad} with findings")
    sys.exit(1 if bad else 0)


main()
