# SPDX-License-Identifier: Apache-2.0
"""The moescope program of this package: `moescope …` and `python -m moescope …`."""
import os
import sys

from . import errors
from ._library import tool_path


def main() -> None:
    try:
        path = tool_path()
    except errors.MoescopeError as why:
        sys.exit(f"moescope: {why}")
    os.execv(path, [path, *sys.argv[1:]])


if __name__ == "__main__":
    main()
