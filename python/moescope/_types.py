# SPDX-License-Identifier: Apache-2.0
"""Names of what has no type of its own here: it comes from the tool, or from the program that is looked
at."""
import os
from typing import Any, Callable, Union

Json = dict[str, Any]  # an object of the tool's JSON, or a row with names
Args = tuple[Any, ...]  # of a call that is passed on
Function = Callable[..., Any]  # of the program
Path = Union[str, "os.PathLike[str]"]
