"""Reads control files, paragraphs of fields: Debian's (deb822(5)), and Alpine's (apk-index(5)). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

_FIELD = re.compile(r"([!-9;-~]+):[ \t]*(.*)")
_BETWEEN = re.compile(r"\n[ \t]*\n")


def parse_control(text: str) -> dict[str, str]:
    """The fields of one paragraph of deb822 text. Other lines are dropped."""
    found: dict[str, str] = {}
    last = ""
    for line in text.split("\n"):
        if line[:1] in (" ", "\t") and last:
            found[last] += "\n" + line
        elif match := _FIELD.fullmatch(line):
            last = match[1]
            found[last] = match[2].rstrip()
    return found


def control_paragraphs(text: str) -> Iterator[dict[str, str]]:
    """The fields of each paragraph of deb822 text that has some."""
    yield from filter(None, map(parse_control, _BETWEEN.split(text.replace("\r\n", "\n"))))


def apk_paragraphs(text: str) -> Iterator[list[tuple[str, str]]]:
    """The lines `X:value` of each paragraph of Alpine's index and database, in order."""
    for paragraph in text.split("\n\n"):
        yield [(line[0], line[2:]) for line in paragraph.split("\n") if line[1:2] == ":"]
