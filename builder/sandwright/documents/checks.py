"""Checks of values that several kinds of documents share, each with its part of the JSON Schema."""

from __future__ import annotations

import re
from collections.abc import Callable, Sized
from typing import Any

from sandwright.documents.document import FieldErrors
from sandwright.documents.model import ValueCheck


def matching(pattern: str, what: str) -> ValueCheck:
    """Text that a pattern matches completely. `what` describes it: "a line of text"."""
    compiled = re.compile(pattern)

    def check(text: str) -> str:
        if not compiled.fullmatch(text):
            raise ValueError(f"{quoted(text)} is not {what}")
        return text

    return ValueCheck(check, {"type": "string", "pattern": f"^(?:{pattern})$"})


def in_range(low: int, high: int) -> ValueCheck:
    """A number in a range, both ends included."""

    def check(number: int) -> int:
        if number < low:
            raise ValueError(f"must be at least {low}, not {number}")
        if number > high:
            raise ValueError(f"must be at most {high}, not {number}")
        return number

    return ValueCheck(check, {"minimum": low, "maximum": high})


def expected(what: str, holds: Callable[[object], bool]) -> ValueCheck:
    """A value of any type for which a predicate holds. The only fault is "must be `what`"."""

    def check(value: object) -> object:
        if not holds(value):
            raise ValueError(f"must be {what}")
        return value

    return ValueCheck(check, raw=True)


def _check_not_empty(value: Sized) -> Sized:
    if not len(value):
        raise ValueError("must not be empty")
    return value


def _check_distinct(values: tuple[Any, ...]) -> tuple[Any, ...]:
    faults = [
        ((index,), f"{value!r} is there twice")
        for index, value in enumerate(values)
        if value in values[:index]
    ]
    if faults:
        raise FieldErrors(faults)
    return values


NONEMPTY_TEXT = ValueCheck(_check_not_empty, {"minLength": 1})
NONEMPTY_LIST = ValueCheck(_check_not_empty, {"minItems": 1})
DISTINCT = ValueCheck(_check_distinct)


def quoted(text: str) -> str:
    """A text as a message shows it, cut where it is long."""
    return repr(text if len(text) <= 60 else text[:57] + "...")
