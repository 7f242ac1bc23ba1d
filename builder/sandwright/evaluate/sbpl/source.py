"""The text of a profile and the places in it.

libsandbox reads a profile as bytes, measures strings in bytes and matches paths byte by byte. So profiles,
paths and names are held here as *octets*: a `str` in which each character is one byte (its code point is
below 256).
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from typing import NamedTuple


def octets(text: str) -> str:
    """The UTF-8 bytes of `text`, one per character. Surrogate escapes give back the byte they stand for."""
    if text.isascii():
        return text
    try:
        return text.encode("utf-8", "surrogateescape").decode("latin-1")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass").decode("latin-1")


def readable(text: str) -> str:
    """Octets as text for a person; bytes that are not UTF-8 become replacement characters."""
    return text if text.isascii() else text.encode("latin-1").decode("utf-8", "replace")


@dataclass(frozen=True, order=True)
class Position:
    """A place in a file. `line` and `column` count from 1, columns in characters."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class SourceFile:
    """The octets of one file and the name to show for it."""

    def __init__(self, name: str, text: str | bytes) -> None:
        """`name` is shown in messages; `text` is the file's content, decoded or not."""
        self.name = name
        self.octets = text.decode("latin-1") if isinstance(text, bytes) else octets(text)
        self._line_starts: list[int] | None = None

    def position(self, offset: int) -> Position:
        """The line and column of an offset in `octets`."""
        starts = self._line_starts
        if starts is None:
            starts = self._line_starts = [0, *(i + 1 for i, c in enumerate(self.octets) if c == "\n")]
        line = bisect.bisect_right(starts, offset)
        before = self.octets[starts[line - 1] : offset]
        return Position(self.name, line, len(readable(before)) + 1)


class Span(NamedTuple):
    """A stretch of a file, from `start` up to `end`, in octets."""

    source: SourceFile
    start: int
    end: int

    @property
    def position(self) -> Position:
        """The position of the span's beginning."""
        return self.source.position(self.start)

    @property
    def text(self) -> str:
        """The source text there."""
        return readable(self.source.octets[self.start : self.end])
