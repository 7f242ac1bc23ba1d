"""The tests of a default run, and those of `invoke test --thorough`, which take longer."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Sequence
from typing import TypeVar

import pytest
from _pytest.mark.structures import ParameterSet

THOROUGH = os.environ.get("SANDWRIGHT_THOROUGH") == "1"
Case = TypeVar("Case", str, ParameterSet)

PART = 8
"""One in this number of examples is tried in a default run."""


def examples(full: int = 100) -> int:
    """The number of examples for a test with `full` of them in a thorough run."""
    return full if THOROUGH else max(5, full // PART)


def representative(cases: Iterable[Case], *names: str, thorough: bool = THOROUGH) -> list[Case]:
    """The named ones of some cases, or all of them in a thorough run.

    A set of parameters is named by its id, or else by its values with `-` between them. They are the cases
    with a code path of their own, and those that guard against a hole that was found. The omitted ones are
    covered each time by another test, or by another case of this one.
    """
    every = list(cases)
    named = {_name(case): case for case in every}
    unknown = [name for name in names if name not in named]
    if unknown or not names or len(set(names)) != len(names):
        raise ValueError(f"no cases, or the same twice: {unknown or names} of {list(named)}")
    return every if thorough else [case for case in every if _name(case) in names]


def _name(case: str | ParameterSet) -> str:
    return case if isinstance(case, str) else str(case.id or "-".join(map(str, case.values)))


def covering(*axes: Sequence[object], thorough: bool = THOROUGH) -> list[ParameterSet]:
    """As few combinations as have each value of each axis once, or all of them in a thorough run.

    Axes are shifted against each other, so that values at the same index don't always meet. A combination has
    the marks of its values.
    """
    if not axes or not all(axes):
        raise ValueError("an axis without values would try nothing")
    if thorough:
        return list(map(_combined, itertools.product(*axes)))
    return [
        _combined([axis[(row + row // len(axis) * turn) % len(axis)] for turn, axis in enumerate(axes)])
        for row in range(max(map(len, axes)))
    ]


def _combined(values: Iterable[object]) -> ParameterSet:
    sets = [each if isinstance(each, ParameterSet) else pytest.param(each) for each in values]
    marks = [mark for each in sets for mark in each.marks]
    return pytest.param(*(value for each in sets for value in each.values), marks=marks)
