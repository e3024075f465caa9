#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""embed.py OUT FILE...: the files of the web page as a C table (src/surfaces/html/page_files.h)."""

import os
import sys

TYPES = {".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8",
         ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}


def array(data):
    """Bytes as the lines of an initialiser."""
    return "\n".join("\t" + ", ".join(str(byte) for byte in data[i:i + 24]) + ","
                     for i in range(0, len(data), 24))


def main():
    out, *paths = sys.argv[1:]
    lines = ['#include "surfaces/html/page_files.h"', ""]
    table = []
    for number, path in enumerate(paths):
        with open(path, "rb") as file:
            data = file.read()
        lines += [f"static const unsigned char file_{number}[] = {{", array(data), "};", ""]
        name = os.path.basename(path)
        kind = TYPES[os.path.splitext(name)[1]]
        table.append(f'\t{{ "{name}", "{kind}", file_{number}, sizeof(file_{number}) }},')
    lines += ["const struct page_file page_files[] = {", *table, "\t{ NULL, NULL, NULL, 0 },", "};"]
    with open(out, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
