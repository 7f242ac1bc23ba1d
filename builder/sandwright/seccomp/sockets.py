"""Decides whether a profile may allow new sockets; if unknown, it may."""

from __future__ import annotations

from collections.abc import Mapping

from sandwright.seccomp.abi import targets
from sandwright.seccomp.action import Action
from sandwright.seccomp.adapt import AF_UNIX, DATAGRAMS, HIDDEN, IP
from sandwright.seccomp.model import (
    MAX_ARGUMENTS,
    U32,
    ComparisonOperator,
    SeccompFilter,
    SeccompProfile,
    SeccompRule,
)

_WIDE = tuple(AF_UNIX | high << 32 for high in (0, 1, U32))
_FREE_PAIRS = tuple({0: family, 1: kind} for family in _WIDE for kind in DATAGRAMS)


def makes_unix_sockets(found: SeccompFilter) -> bool:
    """Whether a filter may allow a socket of AF_UNIX, or one that it can't see.

    A pair counts when it is one of datagrams. An argument whose upper half is not 0 counts: socket(2) takes
    an int. io_uring makes sockets without a separate system call (IORING_OP_SOCKET, Linux 5.19).
    """
    possible: Mapping[str, tuple[Mapping[int, int], ...]] = {
        "socket": tuple({0: family} for family in _WIDE),
        "socketpair": _FREE_PAIRS,
        "io_uring_setup": ({0: 0},),
    }
    for abi, table in found.tables.items():
        for name, free in possible.items():
            for target in targets(abi, name):
                seen = free if target.selector is None else ({0: target.selector},)
                if any(_may_run(table.get(target.number, ()), values, found.default) for values in seen):
                    return True
    return False


def _may_run(rules: tuple[SeccompRule, ...], values: Mapping[int, int], default: Action) -> bool:
    """Whether a call with these arguments may be let run, with any others."""
    arguments = tuple(values.get(index, 0) for index in range(MAX_ARGUMENTS))
    for rule in rules:
        compared = [comparison for comparison in rule.when if comparison.argument in values]
        if all(comparison.holds(arguments) for comparison in compared):
            if rule.action.lets_run:
                return True
            if len(compared) == len(rule.when):
                return False
    return default.lets_run


def makes_ip_sockets(profile: SeccompProfile) -> bool:
    """Whether a profile may allow a new socket of IPv4 or IPv6, with any other arguments.

    The answer is also true if it is unknown, as for a profile whose default lets calls run.
    """
    running = [rule for rule in profile.rules if rule.action.lets_run]
    return (
        profile.default.lets_run
        or any(set(HIDDEN) & set(rule.names) for rule in running)
        or any(
            "socket" in rule.names and _argument_may_match(rule, family) for rule in running for family in IP
        )
    )


def _argument_may_match(rule: SeccompRule, value: int) -> bool:
    """Whether a rule may hold for a value of the lower half of argument 0."""
    exact = (ComparisonOperator.EQ, ComparisonOperator.MASKED_EQ)
    return all(
        value & one.mask & U32 == one.value & U32
        for one in rule.when
        if one.argument == 0 and one.operator in exact
    )
