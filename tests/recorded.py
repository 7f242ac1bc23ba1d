"""The forms of recorded golden artifacts: lines that read well, and that give back the exact bytes."""

from __future__ import annotations

import difflib
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

WIDTH = 270
"""The longest line of an object in JSON, like the rule of a filter."""
ROW = 110
"""The longest row of words."""
NUL = "␀"
"""A recorded NUL. It ends a word, and the line where an option or the name of a step follows."""
STEP = re.compile(rf"{NUL}(?=--[a-z]|[a-z-]{{3,}}{NUL}|\Z)")
BINARY = ".bpf"
FOLDED = 6
"""Removed lines that stand in a difference one by one."""

Lines = list[str]
"""Lines with their ends."""


def lines_of(name: str, content: bytes) -> Lines:
    """An artifact as lines: JSON has one entry or element in each, other files one word or line."""
    text = decoded(content)
    if name.endswith(".json"):
        text = f"{compact(json.loads(text))}\n"
    elif not name.endswith(BINARY):
        assert NUL not in text, f"{name} has the character that stands for NUL"
        text = STEP.sub(f"{NUL}\n", text.replace("\0", NUL))
    assert text.endswith("\n") or name.endswith(BINARY), f"{name} ends within a line"
    lines = split(text)
    assert bytes_of(name, lines) == content, f"{name} can't be recorded"
    return lines


def bytes_of(name: str, lines: Iterable[str]) -> bytes:
    """The artifact of recorded lines. JSON has sorted keys, an indent of two, and no escaped letters."""
    text = "".join(lines)
    if name.endswith(".json"):
        text = json.dumps(json.loads(text), indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    elif not name.endswith(BINARY):
        text = text.replace(f"{NUL}\n", NUL).replace(NUL, "\0")
    return encoded(text)


def decoded(content: bytes) -> str:
    """Text that may hold bytes which are not UTF-8."""
    return content.decode("utf-8", "surrogateescape")


def encoded(text: str) -> bytes:
    """The bytes of `decoded`."""
    return text.encode("utf-8", "surrogateescape")


def split(text: str) -> Lines:
    """Lines at each newline, and nowhere else."""
    *lines, last = text.split("\n")
    return [*(f"{line}\n" for line in lines), *([last] if last else [])]


def compact(value: Any, indent: str = "", before: int = 0) -> str:
    """JSON that has a line for each element of what doesn't fit into one line behind `before` characters."""
    line = json.dumps(value, ensure_ascii=False, sort_keys=True)
    width = WIDTH if isinstance(value, dict) else ROW
    if not isinstance(value, dict | list) or not value or len(indent) + before + len(line) <= width:
        return line
    inner = f"{indent} "
    if isinstance(value, dict):
        keys = {key: f"{json.dumps(key, ensure_ascii=False)}: " for key in sorted(value)}
        parts = [f"{mark}{compact(value[key], inner, len(mark))}" for key, mark in keys.items()]
    elif all(isinstance(each, str) for each in value):
        parts = list(_rows(value, ROW - len(inner)))
    else:
        parts = [compact(each, inner) for each in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{opening}\n{inner}" + f",\n{inner}".join(parts) + f"\n{indent}{closing}"


def _rows(words: Sequence[str], width: int) -> Iterator[str]:
    """Words in rows, one at least for each first letter, so that a new word changes few rows."""
    row = ""
    for word, text in ((word, json.dumps(word, ensure_ascii=False)) for word in words):
        if row and (row[1:2] != word[:1] or len(row) + len(text) + 3 > width):
            yield row
            row = ""
        row = f"{row}, {text}" if row else text
    yield row


def difference(base: Lines, lines: Lines, other: Lines) -> Lines:
    """Hunks that turn one text into another, with as much context as their places need, and no line numbers.

    So a change of both texts elsewhere changes no hunk. `@@` has the line before the hunk. Of many removed
    lines the hunk has the first, `~NUMBER`, and the last. Of many added lines that are in `other` too, it has
    the first and `=NUMBER`.
    """
    matcher = difflib.SequenceMatcher(None, base, lines, autojunk=False)
    for context, after in ((1, False), *((each, True) for each in range(1, len(base) + 2))):
        groups = matcher.get_grouped_opcodes(context)
        found = [line for group in groups for line in _hunk(base, lines, other, group, after=after)]
        try:
            if patched(base, found, other) == lines:
                return found
        except ValueError:
            continue
    raise AssertionError("unreachable: the whole text is context")


def _hunk(
    base: Lines, lines: Lines, other: Lines, group: Sequence[tuple[str, int, int, int, int]], *, after: bool
) -> Iterator[str]:
    if group[0][0] != "equal":
        yield "@@\n"
    for kind, start, end, start_here, end_here in group:
        if kind != "equal":
            gone = [f"-{line}" for line in base[start:end]]
            yield from gone if len(gone) <= FOLDED else (gone[0], f"~{len(gone) - 2}\n", gone[-1])
            yield from _added(lines[start_here:end_here], other)
        elif start == group[0][1]:
            yield f"@@ {base[start]}"
            yield from (f" {line}" for line in base[start + 1 : end])
        elif after or end < group[-1][2]:
            yield from (f" {line}" for line in base[start:end])


def _added(lines: Lines, other: Lines) -> Iterator[str]:
    at = 0
    while at < len(lines):
        yield f"+{lines[at]}"
        there = other[other.index(lines[at]) :] if lines[at] in other else []
        pairs = zip(there, lines[at:], strict=False)
        same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
        if same > FOLDED:
            yield f"={same - 1}\n"
            at += same - 1
        at += 1


def patched(base: Lines, hunks: Lines, other: Lines) -> Lines:
    """The text that a difference makes of its base. Raise ValueError when a hunk has no place."""
    done: Lines = []
    at = 0
    for hunk in _hunks(hunks):
        old = [each for line in hunk for each in _old(line)]
        places = range(at, len(base) - len(old) + 1)
        found = next((i for i in places if all(map(_fits, base[i : i + len(old)], old))), None)
        if found is None:
            raise ValueError("a hunk of the difference does not fit: " + "".join(hunk))
        done += base[at:found]
        for line in hunk:
            if line[0] == "=":
                after = other.index(done[-1]) + 1
                done += other[after : after + int(line[1:])]
            elif line[0] in " +":
                done.append(line[1:])
        at = found + len(old)
    return done + base[at:]


def _old(line: str) -> list[str | None]:
    """The lines of the base that a line of a hunk stands for; None is any."""
    if line[0] == "~":
        return [None] * int(line[1:])
    return [line[1:]] if line[0] in " -" else []


def _fits(line: str, old: str | None) -> bool:
    return old is None or line == old


def _hunks(lines: Lines) -> list[Lines]:
    """The lines of each hunk; the one behind its `@@` is the first of its context."""
    found: list[Lines] = []
    for line in lines:
        if line.startswith("@@"):
            found.append([line[2:]] if line != "@@\n" else [])
        else:
            found[-1].append(line)
    return found
