"""Reads the YAML documents that people write: plain data with positions, then a validated model.

The language is the core schema of YAML 1.2 (spec 10.3.2), as PyYAML's defaults are not: `yes`, `no`, `on`,
`off`, `100:50` and `2024-01-01` are text. Octal is `0o17`; a number with a leading zero, like `012` or
`0755`, is text, because YAML 1.1 and 1.2 read it as two different numbers. What makes a document mean
something else than it seems to is refused: keys given twice, keys that are not text, merge keys, tags, a
second document. Aliases are followed, up to a limit on what they grow to.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import yaml

from sandwright.errors import DocumentError, Problem

if TYPE_CHECKING:
    from pydantic import BaseModel

    M = TypeVar("M", bound=BaseModel)

Path = tuple[str | int, ...]
"""The way to a value from the root: keys of mappings and indices of lists."""

Position = tuple[int, int]
"""Line and column, both from 1."""

Scalar = str | int | float | bool | None
Value: TypeAlias = "Scalar | list[Value] | dict[str, Value]"

MAX_BYTES = 1 << 20
MAX_VALUES = 50_000
MAX_DEPTH = 40

_LOADER: Any = getattr(
    yaml, "CSafeLoader", yaml.SafeLoader
)  # libyaml's parser where it is there: 20 times faster
_UNREADABLE = re.compile(
    "[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_OCTAL = re.compile(r"0o[0-7]+")
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_CONSTANTS: Mapping[str, bool | float | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}


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
        root = _compose(_readable(text))
        layout = _Layout()
        data = layout.place(root, (), depth=0)
    except _Fault as fault:
        raise DocumentError(file, [fault.problem]) from None
    if layout.problems:
        raise DocumentError(file, list(layout.problems))
    return Document(file, data, layout.marks, layout.key_marks)


def load_model(
    model: type[M], document: Document, *, context: Mapping[str, Any] | None = None, strict: bool = True
) -> M:
    """Make a pydantic model of a document. `context` reaches the model's validators.

    Validation is strict, as for JSON: text is not taken for a number or a truth value, while a list fills a
    tuple or a set and text fills an Enum. A `mode="before"` validator leaves that mode, since what it gives
    counts as Python's: a field that has one and is a tuple, set or Enum takes `Field(strict=False)`.
    A validator that finds faults deeper inside what it checks raises `FieldErrors`.
    Raise DocumentError with every problem that pydantic found, in plain words and with its position.
    """
    # Here, because these cost 80 ms, which a run that finds nothing to do should not pay.
    from pydantic import ValidationError  # noqa: PLC0415

    from sandwright.validation import problems  # noqa: PLC0415

    try:
        return model.model_validate_json(json.dumps(document.data), strict=strict, context=context)
    except ValidationError as invalid:
        raise DocumentError(document.file, problems(model, document, invalid)) from None


class FieldErrors(ValueError):
    """Faults that a validator found inside the value it checks.

    Each has the path from that value and a message. A path may end in a key that isn't there.
    """

    def __init__(self, faults: Iterable[tuple[Path, str]]) -> None:
        """`faults` holds at least one."""
        self.faults = tuple(faults)
        super().__init__("; ".join(message for _, message in self.faults))


class _Fault(Exception):
    """Nothing more can be read after this."""

    def __init__(self, position: Position, message: str) -> None:
        self.problem = Problem(*position, "", message)
        super().__init__(message)


@dataclass(slots=True)
class _Node:
    """A value as it is written. `content` is a scalar's value, a list's items or a mapping's pairs."""

    position: Position
    content: Scalar
    plain: str | None = None
    items: list[_Node] | None = None
    pairs: list[tuple[_Node, _Node]] | None = None
    complete: bool = True


def _readable(text: str | bytes) -> str:
    """The document as text that holds only what YAML allows and every reader sees as the same lines."""
    if len(text) > MAX_BYTES:
        raise _Fault((0, 0), f"is larger than {MAX_BYTES >> 20} MiB")
    text = (_decoded(text) if isinstance(text, bytes) else text).removeprefix("\ufeff")
    unreadable = _UNREADABLE.search(text)
    if unreadable:
        raise _Fault(
            _end_of(text[: unreadable.start()]), f"character U+{ord(unreadable[0]):04X} is not allowed"
        )
    return text


