"""Writes YAML that every reader takes the same way: in blocks, with quotes around ambiguous words.

Kubernetes' tools read YAML 1.1 (`no`, `012`, `1:30` and dates are no text there), others YAML 1.2. A text
stands without quotes only where it is a plain word in both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sandwright.errors import RenderError

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9./_-]*")
_WORDS = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"))
_PRINTED = re.compile("[\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
_AS_IT_IS = re.compile(r"[\x20!\x23-\x5b\x5d-\x7e]*")
_ESCAPES: Mapping[str, str] = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t"}


def yaml_text(document: Mapping[str, Any], *, note: Iterable[str] = ()) -> str:
    """A document, in the order of its keys. `note` are lines of a comment above it.

    Values are mappings with text keys, lists, text, whole numbers, True and False. Raise RenderError for a
    text that is not Unicode, such as a file name of other bytes.
    """
    return "\n".join([*(f"# {line}" for line in note), *_write_mapping(document, "")]) + "\n"


def yaml_quoted(text: str) -> str:
    """A text in double quotes, on one line (YAML 1.2, 7.3.1)."""
    if _AS_IT_IS.fullmatch(text):
        return f'"{text}"'
    return f'"{"".join(map(_escape_character, text))}"'


def _escape_character(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if _PRINTED.match(character):
        return character
    code = ord(character)
    if 0xD800 <= code <= 0xDFFF:
        raise RenderError(
            f"a name is not UTF-8 and cannot be written to a manifest: byte 0x{code & 0xFF:02x}"
        )
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _write_mapping(mapping: Mapping[str, Any], indent: str) -> Iterator[str]:
    for key, value in mapping.items():
        yield from _write_value(f"{indent}{_write_scalar(key)}:", value, indent)


def _write_value(head: str, value: Any, indent: str) -> Iterator[str]:  # noqa: ANN401 - any YAML value
    match value:
        case {}:
            if not value:
                yield f"{head} {{}}"
                return
            yield head
            yield from _write_mapping(value, f"{indent}  ")
        case []:
            yield f"{head} []"
        case [*items]:
            yield head
            yield from _write_items(items, indent)
        case str() if _is_block(value):
            yield f"{head} |"
            yield from (f"{indent}  {line}" if line else "" for line in value[:-1].split("\n"))
        case _:
            yield f"{head} {_write_scalar(value)}"


def _is_block(text: str) -> bool:
    """Whether a text can be a literal block scalar, unchanged (YAML 1.2, 8.1.2): for files."""
    lines = text.split("\n")
    return (
        len(lines) > 2
        and not lines[-1]
        and lines[-2] != ""
        and lines[0][:1] not in ("", " ")
        and all(map(_PRINTED.match, text.replace("\n", "")))
    )


def _write_items(items: Iterable[Any], indent: str) -> Iterator[str]:
    """List items, each mapping's first key beside its dash."""
    for item in items:
        if isinstance(item, Mapping) and item:
            first, *rest = _write_mapping(item, f"{indent}  ")
            yield f"{indent}- {first.lstrip()}"
            yield from rest
        else:
            yield f"{indent}- {'{}' if isinstance(item, Mapping) else _write_scalar(item)}"


def _write_scalar(value: Any) -> str:  # noqa: ANN401 - any YAML value
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case str():
            plain = _PLAIN.fullmatch(value) and value.lower() not in _WORDS
            return value if plain else yaml_quoted(value)
        case _:
            raise TypeError(f"{value!r} cannot be written to a manifest")
