# SPDX-License-Identifier: Apache-2.0
"""What moescope raises. Every message names the remedy."""


class MoescopeError(Exception):
    """Base of all errors of this package."""


class LibraryNotFound(MoescopeError, OSError):
    """libmoescope.so was not found."""


class LibraryMismatch(MoescopeError):
    """The library has a different version than this package."""


class StartError(MoescopeError, OSError):
    """Recording could not start: the run directory cannot be created or written."""

    def __str__(self) -> str:
        return str(self.strerror or super().__str__())


class NoExpertsFound(MoescopeError, ValueError):
    """The model has no part that looks like a mixture of experts."""


class UnknownRouter(MoescopeError, ValueError):
    """The model has experts, but how its router chooses them is unknown: register it."""


class BadDimensions(MoescopeError, ValueError):
    """The given dimensions do not fit the model or each other."""


class ProfilerClosed(MoescopeError, RuntimeError):
    """The profiler has been closed and can no longer be used."""


class NotCaptured(MoescopeError, RuntimeError):
    """What the model does cannot be recorded this way (a compiled or captured part)."""


class ToolError(MoescopeError, RuntimeError):
    """The moescope program failed; the message is the program's."""