def _decoded(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode()
        raise _Fault(_end_of(before), f"byte 0x{raw[error.start]:02x} is not valid UTF-8") from None


def _end_of(text: str) -> Position:
    lines = re.split(r"\r\n|\r|\n", text)
    return len(lines), len(lines[-1]) + 1


def _compose(text: str) -> _Node:
    """The tree of the document, aliases as references to the node they name."""
    try:
        return _Composer().compose(yaml.parse(text, Loader=_LOADER))
    except yaml.MarkedYAMLError as error:
        raise _syntax_fault(error, text) from None
    except yaml.YAMLError as error:
        raise _Fault((0, 0), f"is not YAML: {error}") from None


def _syntax_fault(error: yaml.MarkedYAMLError, text: str) -> _Fault:
    mark = error.problem_mark or error.context_mark
    position = (mark.line + 1, mark.column + 1) if mark else (0, 0)
    lines = re.split(r"\r\n|\r|\n", text)
    position = min(position, (len(lines), len(lines[-1]) + 1))  # libyaml sees the end in a line of its own
    line = lines[position[0] - 1]
    if "\t" in line[: position[1]] and not line[: position[1]].strip():
        return _Fault((position[0], line.index("\t") + 1), "a tab can't indent; use spaces")
    message = error.problem or "syntax error"
    if error.context:
        message += f" {error.context}"
        if error.context_mark and error.context_mark.line + 1 != position[0]:
            message += f" that begins in line {error.context_mark.line + 1}"
    return _Fault(position, f"is not YAML: {message}")


class _Composer:
    """Builds the tree from the parser's events, without recursion, and stops at what is too much."""

    def __init__(self) -> None:
        self._root: _Node | None = None
        self._open: list[_Node] = []
        self._keys: list[_Node | None] = []
        self._anchors: dict[str, _Node] = {}
        self._count = 0

    def compose(self, events: Iterator[yaml.Event]) -> _Node:
        for event in events:
            match event:
                case yaml.DocumentStartEvent():
                    self._start_document(event)
                case yaml.ScalarEvent():
                    self._add(_scalar(event), event)
                case yaml.SequenceStartEvent():
                    self._enter(_Node(_position(event), None, items=[], complete=False), event)
                case yaml.MappingStartEvent():
                    self._enter(_Node(_position(event), None, pairs=[], complete=False), event)
                case yaml.CollectionEndEvent():
                    self._open.pop().complete = True
                    self._keys.pop()
                case yaml.AliasEvent():
                    self._attach(self._alias(event))
                case _:
                    pass
        return self._root or _Node((1, 1), None, plain="")

    def _start_document(self, event: yaml.DocumentStartEvent) -> None:
        if self._root is not None:
            raise _Fault(_position(event), "a second document begins here; only one is taken")
        if event.version not in (None, (1, 2)):
            raise _Fault(_position(event), "documents are read as YAML 1.2; leave out this directive")

    def _enter(self, node: _Node, event: yaml.CollectionStartEvent) -> None:
        if len(self._open) >= MAX_DEPTH:
            raise _Fault(node.position, f"is nested more than {MAX_DEPTH} deep")
        self._add(node, event)
        self._open.append(node)
        self._keys.append(None)

    def _add(self, node: _Node, event: yaml.ScalarEvent | yaml.CollectionStartEvent) -> None:
        self._count += 1
        if self._count > MAX_VALUES:
            raise _Fault(node.position, f"the document has more than {MAX_VALUES} values")
        if event.tag is not None:
            raise _Fault(node.position, f"tags are not used here: {_short_tag(event.tag)}")
        if event.anchor is not None:
            before = self._anchors.get(event.anchor)
            if before is not None:
                raise _Fault(
                    node.position, f"anchor '{event.anchor}' was already given in line {before.position[0]}"
                )
            self._anchors[event.anchor] = node
        self._attach(node)

    def _alias(self, event: yaml.AliasEvent) -> _Node:
        position = _position(event)
        node = self._anchors.get(event.anchor or "")
        if node is None:
            raise _Fault(position, f"there is no anchor '{event.anchor}' before this alias")
        if not node.complete:
            raise _Fault(position, f"alias '{event.anchor}' is inside what it stands for")
        return _Node(position, node.content, None, node.items, node.pairs)

    def _attach(self, node: _Node) -> None:
        if not self._open:
            self._root = node
            return
        parent = self._open[-1]
        if parent.items is not None:
            parent.items.append(node)
        elif parent.pairs is not None:
            key = self._keys[-1]
            if key is not None:
                parent.pairs.append((key, node))
            self._keys[-1] = node if key is None else None


@dataclass
class _Layout:
    """Turns the tree into plain data, follows aliases, and notes where everything is and what is wrong."""

    marks: dict[Path, Position] = field(default_factory=dict)
    key_marks: dict[Path, Position] = field(default_factory=dict)
    problems: dict[Problem, None] = field(default_factory=dict)

    def place(self, node: _Node, path: Path, *, depth: int) -> Value:
        if len(self.marks) >= MAX_VALUES:
            raise _Fault(node.position, f"aliases make the document grow to more than {MAX_VALUES} values")
        if depth > MAX_DEPTH:
            raise _Fault(node.position, f"aliases make this nested more than {MAX_DEPTH} deep")
        self.marks[path] = node.position
        if node.items is not None:
            return [
                self.place(item, (*path, index), depth=depth + 1) for index, item in enumerate(node.items)
            ]
        if node.pairs is not None:
            return self._mapping(node.pairs, path, depth)
        return node.content

    def _mapping(self, pairs: list[tuple[_Node, _Node]], path: Path, depth: int) -> dict[str, Value]:
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

    def _refuse(self, node: _Node, path: Path, message: str) -> None:
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


def _scalar(event: yaml.ScalarEvent) -> _Node:
    position = _position(event)
    text = event.value
    if not event.implicit[0]:
        if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
            raise _Fault(position, "holds an escape for a character that is not allowed")
        return _Node(position, text)
    return _Node(position, _resolved(text, position), plain=text)


def _resolved(text: str, position: Position) -> Scalar:
    """The value of a plain scalar."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if not (text[0].isdigit() or text[0] in "+-."):
        return text
    integer = _INTEGER.fullmatch(text) or _OCTAL.fullmatch(text) or _HEXADECIMAL.fullmatch(text)
    if integer and len(text) > 40:
        raise _Fault(position, "is a number with too many digits; put it in quotes if it is text")
    if integer:
        return int(text, 10 if _INTEGER.fullmatch(text) else 0)
    if not _FLOAT.fullmatch(text):
        return text
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise _Fault(position, "is a number out of range; put it in quotes if it is text")
    return number


def _short_tag(tag: str) -> str:
    standard = "tag:yaml.org,2002:"
    return f"!!{tag.removeprefix(standard)}" if tag.startswith(standard) else tag


def _position(event: yaml.Event) -> Position:
    mark = event.start_mark
    return (mark.line + 1, mark.column + 1) if mark else (0, 0)


def _nearest(marks: Mapping[Path, Position], path: Path) -> Position | None:
    while path and path not in marks:
        path = path[:-1]
    return marks.get(path)
