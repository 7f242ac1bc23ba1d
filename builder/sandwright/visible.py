"""How text that others wrote is shown on a terminal."""

from __future__ import annotations

import os

_KEPT = frozenset("\n\t")


def visible(text: str) -> str:
    """The text with escapes for what a terminal would obey or hide, line breaks and tabs excepted.

    Those are control characters, formats like those that turn text around (Unicode: Cc, Cf, Zl, Zp), and
    bytes that are no UTF-8.
    """
    if text.isprintable():
        return text
    return "".join(
        each if each in _KEPT or each.isprintable() else each.encode("unicode_escape").decode()
        for each in text
    )


def one_line(text: str) -> str:
    """The same in one line, whatever breaks are in it: what begins a line is ours."""
    return visible(text).replace("\n", r"\n").replace("\t", r"\t")


def say(line: str) -> None:
    """Write a line of ours to standard error, at once. Raise OSError."""
    os.write(2, f"sandwright: {visible(line)}\n".encode())
