# SPDX-License-Identifier: Apache-2.0
"""Checks arguments of the package's calls: errors name the argument, before C sees it."""
import operator
from collections.abc import Iterable
from typing import Any, Optional, TypeVar

T = TypeVar("T")


def whole(name: str, value: Any, least: Optional[int] = 0, remedy: str = "") -> int:
    """A whole number of any library; `least` None: any."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}; give a whole number{remedy}") from None
    if least is not None and number < least:
        raise ValueError(f"{name} is {number}; give {least} or more{remedy}")
    return number


def real(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} is {value!r}; give a number") from None


def text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} is {value!r}; give a string")
    return value


def one_of(name: str, value: T, known: Iterable[T]) -> T:
    known = list(known)
    if value not in known:
        raise ValueError(f"{name} {value!r} is not one of "
                         + ", ".join(str(one) for one in known if one is not None))
    return value
