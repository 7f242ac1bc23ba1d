"""Escapes text that others wrote, control sequences for one, before it is shown on a terminal."""

from __future__ import annotations

import os
from collections.abc import Sequence

_KEPT = frozenset("\n\t")
_QUOTED = 3900
_CUT = 500
_MARK = "  | "


def visible(text: str) -> str:
    """The text with escapes for characters that a terminal interprets or hides, except line breaks and tabs.

    These are control characters, formats like those that turn text around (Unicode: Cc, Cf, Zl, Zp), and
    bytes that are no UTF-8.
    """
    if text.isprintable():
        return text
    return "".join(
        each if each in _KEPT or each.isprintable() else each.encode("unicode_escape").decode()
        for each in text
    )


def one_line(text: str) -> str:
    """The text in one line, without its line breaks, so that only our own text begins a line."""
    return visible(text).replace("\n", r"\n").replace("\t", r"\t")


def message(text: str) -> str:
    """A message of several lines. Further lines get a mark, since some breaks may be untrusted."""
    first, *further = visible(text).split("\n")
    return "\n".join([first, *(_MARK + _unmarked(each) for each in further)])


def _unmarked(line: str) -> str:
    bare = line.lstrip()
    return bare.removeprefix("| ") if bare.startswith("| ") else line


def quoted(lines: Sequence[str]) -> str:
    """The last lines of another program's output, each cut, and after a mark that begins the line.

    It is short enough to be shown completely as the output of a failed program.
    """
    visible_parts: list[str] = []
    remaining = _QUOTED
    for line in reversed(lines):
        marked = f"{_MARK}{line[:_CUT]}"
        remaining -= len(marked) + 1
        if remaining < 0:
            break
        visible_parts.append(marked)
    return "\n".join(reversed(visible_parts))


def notify(line: str) -> None:
    """Write a line of ours to standard error, at once. Raise OSError."""
    os.write(2, f"sandwright: {one_line(line)}\n".encode())


def repeat(line: str) -> None:
    """Write a report of another process of ours to standard error. Raise OSError."""
    os.write(2, f"{one_line(line)}\n".encode())
