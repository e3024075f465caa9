#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the table of parameters in docs/experiments.md from the program; --check: is it current?

The table in src/lab/shared/experiment.c is the source. MOESCOPE names the program, by default
build/moescope.
"""

import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/experiments.md"
BEGIN, END = "<!-- parameters -->\n", "<!-- end of parameters -->"


def table():
    program = os.environ.get("MOESCOPE", str(ROOT / "build/moescope"))
    listed = subprocess.run([program, "bench", "--list-parameters", "--json"], check=True,
                            capture_output=True, text=True).stdout
    lines, part = [], None
    for row in json.loads(listed)["rows"]:
        if row["part"] != part:
            part = row["part"]
            lines += ["", f"### {part[0].upper()}{part[1:]}", "",
                      "| parameter | type | default | meaning |", "|---|---|---|---|"]
        default = f"`{row['default']}`" if row["default"] else ""
        choices = f": {', '.join(row['choices'])}" if row["choices"] else ""
        lines.append(f"| `{row['key']}` | {row['type']} | {default} | {row['help']}{choices} |")
    return "\n".join(lines) + "\n\n"


def main():
    text = PAGE.read_text(encoding="utf-8")
    head, rest = text.split(BEGIN)
    page = head + BEGIN + table() + END + rest.split(END)[1]
    if sys.argv[1:] == ["--check"]:
        if page != text:
            sys.exit("docs/experiments.md is not what the table says: run tools/parameters_doc.py")
        return
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
