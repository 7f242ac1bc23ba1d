"""The built-in procedures on strings, characters and symbols. Strings are octets and never change."""

from __future__ import annotations

import itertools
import operator
import re
from collections.abc import Callable

from sandwright.evaluate.sbpl.datum import Char, Symbol, Value, elements, scheme_list, symbol
from sandwright.evaluate.sbpl.errors import SbplFault
from sandwright.evaluate.sbpl.machine import Machine, Procedure, describe
from sandwright.evaluate.sbpl.reader import parse_atom

_SPECIAL = re.compile(r"[\\^.\[$()|*+?{]")


def regex_quote(text: str) -> str:
    """`text` as a regex that matches just it."""
    return _SPECIAL.sub(lambda found: "\\" + found.group(), text)


def _check_string(value: Value, name: str) -> str:
    if not isinstance(value, str):
        raise SbplFault(f"{name} needs a string, not {describe(value)}")
    return value


def _char(value: Value, name: str) -> str:
    if not isinstance(value, Char):
        raise SbplFault(f"{name} needs a character, not {describe(value)}")
    return value.octet


def _check_index(value: Value, name: str, text: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= len(text):
        raise SbplFault(f"{name}: {describe(value)} is no index of a string of {len(text)} bytes")
    return value


def _compare_strings(
    name: str, take: Callable[[Value, str], str], holds: Callable[[str, str], bool], *, fold: bool
) -> Callable[..., Value]:
    def compare(*values: Value) -> Value:
        texts = [take(value, name).lower() if fold else take(value, name) for value in values]
        return all(itertools.starmap(holds, itertools.pairwise(texts)))

    return compare


class _Strings:
    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def append(self, *parts: Value) -> Value:
        texts = [_check_string(part, "string-append") for part in parts]
        if sum(map(len, texts)) > self.machine.limits.string:
            self.machine.check_string("".join(texts))
        return self.machine.check_string("".join(texts))

    def substring(self, value: Value, start: Value, end: Value = None) -> Value:
        text = _check_string(value, "substring")
        last = len(text) if end is None else _check_index(end, "substring", text)
        first = _check_index(start, "substring", text)
        if first > last:
            raise SbplFault("substring: the start is after the end")
        return self.machine.check_string(text[first:last])

    def ref(self, value: Value, index: Value) -> Value:
        text = _check_string(value, "string-ref")
        at = _check_index(index, "string-ref", text)
        if at == len(text):
            raise SbplFault(f"string-ref: {at} is no index of a string of {at} bytes")
        return Char(text[at])

    def to_list(self, value: Value) -> Value:
        text = _check_string(value, "string->list")
        self.machine.charge(len(text))
        return scheme_list(Char(octet) for octet in text)

    def from_list(self, value: Value) -> Value:
        return self.machine.check_string("".join(_char(item, "list->string") for item in elements(value)))

    def make(self, count: Value, fill: Value = None) -> Value:
        if (
            isinstance(count, bool)
            or not isinstance(count, int)
            or not 0 <= count <= self.machine.limits.string
        ):
            raise SbplFault(f"make-string cannot make a string of {describe(count)} bytes")
        return self.machine.check_string((" " if fill is None else _char(fill, "make-string")) * count)

    def split(self, value: Value, separator: Value) -> Value:
        """The parts of a string between the characters of `separator`; empty parts are left out."""
        text, marks = _check_string(value, "split-string"), _check_string(separator, "split-string")
        parts = re.split("[" + re.escape(marks) + "]", text) if marks else [text]
        self.machine.charge(len(text))
        return scheme_list(part for part in parts if part)

    def quote(self, value: Value) -> Value:
        return self.machine.check_string(regex_quote(_check_string(value, "regex-quote")))


def _to_number(value: Value, radix: Value = 10) -> Value:
    text = _check_string(value, "string->number")
    if radix != 10:
        try:
            return (
                int(text, radix) if isinstance(radix, int) and 2 <= radix <= 36 and len(text) <= 64 else False
            )
        except ValueError:
            return False
    found = parse_atom(text)
    return False if isinstance(found, Symbol) else found


def _from_number(value: Value, radix: Value = 10) -> Value:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SbplFault(f"number->string needs a number, not {describe(value)}")
    if isinstance(value, int) and radix in (2, 8, 16):
        return format(value, {2: "b", 8: "o", 16: "x"}[radix])
    return repr(value)


def _symbol_name(value: Value) -> Value:
    if not isinstance(value, Symbol):
        raise SbplFault(f"symbol->string needs a symbol, not {describe(value)}")
    return value.name


def string_procedures(machine: Machine) -> dict[Symbol, Value]:
    """The procedures of this module, by name."""
    strings = _Strings(machine)
    counter = itertools.count(1)
    table: dict[str, tuple[Callable[..., object], int, int | None]] = {
        "string-append": (strings.append, 0, None),
        "string-length": (lambda value: len(_check_string(value, "string-length")), 1, 1),
        "substring": (strings.substring, 2, 3),
        "string-ref": (strings.ref, 2, 2),
        "string": (lambda *chars: "".join(_char(char, "string") for char in chars), 0, None),
        "string-copy": (lambda value: _check_string(value, "string-copy"), 1, 1),
        "make-string": (strings.make, 1, 2),
        "string->list": (strings.to_list, 1, 1),
        "list->string": (strings.from_list, 1, 1),
        "string->symbol": (lambda value: symbol(_check_string(value, "string->symbol")), 1, 1),
        "symbol->string": (_symbol_name, 1, 1),
        "string->number": (_to_number, 1, 2),
        "number->string": (_from_number, 1, 2),
        "char->integer": (lambda value: ord(_char(value, "char->integer")), 1, 1),
        "integer->char": (lambda value: Char(chr(_check_index(value, "integer->char", " " * 255))), 1, 1),
        "char-upcase": (lambda value: Char(_ascii(_char(value, "char-upcase"), str.upper)), 1, 1),
        "char-downcase": (lambda value: Char(_ascii(_char(value, "char-downcase"), str.lower)), 1, 1),
        "char-alphabetic?": (
            lambda value: _char(value, "char-alphabetic?").isascii() and value.octet.isalpha(),
            1,
            1,
        ),
        "char-numeric?": (lambda value: "0" <= _char(value, "char-numeric?") <= "9", 1, 1),
        "char-whitespace?": (lambda value: _char(value, "char-whitespace?") in " \t\n\r\f\v", 1, 1),
        "split-string": (strings.split, 2, 2),
        "regex-quote": (strings.quote, 1, 1),
        "variable-quote": (lambda value: _check_string(value, "variable-quote"), 1, 1),
        "%string-prefix?": (
            lambda start, text: _check_string(text, "%string-prefix?").startswith(_check_string(start, "")),
            2,
            2,
        ),
        "gensym": (lambda: symbol(f"gensym-{next(counter)}"), 0, 0),
    }
    for suffix, holds in {
        "=?": operator.eq,
        "<?": operator.lt,
        ">?": operator.gt,
        "<=?": operator.le,
        ">=?": operator.ge,
    }.items():
        for prefix, take in {"string": _check_string, "char": _char}.items():
            for infix, fold in {"": False, "-ci": True}.items():
                name = prefix + infix + suffix
                table[name] = (_compare_strings(name, take, holds, fold=fold), 1, None)
    return {symbol(name): Procedure(name, *entry) for name, entry in table.items()}


def _ascii(octet: str, change: Callable[[str], str]) -> str:
    return change(octet) if octet.isascii() else octet
