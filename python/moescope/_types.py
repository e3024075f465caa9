# SPDX-License-Identifier: Apache-2.0
"""Names for things without a type here: they come from the tool, or from the profiled program."""
import os
from typing import Any, Callable, Union

Json = dict[str, Any]  # an object of the tool's JSON, or a row with names
Args = tuple[Any, ...]  # of a forwarded call
Function = Callable[..., Any]  # of the program
Path = Union[str, "os.PathLike[str]"]
