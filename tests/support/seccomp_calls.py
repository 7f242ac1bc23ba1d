"""Calls that try every number and every class of arguments of a filter."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from sandwright.evaluate.bpf import SystemCall
from sandwright.seccomp.abi import MINUS_ONE, RUNS, X32_BIT, Abi, Architecture
from sandwright.seccomp.decide import Arguments, SeccompCall
from sandwright.seccomp.model import ArgumentComparison, SeccompFilter, SeccompRule

NUMBERS = (*range(600), 1023, 4095, 65535, X32_BIT - 1)
UPPER = 0xFFFFFFFF << 32
SMALL = tuple(range(64))


def calls(*filters: SeccompFilter, arch: Architecture) -> Iterator[SeccompCall]:
    """Every number of every ABI; if rules compare arguments, one value of each class, with and without upper
    halves.

    Two values of an argument are in one class if no comparison of any rule for the call distinguishes them.
    """
    for abi in RUNS[arch]:
        for number in NUMBERS if abi is Abi.X32 else (*NUMBERS, MINUS_ONE):
            rules = [rule for one in filters for rule in one.tables.get(abi, {}).get(number, ())]
            for arguments in _arguments(rules):
                yield SeccompCall(abi, number, arguments)


def as_seen(call: SeccompCall) -> SystemCall:
    """The call in the form that the kernel gives to a filter."""
    number = call.number | (X32_BIT if call.abi is Abi.X32 else 0)
    return SystemCall(number, call.abi.audit, call.arguments)


def _arguments(rules: Sequence[SeccompRule]) -> Iterator[Arguments]:
    checks = {check for rule in rules for check in rule.when}
    classes = [_classes([check for check in checks if check.argument == index]) for index in range(6)]
    for choice in itertools.product(*classes):
        first, second, third, fourth, fifth, sixth = choice
        yield first, second, third, fourth, fifth, sixth
        if checks:
            first, second, third, fourth, fifth, sixth = (value | UPPER for value in choice)
            yield first, second, third, fourth, fifth, sixth


def _classes(checks: Sequence[ArgumentComparison]) -> list[int]:
    """One value of each class."""
    if not checks:
        return [0]
    near = {
        value ^ flip
        for check in checks
        for value in check.values
        for flip in (0, 1, check.mask & 0xFFFFFFFF, 1 << 32)
    }
    found: dict[tuple[bool, ...], int] = {}
    for value in sorted({*SMALL, *near, 0xFFFFFFFF, 1 << 63}):
        outcome = tuple(check.holds((value,) * 6) for check in checks)
        found.setdefault(outcome, value)
    return list(found.values())
