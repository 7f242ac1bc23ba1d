"""Tables in Markdown, and the marked parts of a page that a program writes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from sandwright.errors import DocumentError, Problem

_BEGIN = re.compile(r"<!-- generated: ([a-z0-9 -]+) -->")
_END = "<!-- end -->"


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table. Cells are Markdown in one line; a bar in one is escaped."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(_cell(each) for each in line)} |\n" for line in lines)


def code(text: str) -> str:
    """A text that is shown as it is."""
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def parts(page: str) -> tuple[str, ...]:
    """The names of the parts of a page that are generated, in order."""
    return tuple(_BEGIN.findall(page))


def fill_generated(page: str, texts: Mapping[str, str], *, file: str) -> str:
    """A page with each generated part replaced by its text; all else stays.

    Raise DocumentError for a part of which there is no text, and for one without an end.
    """
    return "\n".join(_filled(page.split("\n"), texts, file))


def _filled(lines: Sequence[str], texts: Mapping[str, str], file: str) -> Iterator[str]:
    inside = 0
    for number, line in enumerate(lines, 1):
        begin = _BEGIN.fullmatch(line)
        if inside and line != _END and not begin:
            continue
        if bool(inside) is bool(begin) and (begin or line == _END):
            raise DocumentError(file, [Problem(number, 1, "", "a generated part begins or ends twice")])
        yield line
        inside = number if begin else 0 if line == _END else inside
        if begin:
            if begin[1] not in texts:
                raise DocumentError(file, [Problem(number, 1, "", f"nothing is generated as {begin[1]!r}")])
            yield from ("", texts[begin[1]].strip("\n"), "")
    if inside:
        raise DocumentError(file, [Problem(inside, 1, "", f"the generated part has no {_END}")])


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
