# SPDX-License-Identifier: Apache-2.0
"""Converts what SGLang's expert recorder left in a folder to a table: sglang_experts.py FOLDER
OUT.csv

Mode `stat`: each file has logical_count, tokens by forward pass, layer and expert, of all ranks.
"""
import csv
import glob
import os
import sys
from typing import Any


def main() -> None:
    import torch
    folder, out = sys.argv[1:]
    paths = sorted(glob.glob(os.path.join(glob.escape(folder), "expert_distribution_recorder_*.pt")))
    if not paths:
        sys.exit(f"SGLang has left no expert_distribution_recorder_*.pt in {folder}")
    counts: Any = None
    for path in paths:
        dump = torch.load(path, map_location="cpu", weights_only=True)
        one = dump["logical_count"].to(torch.int64).sum(0)
        counts = one if counts is None else counts + one
    with open(out + ".tmp", "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["layer", "expert", "tokens"])
        table.writerows([layer, expert, tokens] for layer, row in enumerate(counts.tolist())
                        for expert, tokens in enumerate(row))
    os.replace(out + ".tmp", out)


if __name__ == "__main__":
    main()
