"""Filters as values: the property that a rule tests, and whether a request has it."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import assert_never

from sandwright.evaluate.sbpl.automaton import search
from sandwright.evaluate.sbpl.datum import write_string
from sandwright.evaluate.sbpl.errors import SbplFault
from sandwright.evaluate.sbpl.network import AddressPattern
from sandwright.evaluate.sbpl.request import SbplRequest
from sandwright.evaluate.sbpl.source import Span

MAX_NESTING = 100
"""The limit on the nesting of filters."""


class How(enum.Enum):
    """The ways in which a test compares a property of a request with its own value."""

    LITERAL = "literal"
    SUBPATH = "subpath"
    PREFIX = "prefix"
    REGEX = "regex"
    CONSTANT = "constant"
    BITS = "bits"
    FLAG = "flag"
    ADDRESS = "address"
    UNIX = "unix"
    NEVER = "never"


class _Shown:
    """A filter, as messages show it: the way a profile writes it."""

    __slots__ = ()

    def __repr__(self) -> str:
        assert isinstance(self, Test | All | Any | Not)
        return f"the filter {write_filter(self)}"


@dataclass(frozen=True, slots=True)
class Constant:
    """A named number; `number` None when only the system headers know it."""

    name: str
    number: int | None

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"the constant {self.name}"


@dataclass(frozen=True, slots=True, repr=False)
class Test(_Shown):
    """One comparison. `name` is the filter's, `key` the tested property, `span` the form that made it."""

    name: str
    key: str
    how: How
    value: str | int | Constant | AddressPattern | None = None
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, repr=False)
class All(_Shown):
    """The filter `require-all`."""

    filters: tuple[Filter, ...]


@dataclass(frozen=True, slots=True, repr=False)
class Any(_Shown):
    """`require-any`, which is also the meaning of several filters in one rule."""

    filters: tuple[Filter, ...]


@dataclass(frozen=True, slots=True, repr=False)
class Not(_Shown):
    """The filter `require-not`."""

    filter: Filter


Filter = Test | All | Any | Not


def matches(tested: Filter, request: SbplRequest) -> bool:
    """Whether a request matches a filter."""
    match tested:
        case Test():
            return test_matches(tested, request)
        case All(filters):
            return all(matches(part, request) for part in filters)
        case Any(filters):
            return any(matches(part, request) for part in filters)
        case Not(part):
            return not matches(part, request)
        case _:
            assert_never(tested)


def test_matches(test: Test, request: SbplRequest) -> bool:
    """Whether a request passes one test. A property that the request lacks passes none."""
    match test.how:
        case How.LITERAL | How.SUBPATH | How.PREFIX | How.REGEX:
            assert isinstance(test.value, str)
            return any(text_matches(test.how, test.value, text) for text in request.texts(test.key))
        case How.CONSTANT:
            assert isinstance(test.value, int | Constant)
            return _constant_matches(test.value, request.numbers(test.key))
        case How.BITS:
            assert isinstance(test.value, int)
            pattern = test.value
            return any(
                isinstance(bits, int) and bits & pattern == pattern for bits in request.numbers(test.key)
            )
        case How.FLAG:
            return request.flag(test.key) is (test.value != 0)
        case How.ADDRESS:
            assert isinstance(test.value, AddressPattern)
            return request.network and test.value.matches(request.endpoint(test.key), request.transport)
        case How.UNIX:
            return request.unix
        case How.NEVER:
            return False
        case _:
            assert_never(test.how)


def text_matches(how: How, value: str, text: str) -> bool:
    """Compare text with a pattern's value. A subpath is the path itself and all paths below it."""
    match how:
        case How.LITERAL:
            return text == value
        case How.SUBPATH:
            return text == value or (value != "" and text.startswith("/" if value == "/" else value + "/"))
        case How.PREFIX:
            return text.startswith(value)
        case _:
            return search(value, text)


def _constant_matches(expected: int | Constant, found: tuple[int | str, ...]) -> bool:
    names: set[int | str | None] = (
        {expected} if isinstance(expected, int) else {expected.name, expected.number}
    )
    return any(item in names for item in found)


def tests(tested: Filter) -> Iterator[Test]:
    """All tests of a filter, however deep."""
    pending = [tested]
    while pending:
        part = pending.pop()
        match part:
            case Test():
                yield part
            case All(filters) | Any(filters):
                pending.extend(reversed(filters))
            case Not(inner):
                pending.append(inner)


def check_size(tested: Filter, most: int) -> int:
    """The number of tests in a filter. Raise Fault when there are more than `most` or they nest too deep."""
    count = 0
    pending: list[tuple[Filter, int]] = [(tested, 1)]
    while pending:
        part, depth = pending.pop()
        count += 1
        if count > most:
            raise SbplFault(f"a rule has more than {most} filters")
        if depth > MAX_NESTING:
            raise SbplFault(f"filters nest deeper than {MAX_NESTING}")
        match part:
            case All(filters) | Any(filters):
                pending.extend((inner, depth + 1) for inner in filters)
            case Not(inner):
                pending.append((inner, depth + 1))
    return count


def write_filter(tested: Filter) -> str:
    """A filter as a profile writes it, with everything computed."""
    match tested:
        case Test(name=name, how=how, value=value):
            return _write_test(name, how, value)
        case All(filters):
            return _write_list("require-all", filters)
        case Any(filters):
            return _write_list("require-any", filters)
        case Not(inner):
            return f"(require-not {write_filter(inner)})"
        case _:
            assert_never(tested)


def _write_list(name: str, filters: tuple[Filter, ...]) -> str:
    return f"({' '.join([name, *map(write_filter, filters)])})"


def _write_test(name: str, how: How, value: object) -> str:
    if value is None:
        return f"({name} unix-socket)" if how is How.UNIX else f"({name})"
    if how is How.BITS:
        return f"({name} #o{value:o})"
    if how is How.FLAG:
        return f"({name} {'#t' if value else '#f'})"
    return f"({name} {write_string(value) if isinstance(value, str) else value})"
