#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/json.md from docs/schema/moescope.schema.json; --check: is it current?

The schema is the source: a new key is a line there with its description, and this is run again.
"""

import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCHEMA = ROOT / "docs/schema/moescope.schema.json"
PAGE = ROOT / "docs/json.md"

HEAD = """\
# JSON

<!-- Made by tools/json_doc.py from docs/schema/moescope.schema.json; change that, not this. -->

`report`, every table command, `compare`, `summary`, `doctor`, `explain`, `dump`, `sql` and `bench` print one
object with `--json`. With several runs `report` prints an array of them, as does `sql` with several queries.
[moescope.schema.json](schema/moescope.schema.json) is this page as a JSON Schema (draft 2020-12); a
test holds it against what the commands print, so that no key is missing here.

- `schema` is `moescope/NAME/1`. The number grows when a key changes its meaning or goes away. New
  keys may come at any time.
- Units are in the keys: `_ns`, `_bytes`, `_pct`, `_per_s`, `_ms`, `_mb` (10^6 bytes). Times without
  `realtime` in their name count from the start of the run.
- A value that is not known is `null`, and `KEY_reason` beside it says why. Zero is a measurement.
- *est.* marks an estimate, with its assumption beside it. `moescope explain KEY` has the definition,
  the source and the caveats of a figure.
- Keys marked with * are there only where they apply.

"""


def kind(schema):
    """A type in words; names of objects link to their table."""
    if "const" in schema:
        return f"`{schema['const']}`"
    if "anyOf" in schema:
        return " or ".join(kind(one) for one in schema["anyOf"])
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{name})"
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return " or ".join(f"array of {kind(schema['items'])}" if one == "array" else one
                       for one in types)


def table(schema):
    if "properties" not in schema:
        names = schema.get("propertyNames", {}).get("enum")
        keys = ", ".join(f"`{name}`" for name in names) if names else "free"
        return [f"Keys: {keys}. Values: {kind(schema['additionalProperties'])}.", ""]
    lines = ["| key | type | meaning |", "|---|---|---|"]
    for key, value in schema["properties"].items():
        mark = "" if key in schema["required"] else " *"
        meaning = value["description"].replace("|", "\\|")
        lines.append(f"| `{key}`{mark} | {kind(value)} | {meaning} |")
    return lines + [""]


def page():
    defs = json.loads(SCHEMA.read_text(encoding="utf-8"))["$defs"]
    lines = ["## Documents", ""]
    for name, schema in defs.items():
        if name.startswith("document_"):
            title = name[len("document_"):]
            lines += [f"### {title}", "", f"`moescope/{title}/1`: {schema['description']}.", ""]
            lines += table(schema)
    lines += ["## Parts", ""]
    for name, schema in defs.items():
        if not name.startswith("document_"):
            lines += [f"### {name}", "", schema["description"].rstrip(".") + ".", ""]
            lines += table(schema)
    return HEAD + "\n".join(lines).rstrip("\n") + "\n"


def main():
    if sys.argv[1:] == ["--check"]:
        if PAGE.read_text(encoding="utf-8") != page():
            sys.exit("docs/json.md is not what the schema says: run tools/json_doc.py")
        return
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
