#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A file as a C string: embed_text.py OUT HEADER NAME FILE. HEADER declares `extern const char
NAME[]`."""
import sys


def c_text(name: str, text: str) -> str:
    """As numbers: string literals have a length limit, and the file may contain any byte."""
    data = text.encode() + b"\0"
    rows = (", ".join(str(b) for b in data[i:i + 20]) for i in range(0, len(data), 20))
    return f"const char {name}[] = {{\n" + ",\n".join(rows) + "\n};\n"


def main() -> None:
    out, header, name, path = sys.argv[1:]
    with open(path, encoding="utf-8") as file:
        text = file.read()
    with open(out, "w", encoding="utf-8") as file:
        file.write(f'/* Made by embed_text.py. */\n#include "{header}"\n\n{c_text(name, text)}')


if __name__ == "__main__":
    main()
