"""Reads one YAML document into a tree of nodes with positions; `documents.yaml` gives the tree its meaning.

Scalars are those of the core schema of YAML 1.2 (spec 10.3.2), with one exception: a number with a leading
zero is text. The parser is PyYAML's, of which only the events are used; it calls itself one of YAML 1.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from sandwright.documents.document import MAX_BYTES, MAX_DEPTH, MAX_VALUES, Position, Scalar
from sandwright.errors import Problem

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Libyaml's parser where it is there, which is 20 times faster."""
_TOO_DEEP = "exceeded maximum nesting depth"
"""PyYAML 6.0.4's error for 1,000 nested brackets, which libyaml reads ahead before it reports the first."""
_UNREADABLE = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
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


class YamlFault(Exception):
    """An error after which nothing more can be read. `problem` describes it."""

    def __init__(self, position: Position, message: str) -> None:
        """`position` is (0, 0) when the whole document is meant."""
        self.problem = Problem(*position, "", message)
        super().__init__(message)


@dataclass(slots=True)
class YamlNode:
    """A value as it is written: a list has `items`, a mapping `pairs`, a scalar neither but `content`.

    `plain` is the text of a scalar without quotes. A node is not `complete` while it is being read.
    """

    position: Position
    content: Scalar
    plain: str | None = None
    items: list[YamlNode] | None = None
    pairs: list[tuple[YamlNode, YamlNode]] | None = None
    complete: bool = True


def readable(text: str | bytes) -> str:
    """The document as text, without characters that YAML forbids or that only some readers take as breaks."""
    if len(text) > MAX_BYTES:
        raise YamlFault((0, 0), f"is larger than {MAX_BYTES >> 20} MiB")
    text = (_decode_utf8(text) if isinstance(text, bytes) else text).removeprefix("\ufeff")
    unreadable = _UNREADABLE.search(text)
    if unreadable:
        raise YamlFault(
            _end_of(text[: unreadable.start()]), f"character U+{ord(unreadable[0]):04X} is not allowed"
        )
    return text


