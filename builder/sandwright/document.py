"""Reads the YAML documents that people write, as plain data with positions.

The language is the core schema of YAML 1.2 (spec 10.3.2), as PyYAML's defaults are not: `yes`, `no`, `on`,
`off`, `100:50` and `2024-01-01` are text. Octal is `0o17`; a number with a leading zero, like `012` or
`0755`, is text, because YAML 1.1 and 1.2 read it as two different numbers. What makes a document mean
something else than it seems to is refused: keys given twice, keys that are not text, merge keys, tags, a
second document. Aliases are followed, up to a limit on what they grow to.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from sandwright.errors import DocumentError, Problem
from sandwright.yamltree import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_VALUES,
    Position,
    Scalar,
    YamlFault,
    YamlNode,
    compose,
    readable,
)

__all__ = [
    "MAX_BYTES",
    "MAX_DEPTH",
    "MAX_VALUES",
    "Document",
    "FieldErrors",
    "Path",
    "Position",
    "Scalar",
    "Value",
    "field_name",
    "parse",
]

Path = tuple[str | int, ...]
"""The way to a value from the root: keys of mappings and indices of lists."""

Value: TypeAlias = "Scalar | list[Value] | dict[str, Value]"


@dataclass(frozen=True)
class Document:
    """One parsed YAML document.

    `data` is made of dict, list, str, int, float, bool and None; keys are text. `marks` gives the position of
    each value, `key_marks` that of each mapping key, both by the path of the value. A value that an alias
    brought has the alias' position, and what is inside it has the position where it was written.
    """

    file: str
    data: Value
    marks: Mapping[Path, Position]
    key_marks: Mapping[Path, Position]

    def position(self, path: Path) -> Position:
        """Where a value is; for one that isn't there, where its nearest ancestor is."""
        return _nearest(self.marks, path) or (1, 1)

    def key_position(self, path: Path) -> Position:
        """Where the key of a value is; the same as `position` for what has no key of its own."""
        return self.key_marks.get(path) or self.position(path)


def parse(text: str | bytes, *, file: str) -> Document:
    """Read one document; `file` is its name in messages. Bytes are UTF-8, with or without a byte order mark.

    A document without content is None. Raise DocumentError with the position of everything refused: broken
    syntax and encoding alone, as nothing after them is known; other faults all at once.
    """
    try:
        root = compose(readable(text))
        layout = _Layout()
        data = layout.place(root, (), depth=0)
    except YamlFault as fault:
        raise DocumentError(file, [fault.problem]) from None
    if layout.problems:
        raise DocumentError(file, list(layout.problems))
    return Document(file, data, layout.marks, layout.key_marks)


class FieldErrors(ValueError):
    """Faults that a validator found inside the value it checks.

    Each has the path from that value and a message. A path may end in a key that isn't there.
    """

    def __init__(self, faults: Iterable[tuple[Path, str]]) -> None:
        """`faults` holds at least one."""
        self.faults = tuple(faults)
        super().__init__("; ".join(message for _, message in self.faults))


@dataclass
class _Layout:
    """Turns the tree into plain data, follows aliases, and notes where everything is and what is wrong."""

    marks: dict[Path, Position] = field(default_factory=dict)
    key_marks: dict[Path, Position] = field(default_factory=dict)
    problems: dict[Problem, None] = field(default_factory=dict)

    def place(self, node: YamlNode, path: Path, *, depth: int) -> Value:
        if len(self.marks) >= MAX_VALUES:
            raise YamlFault(node.position, f"aliases make the document grow to more than {MAX_VALUES} values")
        if depth > MAX_DEPTH:
            raise YamlFault(node.position, f"aliases make this nested more than {MAX_DEPTH} deep")
        self.marks[path] = node.position
        if node.items is not None:
            return [
                self.place(item, (*path, index), depth=depth + 1) for index, item in enumerate(node.items)
            ]
        if node.pairs is not None:
            return self._mapping(node.pairs, path, depth)
        return node.content

    def _mapping(self, pairs: list[tuple[YamlNode, YamlNode]], path: Path, depth: int) -> dict[str, Value]:
        data: dict[str, Value] = {}
        for key, value in pairs:
            name = key.content
            if key.items is not None or key.pairs is not None or not isinstance(name, str):
                hint = f'; put it in quotes: "{key.plain}"' if key.plain else ""
                self._refuse(key, path, f"a key must be text{hint}")
            elif name == "<<" and key.plain == name:
                self._refuse(key, path, "merge keys (<<) are not used here")
            elif name in data:
                first = self.key_marks[*path, name]
                self._refuse(key, (*path, name), f"is given twice; first in line {first[0]}")
            else:
                self.key_marks[*path, name] = key.position
                data[name] = self.place(value, (*path, name), depth=depth + 1)
        return data

    def _refuse(self, node: YamlNode, path: Path, message: str) -> None:
        self.problems[Problem(*node.position, field_name(path), message)] = None


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


def _nearest(marks: Mapping[Path, Position], path: Path) -> Position | None:
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
