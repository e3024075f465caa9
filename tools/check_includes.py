#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the shape of the sources: which room includes which, file length, license line.

The rooms are the folders of src with everything below them; device has two, probe three floors. An arrow of
docs/design.md that is not in ROOMS is an error in the file that takes it, not a reason to add it here.

usage: check_includes.py [ROOT]
Prints one line per violation and exits 1; exits 0 silently if there is none.
"""
import pathlib
import re
import sys

# A longer file holds more than one thought; split it between thoughts.
MAX_LINES = 1000
LICENSE_LINE = "/* SPDX-License-Identifier: Apache-2.0"
SOURCE_FOLDERS = ("include", "src", "tests", "bench", "examples")

CORE = {"base", "trace", "device/driver"}
SUBJECTS = CORE | {"device/sheets", "tables", "subjects"}
JUDGED = SUBJECTS | {"verdicts", "compare"}
OUTPUT = JUDGED | {"exports", "timeline", "documents", "surfaces"}
# What a room may include besides itself and moescope.h.
ROOMS = {
    "base": set(),
    "device/driver": {"base"},
    "device/sheets": {"base"},
    "trace": {"base"},
    "probe/core": CORE,
    "probe/gpu": CORE | {"probe/core"},
    "probe/routing": CORE | {"probe/core", "probe/gpu"},
    "calls": {"probe/core"},
    "host": {"base", "trace"},
    "counters": CORE | {"device/sheets"},
    "exact": CORE | {"counters", "device/sheets", "probe/core", "probe/gpu"},
    "heap": {"base", "trace", "host"},
    "ingest": CORE,
    "tables": CORE,
    "subjects": SUBJECTS,
    "verdicts": SUBJECTS,
    "compare": SUBJECTS,
    "exports": SUBJECTS,
    "timeline": SUBJECTS | {"exports"},
    "documents": JUDGED | {"exports"},
    "surfaces": JUDGED | {"exports", "timeline", "documents"},
    "lab": OUTPUT,
    "cmd": OUTPUT | {"host", "ingest", "lab"},
    "tinymoe": set(),
    "load": set(),
}
# Rooms with their own doors inside a folder of src.
DIVIDED = {"device", "probe"}

INCLUDE = re.compile(r'^\s*#\s*include\b\s*(?:"([^"]+)"|<([^>]+)>|(.*))')


def resolve(root, source, quoted, bracketed):
    """The project file that an include names, or None for a system header."""
    name = quoted or bracketed
    folders = [root / "src", root / "include"]
    if quoted:
        folders.insert(0, source.parent)
    for folder in folders:
        path = (folder / name).resolve()
        if path.is_file() and path.is_relative_to(root):
            return path
    return None


def room_of(root, path):
    """The room of a file: a folder of src or a part of device, or "include" for the public headers."""
    parts = path.relative_to(root).parts
    if parts[0] == "src" and len(parts) > 2:
        return "/".join(parts[1:3]) if parts[1] in DIVIDED else parts[1]
    return parts[0]


def check_include(root, source, room, match):
    """The offence of one include line, or None."""
    quoted, bracketed, other = match.groups()
    if other is not None:
        return "an include by macro hides the room it enters; name the file"
    target = resolve(root, source, quoted, bracketed)
    if target is None:
        return f'"{quoted}" is not in the project' if quoted else None
    into = room_of(root, target)
    if into in ("include", room):
        return None
    if into in ROOMS.get(room, set()):
        return None
    return f"room {room} may not include room {into}"


def check_file(root, source):
    """Offences of one file as (line, sentence)."""
    lines = source.read_text(encoding="utf-8", errors="replace").splitlines()
    if not lines or not lines[0].startswith(LICENSE_LINE):
        yield 1, f"the first line is not '{LICENSE_LINE}'"
    if len(lines) > MAX_LINES:
        yield len(lines), f"{len(lines)} lines; a file has at most {MAX_LINES}"
    room = room_of(root, source)
    if room not in ROOMS and room != "include":
        if source.relative_to(root).parts[0] == "src":
            yield 1, f"room {room} is not in the table of tools/check_includes.py"
        return
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        offence = match and check_include(root, source, room, match)
        if offence:
            yield number, offence


def main():
    """Checks every C file below the root; the number of offences decides the status."""
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    sources = sorted(
        path
        for folder in SOURCE_FOLDERS
        for path in (root / folder).rglob("*.[ch]")
        if path.is_file()
    )
    if not sources:
        print(f"{root}: no C sources; give the root of the project", file=sys.stderr)
        return 2
    offences = 0
    for source in sources:
        for number, offence in check_file(root, source):
            print(f"{source.relative_to(root)}:{number}: {offence}")
            offences += 1
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main())
