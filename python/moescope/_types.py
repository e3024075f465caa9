# SPDX-License-Identifier: Apache-2.0
"""Names of what has no type of its own here: it comes from the tool, or from the program that is looked
at. Any stands in few other places."""
from typing import Any, Callable

Json = dict[str, Any]  # an object of the tool's JSON, or a row with names
Args = tuple[Any, ...]  # of a call that is passed on
Function = Callable[..., Any]  # of the program
