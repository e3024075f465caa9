# SPDX-License-Identifier: Apache-2.0
"""Finds this package in a program that may have no moescope to import, or another one.

Run from its path (on_path/sitecustomize.py, join.py), so it has the standard library and nothing of the
package.
"""
import importlib
import importlib.util
import os
import sys
from typing import Any

NAME = "_moescope_auto"  # in sys.modules, where the program's own package is not this one


def part(name: str) -> Any:
    """A module of the package, such as "auto.program": from the program's own package if it is this one, so
    that both know of each other, else under another name: the program has no moescope to import."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    found = importlib.util.find_spec("moescope")
    if found is not None and found.origin and \
            os.path.realpath(os.path.dirname(found.origin)) == os.path.realpath(root):
        return importlib.import_module("moescope." + name)
    if NAME not in sys.modules:
        spec = importlib.util.spec_from_file_location(NAME, os.path.join(root, "__init__.py"),
                                                      submodule_search_locations=[root])
        if spec is None or spec.loader is None:
            raise ImportError("there is no package in " + root)
        sys.modules[NAME] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[NAME])
    return importlib.import_module(NAME + "." + name)
