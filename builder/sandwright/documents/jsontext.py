"""Reads JSON strictly and remembers where each value stands.

The standard library's reader gives positions for broken syntax only, takes NaN, and keeps the last of two
equal keys. YAML's reader would take text that no engine does.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from typing import NoReturn

from sandwright.documents.document import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_VALUES,
    Document,
    Path,
    Position,
    Value,
    field_name,
)
from sandwright.errors import DocumentError, Problem

_SPACE = re.compile(r"[ \t\r\n]*")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_HALF = re.compile("[\ud800-\udfff]")
_WORDS = {"true": True, "false": False, "null": None}
MAX_DIGITS = 40


def parse_json(text: str | bytes, *, file: str) -> Document:
    """Read one JSON document (RFC 8259); bytes are UTF-8. `file` is its name in messages.

    Raise DocumentError with the position of the first fault: syntax, a key given twice, a number with a
    fraction or an exponent that is out of range, more than a million bytes, deep nesting.
    """
    if len(text) > MAX_BYTES:
        raise DocumentError(file, [Problem(0, 0, "", f"is larger than {MAX_BYTES >> 20} MiB")])
    if isinstance(text, bytes):
        try:
            text = text.decode()
        except UnicodeDecodeError as error:
            message = f"byte 0x{text[error.start]:02x} at offset {error.start} is not valid UTF-8"
            raise DocumentError(file, [Problem(0, 0, "", message)]) from None
    return _Reader(text.removeprefix("\ufeff"), file).read()


class _Reader:
    def __init__(self, text: str, file: str) -> None:
        self._text = text
        self._file = file
        self._at = 0
        self._lines = [0, *(match.end() for match in re.finditer(r"\r\n|\r|\n", text))]
        self._marks: dict[Path, Position] = {}
        self._key_marks: dict[Path, Position] = {}

    def read(self) -> Document:
        self._skip_space()
        data = self._parse_value(())
        self._skip_space()
        if self._at < len(self._text):
            self._fail("something follows the end of the document")
        return Document(self._file, data, self._marks, self._key_marks)

    def _parse_value(self, path: Path) -> Value:
        if len(path) > MAX_DEPTH:
            self._fail(f"is nested more than {MAX_DEPTH} deep")
        if len(self._marks) >= MAX_VALUES:
            self._fail(f"the document has more than {MAX_VALUES} values")
        self._marks[path] = self._position_at(self._at)
        match self._text[self._at : self._at + 1]:
            case "{":
                return self._object(path)
            case "[":
                return self._array(path)
            case '"':
                return self._parse_string()
            case _:
                return self._parse_scalar()

    def _object(self, path: Path) -> dict[str, Value]:
        data: dict[str, Value] = {}
        while self._more("{" if not data else ",", "}", first=not data):
            start = self._at
            if self._text[start : start + 1] != '"':
                self._fail('expected a key in quotes or "}"' if not data else "expected a key in quotes")
            key = self._parse_string()
            if key in data:
                first = self._key_marks[*path, key]
                self._fail("is given twice; first in line " + str(first[0]), start, (*path, key))
            self._key_marks[*path, key] = self._position_at(start)
            self._skip_space()
            self._expect(":")
            data[key] = self._parse_value((*path, key))
        return data

    def _array(self, path: Path) -> list[Value]:
        data: list[Value] = []
        while self._more("[" if not data else ",", "]", first=not data):
            data.append(self._parse_value((*path, len(data))))
        return data

    def _more(self, before: str, end: str, *, first: bool) -> bool:
        """Whether another item follows; then the reader stands at it, else behind the end."""
        self._skip_space()
        if self._text[self._at : self._at + 1] == end and not first:
            self._at += 1
            return False
        self._expect(before, or_else=end if not first else "")
        if first and self._text[self._at : self._at + 1] == end:
            self._at += 1
            return False
        return True

    def _expect(self, character: str, *, or_else: str = "") -> None:
        if self._text[self._at : self._at + 1] != character:
            found = self._text[self._at : self._at + 1]
            options = f'"{character}"' + (f' or "{or_else}"' if or_else else "")
            self._fail(f"expected {options}, found {json.dumps(found) if found else 'the end of the text'}")
        self._at += 1
        self._skip_space()

    def _parse_string(self) -> str:
        match = _STRING.match(self._text, self._at)
        if match is None:
            self._fail("is not a string of JSON: unfinished, a control character, or an unknown escape")
        value = json.loads(match[0]) if "\\" in match[0] else match[0][1:-1]
        if not value.isascii() and _HALF.search(value):
            self._fail("holds half of a surrogate pair")
        self._at = match.end()
        return str(value)

    def _parse_scalar(self) -> int | float | bool | None:
        for word, value in _WORDS.items():
            if self._text.startswith(word, self._at):
                self._at += len(word)
                return value
        match = _NUMBER.match(self._text, self._at)
        if match is None:
            found = self._text[self._at : self._at + 1]
            self._fail(f"expected a value, found {json.dumps(found) if found else 'the end of the text'}")
        if len(match[0]) > MAX_DIGITS:
            self._fail("is a number with too many digits")
        self._at = match.end()
        return float(match[0]) if match[1] or match[2] else int(match[0])

    def _skip_space(self) -> None:
        if self._text[self._at : self._at + 1] > " ":  # most calls stand at no space
            return
        space = _SPACE.match(self._text, self._at)
        self._at = space.end() if space else self._at

    def _position_at(self, at: int) -> Position:
        line = bisect_right(self._lines, at)
        return line, at - self._lines[line - 1] + 1

    def _fail(self, message: str, at: int | None = None, path: Path = ()) -> NoReturn:
        position = self._position_at(self._at if at is None else at)
        raise DocumentError(self._file, [Problem(*position, field_name(path), message)])
