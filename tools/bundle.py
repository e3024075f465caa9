#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bundle.py ESBUILD MAIN SCHEMA OUT DEPFILE: the page's TypeScript as one script, with the meanings of the keys
that the JSON Schema describes, and what it was made from."""

import json
import os
import re
import subprocess
import sys

# Documents that the page shows; what they refer to follows.
DOCUMENTS = ("report", "kernels", "ops", "api", "transfers", "comm", "moe", "steps", "request_times", "routing",
             "routing-steps", "routing-experts", "routing-pairs", "routing-k", "memory", "efficiency", "counters",
             "counters-kernels", "counters-ranges", "counters-layers", "counters-experts", "counters-stalls",
             "counters-lines", "hardware",
             "compare")


def meanings(schema_path):
    """{part: {key: what it means}}"""
    with open(schema_path, encoding="utf-8") as file:
        parts = json.load(file)["$defs"]
    wanted, found = [f"document_{name}" for name in DOCUMENTS], {}
    while wanted:
        name = wanted.pop()
        if name in found:
            continue
        found[name] = {key: value["description"] for key, value in parts[name].get("properties", {}).items()
                       if "description" in value}
        wanted += re.findall(r'"#/\$defs/([^"]+)"', json.dumps(parts[name]))
    return {name: keys for name, keys in sorted(found.items()) if keys and not name.startswith("document_")}


def main():
    esbuild, start, schema, out, depfile = sys.argv[1:]
    known = json.dumps(meanings(schema), separators=(",", ":"))
    subprocess.run([esbuild, start, "--bundle", "--minify", "--target=es2021", "--log-level=warning",
                    f"--define:MEANINGS={known}", f"--outfile={out}"], check=True)
    folder = os.path.dirname(start)
    sources = sorted(os.path.join(where, name) for where, _, names in os.walk(folder) for name in names)
    with open(depfile, "w", encoding="utf-8") as file:
        file.write(f"{out}: {' '.join(source.replace(' ', '%s ' % chr(92)) for source in [schema, *sources])}\n")


if __name__ == "__main__":
    main()
