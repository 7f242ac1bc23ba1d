"""What an engine makes of a profile: the rules that hold on one machine, for one set of capabilities.

The engines choose rules by capability, architecture and kernel, and give them to libseccomp one by one. What
comes of it is not what the list seems to say (libseccomp 2.5.4, src/db.c; runc 1.1, libcontainer/seccomp;
crun 1.8, src/libcrun/seccomp.c):

- a rule with the default action is left out, even where it stands before others;
- a rule that names an argument twice becomes one rule for each comparison, and any of them is enough;
- of rules without arguments the first counts;
- a rule without arguments puts an end to those with arguments for the same call, earlier ones included;
- rules with arguments are tried in an order of libseccomp's own;
- on 32-bit ABIs arguments and values lose their upper halves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType
from typing import assert_never

from sandwright.seccomp.abi import BY_OCI_NAME, NATIVE, RUNS, Abi, Architecture, Target, targets
from sandwright.seccomp.action import KILL_THREAD, Action
from sandwright.seccomp.document import (
    U64,
    Argument,
    Condition,
    Operator,
    ProfileDocument,
    ProfileRule,
)
from sandwright.seccomp.order import Step, Tree

U32 = (1 << 32) - 1


class Relation(Enum):
    """How a test relates an argument to its value."""

    EQUAL = "=="
    GREATER = ">"
    AT_LEAST = ">="


@dataclass(frozen=True)
class Check:
    """One comparison as a filter makes it: the argument, masked, relates to the value; or, `negated`, not."""

    argument: int
    relation: Relation
    value: int
    mask: int = U64
    negated: bool = False
    masked: bool = False
    """Whether it was written with a mask, which libseccomp tells apart from a mask of all bits."""

    def holds(self, arguments: tuple[int, ...]) -> bool:
        """Whether it is true of a call with these arguments, unsigned."""
        given = arguments[self.argument] & self.mask
        match self.relation:
            case Relation.EQUAL:
                found = given == self.value
            case Relation.GREATER:
                found = given > self.value
            case Relation.AT_LEAST:
                found = given >= self.value
            case _:
                assert_never(self.relation)
        return found != self.negated


@dataclass(frozen=True)
class FilterRule:
    """A rule for one number of one ABI. Without checks it holds for every call."""

    name: str
    action: Action
    checks: tuple[Check, ...]
    source: ProfileRule

    def holds(self, arguments: tuple[int, ...]) -> bool:
        """Whether it applies to a call with these arguments."""
        return all(check.holds(arguments) for check in self.checks)


RuleTable = Mapping[int, tuple[FilterRule, ...]]
"""The rules for each number of an ABI; the first that holds decides."""


@dataclass(frozen=True)
class Filter:
    """The rules that hold on one machine. `foreign` is what calls of ABIs without a table get."""

    default: Action
    tables: Mapping[Abi, RuleTable]
    foreign: Action = KILL_THREAD
    clashes: tuple[tuple[FilterRule, FilterRule], ...] = ()
    """Rules for which the engines refuse the whole profile: equal comparisons, different actions."""
    newest: Mapping[Abi, int] = field(default_factory=dict)
    """The highest number that the profile names; runc answers ENOSYS to those above it."""
    silent: tuple[ProfileRule, ...] = ()
    """Rules that are left out because their action is the default one."""


def resolve(
    profile: ProfileDocument,
    *,
    arch: Architecture,
    caps: Collection[str] = (),
    kernel: tuple[int, int] | None = None,
) -> Filter:
    """The filter that an engine makes of a profile on a machine of this architecture.

    `caps` is the bounding set of the container. `kernel` is the version that `minKernel` is compared
    with; without one every kernel is taken to be new enough.
    """
    chosen = [rule for rule in profile.rules if applies(rule, arch, caps, kernel)]
    clashes: list[tuple[FilterRule, FilterRule]] = []
    tables = {abi: _table(chosen, abi, profile.default, clashes) for abi in _abis(profile, arch)}
    newest = {abi: _newest(chosen, abi) for abi in tables}
    return Filter(
        profile.default,
        MappingProxyType(tables),
        clashes=tuple(clashes),
        newest=MappingProxyType(newest),
        silent=tuple(rule for rule in chosen if rule.action == profile.default),
    )


def applies(
    rule: ProfileRule,
    arch: Architecture,
    caps: Collection[str],
    kernel: tuple[int, int] | None,
) -> bool:
    """Whether an engine takes a rule over: all of `includes` holds and none of `excludes`."""
    held = [*_answers(rule.includes, arch, caps, kernel, every=True)]
    barred = [*_answers(rule.excludes, arch, caps, kernel, every=False)]
    return all(held) and not any(barred)


def _answers(
    condition: Condition,
    arch: Architecture,
    caps: Collection[str],
    kernel: tuple[int, int] | None,
    *,
    every: bool,
) -> Iterator[bool]:
    """Whether each kind of condition holds, of those that are asked."""
    if condition.arches:
        yield arch in condition.arches
    if condition.caps:
        asked = [name in caps for name in condition.caps]
        yield all(asked) if every else any(asked)
    if condition.min_kernel is not None:
        yield kernel is None or kernel >= condition.min_kernel


def _abis(profile: ProfileDocument, arch: Architecture) -> list[Abi]:
    """The machine's own ABI, which every filter has, and those that the profile adds to it."""
    native = NATIVE[arch]
    listed = set(profile.architectures)
    if native.oci in profile.architecture_map:
        listed |= {native.oci, *profile.architecture_map[native.oci]}
    wanted = {native, *(BY_OCI_NAME[name] for name in listed if name in BY_OCI_NAME)}
    return [abi for abi in RUNS[arch] if abi in wanted]


