#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that docs/format.md has every record kind and column of src/trace/records.h, and no other.

A kind in the document is a heading "### Kind 5: `range`" and the table below it, with the columns
id, name, type and coding first. A list of `load` with `experts` values has the type u32[experts].

usage: check_format_doc.py [ROOT]
Prints one sentence for each difference and exits 1; exits 0 without a word when there is none.
"""
import pathlib
import re
import sys

HEADER = "src/trace/records.h"
DOCUMENT = "docs/format.md"

KIND = re.compile(r"\bKIND\((\d+),\s*(\w+),\s*(\w+)\)")
COLUMNS = re.compile(r"#define RECORD_COLUMNS_(\w+)\(C, L, B\)((?:.*\\\n)*.*\n)")
COLUMN = re.compile(r"\b([CLB])\((\d+),\s*([^)]*)\)")
HEADING = re.compile(r"^### Kind (\d+): `(\w+)`$")
ROW = re.compile(r"^\|\s*(\d+)\s*\|\s*`(\w+)`\s*\|\s*`?([\w\[\]]+)`?\s*\|\s*(\w+)\s*\|")


def column_of(macro, number, words):
    """(id, name, type, coding) of one column macro."""
    words = [word.strip() for word in words.split(",")]
    if macro == "L":
        return int(number), words[0], f"{words[1].lower()}[{words[2]}]", "LIST"
    if macro == "B":
        return int(number), words[0], f"bytes[{words[1]}]", "BYTES"
    return int(number), words[0], words[1].lower(), words[2]


def read_header(text):
    """{(kind id, kind name): {column id: (id, name, type, coding)}} of records.h."""
    start = text.index("#define RECORD_KINDS(KIND)")
    listed = re.match(r"(?:.*\\\n)*.*\n", text[start:]).group(0)
    columns = {
        name: [column_of(*match) for match in COLUMN.findall(body)]
        for name, body in COLUMNS.findall(text)
    }
    return {
        (int(number), name): {column[0]: column for column in columns[name]}
        for number, _, name in KIND.findall(listed)
    }


def read_document(text):
    """The same of format.md, from its headings and tables."""
    kinds, current = {}, None
    for line in text.splitlines():
        heading = HEADING.match(line)
        if heading:
            current = kinds.setdefault((int(heading.group(1)), heading.group(2)), {})
        elif line.startswith("#"):
            current = None
        row = ROW.match(line)
        if row and current is not None:
            number, name, kind, coding = row.groups()
            current[int(number)] = (int(number), name, kind, coding)
    return kinds


def differences(source, document):
    """One sentence for each kind or column that is not the same in both."""
    for number, name in sorted(source.keys() - document.keys()):
        yield f"{DOCUMENT}: kind {number} '{name}' of {HEADER} is missing"
    for number, name in sorted(document.keys() - source.keys()):
        yield f"{DOCUMENT}: kind {number} '{name}' is not in {HEADER}"
    for kind in sorted(source.keys() & document.keys()):
        ours, theirs = source[kind], document[kind]
        for number in sorted(ours.keys() | theirs.keys()):
            mine, its = ours.get(number), theirs.get(number)
            if its is None:
                yield f"{DOCUMENT}: column {number} '{mine[1]}' of kind '{kind[1]}' is missing"
            elif mine is None:
                yield f"{DOCUMENT}: column {number} '{its[1]}' of kind '{kind[1]}' is not in {HEADER}"
            elif mine != its:
                yield (
                    f"{DOCUMENT}: column {number} of kind '{kind[1]}' is {' '.join(its[1:])}, "
                    f"but {' '.join(mine[1:])} in {HEADER}"
                )


def main():
    """Compares the two files below the root."""
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    try:
        source = read_header((root / HEADER).read_text(encoding="utf-8"))
        document = read_document((root / DOCUMENT).read_text(encoding="utf-8"))
    except OSError as error:
        print(f"{error.filename}: {error.strerror}; give the root of the project", file=sys.stderr)
        return 2
    found = list(differences(source, document))
    for sentence in found:
        print(sentence)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
