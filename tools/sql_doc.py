#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the output of `moescope sql --schema` into docs/sql.md: sql_doc.py [MOESCOPE]

The tables come from the record kinds and the columns of the views; run it again when these change.
"""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/sql.md"
FENCE = "```sql\n"


def main():
    program = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "build/moescope")
    schema = subprocess.run([program, "sql", "--schema"], stdout=subprocess.PIPE, text=True,
                            check=True).stdout
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(page[:page.rindex(FENCE)] + FENCE + schema + "```\n", encoding="utf-8")


if __name__ == "__main__":
    main()
