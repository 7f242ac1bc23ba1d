"""Errors in a profile."""

from __future__ import annotations

from sandwright.errors import DocumentError, Problem
from sandwright.evaluate.sbpl.source import Position, Span


class ProfileError(DocumentError):
    """A profile does not parse, or does not compile as libsandbox would compile it.

    `str()` gives `file:line:column: message`. The command line ends with status 2.
    """

    def __init__(self, position: Position, message: str) -> None:
        """`position` is where the fault shows."""
        self.position = position
        self.message = message
        super().__init__(position.file, [Problem(position.line, position.column, "", message)])


class SbplFault(Exception):
    """An error while a profile ran; the caller that knows the form adds the position."""

    def __init__(self, message: str, span: Span | None = None) -> None:
        """`span` is the form at fault, if it is known where the error is raised."""
        self.message = message
        self.span = span
        super().__init__(message)
