"""The seccomp model: a profile is a list of rules, a filter is the part of it that holds on one machine.

A profile comes from a file (`document`) or from the catalogue that ships with us (`catalogue`). Everything
else works on these classes: `resolve` makes the filter, `adapt` changes a profile, `decide` answers about a
filter, `lint` finds faults, `oci` writes JSON and `bpf` compiles.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import assert_never

from sandwright.documents.document import Document, Path, Position
from sandwright.seccomp.abi import Abi
from sandwright.seccomp.action import KILL_THREAD, Action
from sandwright.seccomp.patterns import Pattern, all_but

U32 = (1 << 32) - 1
"""The mask under which an int argument is compared."""

U64 = (1 << 64) - 1
MAX_ARGUMENTS = 6


class ComparisonOperator(Enum):
    """The comparison of an argument in a rule: all of it, as 64 bits without a sign."""

    NE = "SCMP_CMP_NE"
    LT = "SCMP_CMP_LT"
    LE = "SCMP_CMP_LE"
    EQ = "SCMP_CMP_EQ"
    GE = "SCMP_CMP_GE"
    GT = "SCMP_CMP_GT"
    MASKED_EQ = "SCMP_CMP_MASKED_EQ"
    NONE_OF = "none_of"
    """Under the mask none of several values. Only the catalogue has it; JSON needs several rules."""


@dataclass(frozen=True)
class ArgumentComparison:
    """A comparison of one argument, under `mask`, with `values`: one value, or several for NONE_OF."""

    argument: int
    operator: ComparisonOperator
    values: tuple[int, ...]
    mask: int = U64

    @property
    def value(self) -> int:
        """The first value."""
        return self.values[0]

    def holds(self, arguments: tuple[int, ...]) -> bool:
        """Whether it is true of a call with these arguments, unsigned."""
        value = arguments[self.argument] & self.mask
        match self.operator:
            case ComparisonOperator.EQ | ComparisonOperator.MASKED_EQ:
                return value == self.value
            case ComparisonOperator.NE | ComparisonOperator.NONE_OF:
                return value not in self.values
            case ComparisonOperator.LT:
                return value < self.value
            case ComparisonOperator.LE:
                return value <= self.value
            case ComparisonOperator.GE:
                return value >= self.value
            case ComparisonOperator.GT:
                return value > self.value
            case _:
                assert_never(self.operator)

    def patterns(self) -> tuple[Pattern, ...]:
        """The same as alternatives, each a mask and a value. Only for comparisons under a mask."""
        if self.operator is ComparisonOperator.NONE_OF:
            return all_but(self.values, mask=self.mask)
        return (Pattern(self.mask, self.value),)


def masked_comparison(argument: int, value: int, mask: int = U32) -> ArgumentComparison:
    """An argument that is one value under a mask, by default that of an int."""
    return ArgumentComparison(argument, ComparisonOperator.MASKED_EQ, (value,), mask)


@dataclass(frozen=True)
class RuleCondition:
    """The condition under which an engine takes a rule (`includes`) or skips it (`excludes`). Empty: none.

    `caps` is compared with the bounding set of the container.
    """

    caps: tuple[str, ...] = ()
    arches: tuple[str, ...] = ()
    min_kernel: tuple[int, int] | None = None


ALWAYS = RuleCondition()


@dataclass(frozen=True)
class SeccompRule:
    """The action for calls of some names if all comparisons of `when` are true; without comparisons, always.

    `path` and `position` are the place of the rule in a file. Rules of the catalogue have a `group`, and its
    reason as their comment.
    """

    names: tuple[str, ...]
    action: Action
    when: tuple[ArgumentComparison, ...] = ()
    includes: RuleCondition = ALWAYS
    excludes: RuleCondition = ALWAYS
    comment: str = ""
    path: Path = ()
    position: Position = (0, 0)
    group: str = ""

    def holds(self, arguments: tuple[int, ...]) -> bool:
        """Whether it applies to a call with these arguments."""
        return all(comparison.holds(arguments) for comparison in self.when)

    def alternatives(self) -> Iterator[Mapping[int, Pattern]]:
        """Its comparisons as alternatives without negation: patterns that must all match, by argument."""
        choices = [
            [(comparison.argument, pattern) for pattern in comparison.patterns()] for comparison in self.when
        ]
        return (dict(choice) for choice in itertools.product(*choices))


@dataclass(frozen=True)
class SeccompProfile:
    """A profile: the rules, and the default action for calls that no rule covers.

    `architecture_map` is `archMap`: an architecture and those that come with it. `first_wins`: the first rule
    that holds decides, and overlapping rules have the same action, as in the catalogue; the rules of a file
    are tried in libseccomp's own order (`resolve`). `guards` decide before all rules; JSON cannot express
    them. `foreign` is the answer to calls of other architectures.
    """

    file: str
    default: Action
    rules: tuple[SeccompRule, ...]
    architectures: tuple[str, ...] = ()
    architecture_map: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    source: Document | None = field(default=None, repr=False, compare=False)
    path: Path = ()
    first_wins: bool = False
    guards: tuple[SeccompRule, ...] = ()
    foreign: Action = KILL_THREAD


RuleTable = Mapping[int, tuple[SeccompRule, ...]]
"""The rules for each number of an ABI; the first that holds decides."""


@dataclass(frozen=True)
class SeccompFilter:
    """The rules that apply on one machine, each for one name. `foreign` answers ABIs without a table."""

    default: Action
    tables: Mapping[Abi, RuleTable]
    foreign: Action
    clashes: tuple[tuple[SeccompRule, SeccompRule], ...] = ()
    """Rules for which the engines refuse the whole profile: equal comparisons, different actions."""
    newest: Mapping[Abi, int] = field(default_factory=dict)
    """The highest number that the profile names; runc answers ENOSYS to those above it."""
    silent: tuple[SeccompRule, ...] = ()
    """Rules that are left out because their action is the default one."""