def _decode_utf8(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode()
        raise YamlFault(_end_of(before), f"byte 0x{raw[error.start]:02x} is not valid UTF-8") from None


def _end_of(text: str) -> Position:
    lines = re.split(r"\r\n|\r|\n", text)
    return len(lines), len(lines[-1]) + 1


def compose(text: str) -> YamlNode:
    """The tree of the document, aliases as references to the node they name."""
    try:
        return _Composer().compose(yaml.parse(text, Loader=_LOADER))
    except yaml.MarkedYAMLError as error:
        raise _syntax_fault(error, text) from None
    except yaml.YAMLError as error:
        raise YamlFault((0, 0), f"is not YAML: {error}") from None


def _syntax_fault(error: yaml.MarkedYAMLError, text: str) -> YamlFault:
    mark = error.problem_mark or error.context_mark
    position = (mark.line + 1, mark.column + 1) if mark else (0, 0)
    lines = re.split(r"\r\n|\r|\n", text)
    position = min(position, (len(lines), len(lines[-1]) + 1))  # libyaml reports the end on a separate line
    line = lines[position[0] - 1]
    if "\t" in line[: position[1]] and not line[: position[1]].strip():
        return YamlFault((position[0], line.index("\t") + 1), "cannot indent with a tab; use spaces")
    message = error.problem or "syntax error"
    if _TOO_DEEP in message:
        return YamlFault(position, f"is nested more than {MAX_DEPTH} deep")
    if error.context:
        message += f" {error.context}"
        if error.context_mark and error.context_mark.line + 1 != position[0]:
            message += f" that begins in line {error.context_mark.line + 1}"
    return YamlFault(position, f"is not YAML: {message}")


class _Composer:
    """Builds the tree from the parser's events, without recursion, and stops at its limits."""

    def __init__(self) -> None:
        self._root: YamlNode | None = None
        self._open: list[YamlNode] = []
        self._keys: list[YamlNode | None] = []
        self._anchors: dict[str, YamlNode] = {}
        self._count = 0

    def compose(self, events: Iterator[yaml.Event]) -> YamlNode:
        for event in events:
            match event:
                case yaml.DocumentStartEvent():
                    self._start_document(event)
                case yaml.ScalarEvent():
                    self._count_value(_scalar_node(event), event)
                case yaml.SequenceStartEvent():
                    self._open_collection(
                        YamlNode(_event_position(event), None, items=[], complete=False), event
                    )
                case yaml.MappingStartEvent():
                    self._open_collection(
                        YamlNode(_event_position(event), None, pairs=[], complete=False), event
                    )
                case yaml.CollectionEndEvent():
                    self._open.pop().complete = True
                    self._keys.pop()
                case yaml.AliasEvent():
                    self._append_node(self._alias(event))
                case _:
                    pass
        return self._root or YamlNode((1, 1), None, plain="")

    def _start_document(self, event: yaml.DocumentStartEvent) -> None:
        if self._root is not None:
            raise YamlFault(_event_position(event), "a second document begins here; only one is taken")
        if event.version not in (None, (1, 2)):
            raise YamlFault(
                _event_position(event), "documents are read as YAML 1.2; leave out this directive"
            )

    def _open_collection(self, node: YamlNode, event: yaml.CollectionStartEvent) -> None:
        if len(self._open) >= MAX_DEPTH:
            raise YamlFault(node.position, f"is nested more than {MAX_DEPTH} deep")
        self._count_value(node, event)
        self._open.append(node)
        self._keys.append(None)

    def _count_value(self, node: YamlNode, event: yaml.ScalarEvent | yaml.CollectionStartEvent) -> None:
        self._count += 1
        if self._count > MAX_VALUES:
            raise YamlFault(node.position, f"the document has more than {MAX_VALUES} values")
        if event.tag is not None:
            raise YamlFault(node.position, f"tags are not used here: {_short_tag(event.tag)}")
        if event.anchor is not None:
            before = self._anchors.get(event.anchor)
            if before is not None:
                raise YamlFault(
                    node.position, f"anchor '{event.anchor}' was already given in line {before.position[0]}"
                )
            self._anchors[event.anchor] = node
        self._append_node(node)

    def _alias(self, event: yaml.AliasEvent) -> YamlNode:
        position = _event_position(event)
        node = self._anchors.get(event.anchor or "")
        if node is None:
            raise YamlFault(position, f"there is no anchor '{event.anchor}' before this alias")
        if not node.complete:
            raise YamlFault(position, f"alias '{event.anchor}' is inside its own anchor")
        return YamlNode(position, node.content, None, node.items, node.pairs)

    def _append_node(self, node: YamlNode) -> None:
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


def _scalar_node(event: yaml.ScalarEvent) -> YamlNode:
    position = _event_position(event)
    text = event.value
    if not event.implicit[0]:
        if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
            raise YamlFault(position, "holds an escape for a character that is not allowed")
        return YamlNode(position, text)
    return YamlNode(position, _resolve_scalar(text, position), plain=text)


def _resolve_scalar(text: str, position: Position) -> Scalar:
    """The value of a plain scalar."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if not (text[0].isdigit() or text[0] in "+-."):
        return text
    integer = _INTEGER.fullmatch(text) or _OCTAL.fullmatch(text) or _HEXADECIMAL.fullmatch(text)
    if integer and len(text) > 40:
        raise YamlFault(position, "is a number with too many digits; put it in quotes if it is text")
    if integer:
        return int(text, 10 if _INTEGER.fullmatch(text) else 0)
    if not _FLOAT.fullmatch(text):
        return text
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise YamlFault(position, "is a number out of range; put it in quotes if it is text")
    return number


def _short_tag(tag: str) -> str:
    standard = "tag:yaml.org,2002:"
    return f"!!{tag.removeprefix(standard)}" if tag.startswith(standard) else tag


def _event_position(event: yaml.Event) -> Position:
    mark = event.start_mark
    return (mark.line + 1, mark.column + 1) if mark else (0, 0)
