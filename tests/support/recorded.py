"""The forms of recorded golden artifacts: readable lines, from which the exact bytes can be restored."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

WIDTH = 270
"""The longest line of an object in JSON, like the rule of a filter."""
ROW = 110
"""The longest row of words."""
NUL = "␀"
"""A recorded NUL. It ends a word, and the line if an option or the name of a step follows."""
STEP = re.compile(rf"{NUL}(?=--[a-z]|[a-z-]{{3,}}{NUL}|\Z)")
BINARY = ".bpf"

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
    """Text that may contain bytes which are not UTF-8."""
    return content.decode("utf-8", "surrogateescape")


def encoded(text: str) -> bytes:
    """The bytes of `decoded`."""
    return text.encode("utf-8", "surrogateescape")


def split(text: str) -> Lines:
    """Lines at each newline, and nowhere else."""
    *lines, last = text.split("\n")
    return [*(f"{line}\n" for line in lines), *([last] if last else [])]


def compact(value: Any, indent: str = "", before: int = 0) -> str:
    """JSON with a line for each element of a value that doesn't fit in the line after `before` letters."""
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
    """Words in rows, at least one for each first letter, so that a new word changes few rows."""
    row = ""
    for word, text in ((word, json.dumps(word, ensure_ascii=False)) for word in words):
        if row and (row[1:2] != word[:1] or len(row) + len(text) + 3 > width):
            yield row
            row = ""
        row = f"{row}, {text}" if row else text
    yield row
