# SPDX-License-Identifier: Apache-2.0
"""The version of this package. Only meson.build contains it: an installed package has it in a file
next to its library, a source tree has meson.build itself."""
import os
import re

_HERE = os.path.dirname(os.path.abspath(__file__))
_PLACES = (
    (os.path.join(_HERE, "_native", "version"), r"\A(\S+)\s*\Z"),
    (os.path.join(os.path.dirname(os.path.dirname(_HERE)), "meson.build"),
     r"\bproject\('moescope'.*?\bversion : '([^']+)'"),
)

# A package that was copied by hand, without either.
UNKNOWN = "unknown"


def _read() -> str:
    for path, pattern in _PLACES:
        try:
            with open(path, encoding="utf-8") as file:
                found = re.search(pattern, file.read(), re.S)
        except OSError:
            continue
        if found:
            return found.group(1)
    return UNKNOWN


__version__ = _read()
