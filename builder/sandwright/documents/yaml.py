"""Reads the YAML documents that people write, as plain data with positions.

The language is the core schema of YAML 1.2 (spec 10.3.2), as PyYAML's defaults are not: `yes`, `no`, `on`,
`off`, `100:50` and `2024-01-01` are text. Octal is `0o17`; a number with a leading zero, like `012` or
`0755`, is text, because YAML 1.1 and 1.2 read it as two different numbers. Constructs that make a document
misleading are refused: duplicate keys, keys that are not text, merge keys, tags, a second document. Aliases
are followed, up to a limit on the expanded size.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sandwright.documents.document import (
    MAX_DEPTH,
    MAX_VALUES,
    Document,
    Path,
    Position,
    Value,
    field_name,
)
from sandwright.documents.yamltree import YamlFault, YamlNode, compose, readable
from sandwright.errors import DocumentError, Problem


def parse_yaml(text: str | bytes, *, file: str) -> Document:
    """Read one document; `file` is its name in messages. Bytes are UTF-8, with or without a byte order mark.

    A document without content is None. Raise DocumentError with the position of everything refused: broken
    syntax and encoding alone, as nothing after them is known; other faults all at once.
    """
    try:
        root = compose(readable(text))
        layout = _Layout()
        data = layout.build_value(root, (), depth=0)
    except YamlFault as fault:
        raise DocumentError(file, [fault.problem]) from None
    if layout.problems:
        raise DocumentError(file, list(layout.problems))
    return Document(file, data, layout.marks, layout.key_marks)


@dataclass
class _Layout:
    """Turns the tree into plain data, follows aliases, and records positions and faults."""

    marks: dict[Path, Position] = field(default_factory=dict)
    key_marks: dict[Path, Position] = field(default_factory=dict)
    problems: dict[Problem, None] = field(default_factory=dict)

    def build_value(self, node: YamlNode, path: Path, *, depth: int) -> Value:
        if len(self.marks) >= MAX_VALUES:
            raise YamlFault(node.position, f"aliases make the document grow to more than {MAX_VALUES} values")
        if depth > MAX_DEPTH:
            raise YamlFault(node.position, f"aliases make this nested more than {MAX_DEPTH} deep")
        self.marks[path] = node.position
        if node.items is not None:
            return [
                self.build_value(item, (*path, index), depth=depth + 1)
                for index, item in enumerate(node.items)
            ]
        if node.pairs is not None:
            return self._build_mapping(node.pairs, path, depth)
        return node.content

    def _build_mapping(
        self, pairs: list[tuple[YamlNode, YamlNode]], path: Path, depth: int
    ) -> dict[str, Value]:
        data: dict[str, Value] = {}
        for key, value in pairs:
            name = key.content
            if key.items is not None or key.pairs is not None or not isinstance(name, str):
                hint = f'; put it in quotes: "{key.plain}"' if key.plain else ""
                self._record_problem(key, path, f"a key must be text{hint}")
            elif name == "<<" and key.plain == name:
                self._record_problem(key, path, "merge keys (<<) are not used here")
            elif name in data:
                first = self.key_marks[*path, name]
                self._record_problem(key, (*path, name), f"is given twice; first in line {first[0]}")
            else:
                self.key_marks[*path, name] = key.position
                data[name] = self.build_value(value, (*path, name), depth=depth + 1)
        return data

    def _record_problem(self, node: YamlNode, path: Path, message: str) -> None:
        self.problems[Problem(*node.position, field_name(path), message)] = None