def _newest(rules: Sequence[ProfileRule], abi: Abi) -> int:
    """The highest number of an ABI that any rule names, whatever its action is."""
    return max(
        (target.number for rule in rules for name in rule.names for target in targets(abi, name)), default=0
    )


def _table(
    rules: list[ProfileRule], abi: Abi, default: Action, clashes: list[tuple[FilterRule, FilterRule]]
) -> RuleTable:
    found: dict[int, list[FilterRule]] = {}
    for rule in rules:
        if rule.action == default:
            continue
        for name in rule.names:
            for target in targets(abi, name):
                for checks in _checks(rule.arguments, abi, target):
                    found.setdefault(target.number, []).append(FilterRule(name, rule.action, checks, rule))
    return MappingProxyType(
        {number: tuple(_effective(listed, abi, clashes)) for number, listed in found.items()}
    )


def _effective(
    rules: Sequence[FilterRule], abi: Abi, clashes: list[tuple[FilterRule, FilterRule]]
) -> Iterator[FilterRule]:
    """The rules of one number as libseccomp keeps them, in the order in which they are tried."""
    tree: Tree[FilterRule] = Tree()
    for rule in rules:
        if not rule.checks:
            yield rule
            break
        checks = sorted(rule.checks, key=lambda check: check.argument)
        tree.add([step for check in checks for step in _steps(check, abi)], rule.action, rule)
    else:
        yield from tree.ordered()
    clashes += tree.clashes


def _steps(check: Check, abi: Abi) -> Iterator[Step]:
    """A check as the comparisons that libseccomp makes of it, the upper half first."""
    mergeable = check.relation is Relation.EQUAL and not check.negated
    kind = 3 if check.relation is Relation.EQUAL else 2 if check.negated else 1
    for half in (1, 0) if abi.is_64_bit else (0,):
        value, mask = check.value >> 32 * half & U32, check.mask >> 32 * half & U32
        rank = (2 * check.argument + half, kind, -value if kind == 2 else value)
        same = (check.argument, half, value, mask, check.masked)
        yield Step(rank, same if mergeable else (check, half))


def _checks(arguments: tuple[Argument, ...], abi: Abi, target: Target) -> Iterator[tuple[Check, ...]]:
    """The checks of a rule: one tuple, or one for each comparison when an argument is named twice."""
    indices = [argument.index for argument in arguments]
    twice = len(set(indices)) < len(indices)
    parts: list[tuple[Argument, ...]] = [(argument,) for argument in arguments] if twice else [arguments]
    for part in parts:
        if target.selector is not None:
            selector = Argument(0, Operator.EQ, target.selector)
            part = (selector, *(argument for argument in part if argument.index != 0))  # noqa: PLW2901
        made = (_check(argument, wide=abi.is_64_bit) for argument in part)
        yield tuple(check for check in made if check.mask)


def _check(argument: Argument, *, wide: bool) -> Check:
    index, value, everything = argument.index, argument.value, U64 if wide else U32
    match argument.operator:
        case Operator.MASKED_EQ:
            mask = value & everything
            return Check(index, Relation.EQUAL, argument.value_two & mask, mask, masked=True)
        case Operator.EQ | Operator.NE:
            check = Check(index, Relation.EQUAL, value & everything, everything)
        case Operator.GT | Operator.LE:
            check = Check(index, Relation.GREATER, value & everything, everything)
        case Operator.GE | Operator.LT:
            check = Check(index, Relation.AT_LEAST, value & everything, everything)
        case _:
            assert_never(argument.operator)
    negated = argument.operator in (Operator.NE, Operator.LE, Operator.LT)
    return replace(check, negated=negated)
