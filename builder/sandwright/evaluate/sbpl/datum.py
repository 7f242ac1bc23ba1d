"""The values of the Scheme that profiles are written in.

Strings are octets (see `source`), numbers are `int` and `float`, truth is `bool`. There is no `set-car!`, so
that no structure can hold itself.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from sandwright.evaluate.sbpl.errors import SbplFault
from sandwright.evaluate.sbpl.source import Span, readable

Value = object


@dataclass(slots=True, eq=False, repr=False)
class Symbol:
    """A name. There is one object for each name, made by `symbol`, so `is` compares."""

    name: str

    def __repr__(self) -> str:
        return readable(self.name)


_symbols: dict[str, Symbol] = {}


def symbol(name: str) -> Symbol:
    """The symbol of that name."""
    found = _symbols.get(name)
    if found is None:
        name = sys.intern(name)
        found = _symbols[name] = Symbol(name)
    return found


@dataclass(slots=True, eq=False, repr=False)
class _Singleton:
    representation: str

    def __repr__(self) -> str:
        return self.representation


NIL: Final = _Singleton("()")
"""The empty list; also the value of a form without a result, as `if` without its branch."""


@dataclass(frozen=True, slots=True)
class Char:
    """A character: one octet."""

    octet: str


@dataclass(slots=True, eq=False, repr=False)
class Pair:
    """A cell of a list. One that was read knows where its `car` stands and, if first, where the list does."""

    car: Value
    cdr: Value
    origin: Span | None = None
    span: Span | None = None


class Vector:
    """A vector, as `#(1 2)` gives."""

    def __init__(self, items: Iterable[Value]) -> None:
        self.items = list(items)


def scheme_list(items: Iterable[Value], tail: Value = NIL) -> Value:
    """A list of `items`, ending in `tail`."""
    result = tail
    for item in reversed(list(items)):
        result = Pair(item, result)
    return result


def elements(value: Value, what: str = "list") -> Iterator[Value]:
    """The elements of a list. Raise SbplFault if it is not a proper list; `what` names it in the message."""
    while isinstance(value, Pair):
        yield value.car
        value = value.cdr
    if value is not NIL:
        raise SbplFault(f"{what} is not a proper list")


def is_true(value: Value) -> bool:
    """Everything but `#f` is true."""
    return value is not False


_CHARACTER_NAMES = {" ": "space", "\n": "newline", "\r": "return", "\t": "tab"}
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def write_string(text: str) -> str:
    """A string literal that reads back as `text`."""
    return '"' + "".join(_escape(c) for c in text) + '"'


def _escape(octet: str) -> str:
    if octet in _ESCAPES:
        return _ESCAPES[octet]
    return octet if octet >= " " and octet != "\x7f" else f"\\x{ord(octet):02x}"


class _Verbatim(str):
    """Text that `write_datum` puts out as it is."""

    __slots__ = ()


def write_datum(value: Value) -> str:
    """A value as the reader would read it, in octets."""
    out: list[str] = []
    pending: list[Value] = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, Pair):
            pending.extend(reversed(list(_written_list(item))))
        elif isinstance(item, Vector):
            out.append("#")
            pending.append(scheme_list(item.items) if item.items else _Verbatim("()"))
        else:
            out.append(_write_atom(item))
    return "".join(out)


def _written_list(rest: Value) -> Iterator[Value]:
    """The parts of a written list: its elements, and the text between them."""
    before = "("
    while isinstance(rest, Pair):
        yield _Verbatim(before)
        yield rest.car
        before, rest = " ", rest.cdr
    if rest is not NIL:
        yield _Verbatim(" . ")
        yield rest
    yield _Verbatim(")")


def _character_name(octet: str) -> str:
    if octet in _CHARACTER_NAMES:
        return _CHARACTER_NAMES[octet]
    return octet if "!" <= octet <= "~" else f"x{ord(octet):02x}"


def _write_atom(value: Value) -> str:
    match value:
        case _Verbatim():
            return str(value)
        case bool():
            return "#t" if value else "#f"
        case str():
            return write_string(value)
        case int() | float():
            return repr(value)
        case Symbol():
            return value.name
        case Char():
            return "#\\" + _character_name(value.octet)
        case _:
            return repr(value)
