"""A parsed document: plain data, with the position of each value."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from sandwright.errors import DocumentError, Problem

MAX_BYTES = 1 << 20
MAX_VALUES = 50_000
MAX_DEPTH = 40

Position = tuple[int, int]
"""Line and column, both from 1."""

Scalar = str | int | float | bool | None

Path = tuple[str | int, ...]
"""The way to a value from the root: keys of mappings and indices of lists."""

Value: TypeAlias = "Scalar | list[Value] | dict[str, Value]"


@dataclass(frozen=True)
class Document:
    """One parsed document.

    `data` is made of dict, list, str, int, float, bool and None; keys are text. `marks` gives the position of
    each value, `key_marks` that of each mapping key, both by the path of the value. An aliased value has the
    alias' position, and the values inside it the positions where they were written.
    """

    file: str
    data: Value
    marks: Mapping[Path, Position]
    key_marks: Mapping[Path, Position]

    def position(self, path: Path) -> Position:
        """The position of a value; for an absent value, the position of its nearest ancestor."""
        return _nearest_position(self.marks, path) or (1, 1)

    def key_position(self, path: Path) -> Position:
        """The position of a value's key; the same as `position` for a value without a key."""
        return self.key_marks.get(path) or self.position(path)

    def problem(self, path: Path, message: str, *, at_key: bool = False) -> Problem:
        """A fault of the value at a path."""
        position = self.key_position(path) if at_key else self.position(path)
        return Problem(*position, field_name(path), message)

    def refuse(self, faults: Iterable[tuple[Path, str]]) -> None:
        """Raise DocumentError with these faults, each the path of a value and a message, if there are any."""
        problems = [self.problem(path, message) for path, message in faults]
        if problems:
            raise DocumentError(self.file, problems)


def without_positions(data: Value, *, file: str) -> Document:
    """A document of data without a text: its faults name only the file and the field."""
    return Document(file, data, {(): (0, 0)}, {})


class FieldErrors(ValueError):
    """Faults that a check found inside the value it checks.

    Each has the path from that value and a message. A path may end in a key that isn't there.
    """

    def __init__(self, faults: Iterable[tuple[Path, str]]) -> None:
        """`faults` holds at least one."""
        self.faults = tuple(faults)
        super().__init__("; ".join(message for _, message in self.faults))


def field_name(path: Path) -> str:
    """A path as people write it: `files[0].mode`; a key that is no plain word in brackets: `set["a b"]`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*", step):
            text += f".{step}" if text else step
        else:
            text += f"[{json.dumps(step, ensure_ascii=False)}]"
    return text


def _nearest_position(marks: Mapping[Path, Position], path: Path) -> Position | None:
    while path and path not in marks:
        path = path[:-1]
    return marks.get(path)


def shown_value(value: object) -> str:
    """A value as a message shows it."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return f"'{value}'" if len(value) <= 60 else f"'{value[:57]}...'"
        case list():
            return "a list"
        case dict():
            return "a mapping"
        case _:
            return str(value)[:60]
