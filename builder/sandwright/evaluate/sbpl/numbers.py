"""The built-in procedures on numbers. They stay within 64 bits, so that no number grows unseen."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable

from sandwright.evaluate.sbpl.datum import Value
from sandwright.evaluate.sbpl.errors import SbplFault
from sandwright.evaluate.sbpl.machine import describe

_LARGEST = 1 << 63

Number = int | float


def _check_number(value: Value, name: str) -> Number:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SbplFault(f"{name} needs numbers, not {describe(value)}")
    return value


def integer(value: Value, name: str) -> int:
    """A value as an integer. Raise SbplFault, naming the procedure `name`, when it is none."""
    number = _check_number(value, name)
    if int(number) != number:
        raise SbplFault(f"{name} needs integers, not {number}")
    return int(number)


def _in_range(number: Number) -> Number:
    if not -_LARGEST <= number < _LARGEST:
        raise SbplFault("a number is out of range")
    return number


def _fold_numbers(
    name: str, combine: Callable[[Number, Number], Number], start: Number
) -> Callable[..., Value]:
    def fold(*values: Value) -> Value:
        numbers = [_check_number(value, name) for value in values]
        if name == "-" and len(numbers) == 1:
            return _in_range(-numbers[0])
        if name == "-":
            return functools.reduce(lambda left, right: _in_range(combine(left, right)), numbers)
        return functools.reduce(lambda left, right: _in_range(combine(left, right)), numbers, start)

    return fold


def _compare_numbers(name: str, holds: Callable[[Number, Number], bool]) -> Callable[..., Value]:
    def compare(*values: Value) -> Value:
        numbers = [_check_number(value, name) for value in values]
        return all(holds(left, right) for left, right in itertools.pairwise(numbers))

    return compare


def _divide(left: Value, right: Value) -> Value:
    """`/`: exact when it comes out even."""
    dividend, divisor = _check_number(left, "/"), _check_number(right, "/")
    if divisor == 0:
        raise SbplFault("division by zero")
    quotient = dividend / divisor
    return (
        int(quotient)
        if isinstance(dividend, int) and isinstance(divisor, int) and dividend % divisor == 0
        else quotient
    )


def _integer_division(name: str) -> Callable[[Value, Value], Value]:
    def divide(left: Value, right: Value) -> Value:
        dividend, divisor = integer(left, name), integer(right, name)
        if divisor == 0:
            raise SbplFault("division by zero")
        if name == "modulo":
            return dividend % divisor
        quotient = abs(dividend) // abs(divisor) * (1 if (dividend < 0) == (divisor < 0) else -1)
        return quotient if name == "quotient" else dividend - divisor * quotient

    return divide


def number_procedures() -> dict[str, tuple[Callable[..., object], int, int | None]]:
    """The procedures of this module by name, each with its least and most number of arguments."""
    return {
        "+": (_fold_numbers("+", operator.add, 0), 0, None),
        "-": (_fold_numbers("-", operator.sub, 0), 1, None),
        "*": (_fold_numbers("*", operator.mul, 1), 0, None),
        "/": (_divide, 2, 2),
        "quotient": (_integer_division("quotient"), 2, 2),
        "remainder": (_integer_division("remainder"), 2, 2),
        "modulo": (_integer_division("modulo"), 2, 2),
        "=": (_compare_numbers("=", operator.eq), 1, None),
        "<": (_compare_numbers("<", operator.lt), 1, None),
        ">": (_compare_numbers(">", operator.gt), 1, None),
        "<=": (_compare_numbers("<=", operator.le), 1, None),
        ">=": (_compare_numbers(">=", operator.ge), 1, None),
        "zero?": (lambda value: _check_number(value, "zero?") == 0, 1, 1),
        "positive?": (lambda value: _check_number(value, "positive?") > 0, 1, 1),
        "negative?": (lambda value: _check_number(value, "negative?") < 0, 1, 1),
        "even?": (lambda value: integer(value, "even?") % 2 == 0, 1, 1),
        "odd?": (lambda value: integer(value, "odd?") % 2 == 1, 1, 1),
        "abs": (lambda value: abs(_check_number(value, "abs")), 1, 1),
        "max": (lambda *values: max(_check_number(value, "max") for value in values), 1, None),
        "succ": (lambda value: _check_number(value, "succ") + 1, 1, 1),
        "pred": (lambda value: _check_number(value, "pred") - 1, 1, 1),
        "gcd": (lambda left, right: math.gcd(integer(left, "gcd"), integer(right, "gcd")), 2, 2),
        "<>": (lambda left, right: _check_number(left, "<>") != _check_number(right, "<>"), 2, 2),
        "exact->inexact": (lambda value: float(_check_number(value, "exact->inexact")), 1, 1),
        "min": (lambda *values: min(_check_number(value, "min") for value in values), 1, None),
    }
