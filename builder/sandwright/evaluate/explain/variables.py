"""Reads the variables of plain shell scripts back: `variables.sh`, as `sandwright.render.shell` writes it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from sandwright.errors import DocumentError, Problem
from sandwright.evaluate.explain.enclosure import Passing
from sandwright.evaluate.explain.verdict import ArtifactPosition
from sandwright.render.rendered import Rendered
from sandwright.render.shell import VARIABLES

_WORD = r"""(?:[\w@%+=:,./-]+|'[^']*'(?:"'"'[^']*')*)"""
_BEHIND = rf"(?: \\\n       )? ({_WORD})"
_ROW = rf'    (?::|"\$@"((?:{_BEHIND})*))\n'
_ITEM = re.compile(
    rf"(?P<name>[a-z_]+)(?:=(?P<word>{_WORD})?|\(\) \{{\n(?P<rows>(?:{_ROW})*)\}})\n|#.*\n", re.ASCII
)

Words = tuple[tuple[str, ArtifactPosition], ...]


def rows_of(rendered: Rendered) -> dict[str, list[Words]]:
    """Each name with its rows of words; a variable has one row of one word.

    Raise DocumentError for other text.
    """
    text = rendered.artifact(VARIABLES).content.decode("utf-8", "surrogateescape")
    found: dict[str, list[Words]] = {}
    position = 0
    while position < len(text):
        item = _ITEM.match(text, position)
        if item is None:
            raise DocumentError(
                VARIABLES, [Problem(_line_number(text, position), 1, "", "is not as it is rendered")]
            )
        if item["word"] is not None:
            found[item["name"]] = [_match_words(text, item.start("word"), item.end("word"), _WORD)]
        elif item["rows"] is not None:
            rows = re.compile(_ROW, re.ASCII).finditer(text, item.start("rows"), item.end("rows"))
            found[item["name"]] = [
                _match_words(text, *row.span(1), _BEHIND) for row in rows if row[1] is not None
            ]
        position = item.end()
    return found


def _match_words(text: str, start: int, end: int, pattern: str) -> Words:
    return tuple(_match_positions(text, start, end, pattern))


def _match_positions(text: str, start: int, end: int, pattern: str) -> Iterator[tuple[str, ArtifactPosition]]:
    for found in re.compile(pattern, re.ASCII).finditer(text, start, end):
        word, at = (found[1], found.start(1)) if found.re.groups else (found[0], found.start())
        column = at - text.rfind("\n", 0, at)
        yield "".join(shlex.split(word)), ArtifactPosition(VARIABLES, word, _line_number(text, at), column)


def _line_number(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def passed_variables(rows: dict[str, list[Words]]) -> Passing:
    """The variables of the host that are passed on, and those that never are."""
    return Passing(dict(rows["passed"][0]), dict(rows["never"][0]))


def first_words(rows: dict[str, list[Words]], name: str) -> dict[str, ArtifactPosition]:
    """The first words of rows."""
    return dict(row[0] for row in rows[name])
