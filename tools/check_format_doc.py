#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks docs/format.md against the sources, both ways: every record kind and column of
src/trace/records.h, and every field of the structures in src/trace/format.h.

A kind in the document is a heading "### Kind 5: `range`" and the table below it, with the columns
id, name, type and coding first. A list of `load` with `experts` values has the type u32[experts].
A structure is a mention of `struct NAME` and the table below it, with offset, type and name first.

usage: check_format_doc.py [ROOT]
Prints one sentence per difference and exits 1; exits 0 silently if there is none.
"""
import pathlib
import re
import sys

HEADER = "src/trace/records.h"
FORMAT = "src/trace/format.h"
DOCUMENT = "docs/format.md"

KIND = re.compile(r"\bKIND\((\d+),\s*(\w+),\s*(\w+)\)")
COLUMNS = re.compile(r"#define RECORD_COLUMNS_(\w+)\(C, L, B\)((?:.*\\\n)*.*\n)")
COLUMN = re.compile(r"\b([CLB])\((\d+),\s*([^)]*)\)")
HEADING = re.compile(r"^### Kind (\d+): `(\w+)`$")
ROW = re.compile(r"^\|\s*(\d+)\s*\|\s*`(\w+)`\s*\|\s*`?([\w\[\]]+)`?\s*\|\s*(\w+)\s*\|")
STRUCT = re.compile(r"^struct (\w+) \{\n(.*?)^\};", re.M | re.S)
FIELD = re.compile(r"^\t+(?:_Atomic )?(char|u?int\d+_t) ([^;]+);", re.M)
DEFINE = re.compile(r"^#define (\w+) (\d+)\b", re.M)
MENTION = re.compile(r"`struct (\w+)`")
FIELD_ROW = re.compile(r"^\|\s*(\d+)\s*\|\s*([\w ]+?)\s*\|\s*`(\w+)`\s*\|")


def field_of(ctype, declared, numbers):
    """(name, size, count, type as text) of one declarator."""
    name, _, length = declared.strip().partition("[")
    length = length.rstrip("]")
    count = int(numbers.get(length, length)) if length else 1
    if ctype == "char":
        return name, 1, count, f"{count} bytes"
    bits = int(re.search(r"\d+", ctype).group(0))
    word = ("u" if ctype.startswith("u") else "i") + str(bits)
    return name, bits // 8, count, f"{count} {word}" if length else word


def read_structures(text):
    """{structure: [(offset, name, type)]} of format.h, whose fields are all aligned naturally."""
    numbers = dict(DEFINE.findall(text))
    structures = {}
    for structure, body in STRUCT.findall(text):
        offset, fields = 0, []
        for ctype, names in FIELD.findall(body):
            for declared in names.split(","):
                name, size, count, words = field_of(ctype, declared, numbers)
                offset += -offset % size
                fields.append((offset, name, words))
                offset += size * count
        structures[structure] = fields
    return structures


def read_structure_tables(text, structures):
    """The same from format.md, for the structures in format.h."""
    tables, current = {}, None
    for line in text.splitlines():
        mention = MENTION.search(line)
        if line.startswith("#"):
            current = None
        elif mention and mention.group(1) in structures:
            current = tables.setdefault(mention.group(1), [])
        row = FIELD_ROW.match(line)
        if row and current is not None:
            current.append((int(row.group(1)), row.group(3), row.group(2)))
        elif current and not row and not line.startswith("|"):
            current = None
    return tables


def structure_differences(source, document):
    """One sentence for each field that differs."""
    for structure, fields in source.items():
        shown = document.get(structure, [])
        for offset, name, words in sorted(set(fields) - set(shown)):
            yield (
                f"{DOCUMENT}: 'struct {structure}' of {FORMAT} has {words} '{name}' at offset "
                f"{offset}, which is missing"
            )
        for offset, name, words in sorted(set(shown) - set(fields)):
            yield (
                f"{DOCUMENT}: {words} '{name}' at offset {offset} is not in 'struct {structure}' "
                f"of {FORMAT}"
            )


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
    """The same from format.md, from its headings and tables."""
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
    """One sentence for each kind or column that differs."""
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
    """Compares the page with both headers below the root."""
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    try:
        source = read_header((root / HEADER).read_text(encoding="utf-8"))
        structures = read_structures((root / FORMAT).read_text(encoding="utf-8"))
        page = (root / DOCUMENT).read_text(encoding="utf-8")
    except OSError as error:
        print(f"{error.filename}: {error.strerror}; give the root of the project", file=sys.stderr)
        return 2
    found = list(differences(source, read_document(page)))
    found += structure_differences(structures, read_structure_tables(page, structures))
    for sentence in found:
        print(sentence)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
