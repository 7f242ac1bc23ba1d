"""Groups of system calls and the profiles that choose among them, as the catalogue in `seccomp/` holds them.

They contain only rules that every engine reads in the same way: a comparison sees the lower 32 bits of an
argument, like the kernel for an int; a rule compares an argument once; rules that allow and rules that refuse
never overlap. Other rules are rejected.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from sandwright.seccomp.abi import BOTH, NATIVE, Architecture, numbers
from sandwright.seccomp.action import ALLOW, ENOSYS, EPERM, KILL_PROCESS, Action, ActionKind
from sandwright.seccomp.model import (
    MAX_ARGUMENTS,
    U32,
    ArgumentComparison,
    ComparisonOperator,
    SeccompProfile,
    SeccompRule,
    masked_comparison,
)

DEFAULT = ENOSYS
"""The answer to calls that no profile knows: that of a kernel without them, on which callers take another
way."""

RulesByName = Mapping[str, tuple[SeccompRule, ...]]


def comparison(
    argument: int, values: Sequence[int], mask: int = U32, *, negated: bool = False
) -> ArgumentComparison:
    """One argument, masked, is one value, or with `negated` none of several.

    Raise ValueError for a comparison that engines would not evaluate in the same way.
    """
    if not 0 <= argument < MAX_ARGUMENTS:
        raise ValueError(f"argument {argument}: a call has arguments 0 to {MAX_ARGUMENTS - 1}")
    if not 0 < mask <= U32:
        raise ValueError(f"mask {mask:#x}: only the lower 32 bits can be compared")
    if any(not 0 <= value <= U32 or value & ~mask for value in values):
        raise ValueError(f"argument {argument} cannot have such a value under mask {mask:#x}")
    if not values or (len(values) > 1 and not negated):
        raise ValueError(f"argument {argument}: give one value, or those it must not have")
    if not negated:
        return masked_comparison(argument, values[0], mask)
    made = ArgumentComparison(argument, ComparisonOperator.NONE_OF, tuple(values), mask)
    made.patterns()
    return made


def argument_rule(
    names: tuple[str, ...], when: Sequence[ArgumentComparison], action: Action, reason: str
) -> SeccompRule:
    """A rule for calls to which all comparisons apply, with the reason. Raise ValueError like `comparison`.

    gVisor can refuse only with EPERM; refusals with another error are left to its kernel.
    """
    arguments = [each.argument for each in when]
    if not arguments:
        raise ValueError("a case without a comparison would be the whole rule")
    if len(set(arguments)) < len(arguments):
        raise ValueError(
            "an argument is compared twice: engines take such a rule apart, and one half is then enough"
        )
    _check_group_action(action)
    ordered = tuple(sorted(when, key=lambda each: each.argument))
    return SeccompRule(names, action, ordered, comment=reason)


@dataclass(frozen=True)
class SyscallGroup:
    """System calls that belong together, and one line that says why they are granted or refused.

    Where the group is granted, `syscalls` are allowed outright and `rules` hold for others by their
    arguments. Elsewhere all of them get `refusal`.
    """

    name: str
    reason: str
    syscalls: tuple[str, ...] = ()
    rules: tuple[SeccompRule, ...] = ()
    refusal: Action = EPERM

    def __post_init__(self) -> None:
        _check_group_action(self.refusal)
        for one, other in itertools.combinations(self.rules, 2):
            if one.action != other.action and {*one.names} & {*other.names} and _overlap(one, other):
                raise ValueError(f"two cases overlap and differ: {one.comment} / {other.comment}")

    def granted(self) -> RulesByName:
        """The rules for each of its calls where the group is granted."""
        found: dict[str, tuple[SeccompRule, ...]] = dict.fromkeys(self.syscalls, (self._group_rule(ALLOW),))
        for rule in self.rules:
            for name in rule.names:
                if name not in self.syscalls:
                    found[name] = (*found.get(name, ()), replace(rule, group=self.name))
        return found

    def refused(self) -> RulesByName:
        """The rule for each of its calls where the group is not granted."""
        rule = (self._group_rule(self.refusal),)
        return dict.fromkeys((*self.syscalls, *(name for one in self.rules for name in one.names)), rule)

    def _group_rule(self, action: Action) -> SeccompRule:
        return SeccompRule(self.syscalls, action, comment=self.reason, group=self.name)


@dataclass(frozen=True)
class CatalogueProfile:
    """A named choice of groups. `with_capability` grants more to holders of one (`CAP_SYS_ADMIN`)."""

    name: str
    reason: str
    groups: Mapping[str, SyscallGroup] = field(repr=False)
    grants: tuple[str, ...]
    with_capability: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    _rules: dict[frozenset[str], RulesByName] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        used = {*self.grants, *itertools.chain.from_iterable(self.with_capability.values())}
        unknown = sorted(used - set(self.groups))
        if unknown:
            raise ValueError(f"no such group: {', '.join(unknown)}")
        self.rules(self.with_capability)
        self.rules()

    def rules(self, caps: Collection[str] = ()) -> RulesByName:
        """The rules for each call that any group knows, sorted by name: one that holds always, or several.

        A group that grants a call with any arguments overrides groups with rules for it. Raise
        ValueError when two granted groups have rules for the same call.
        """
        key = frozenset(caps) & frozenset(self.with_capability)
        if key not in self._rules:
            self._rules[key] = MappingProxyType(dict(sorted(self._rules_by_syscall(key).items())))
        return self._rules[key]

    def outright(self) -> frozenset[str]:
        """The calls that the profile allows with any arguments, without capabilities."""
        return frozenset(
            name
            for name, granted in self.rules().items()
            if granted[0].action == ALLOW and not granted[0].when
        )

    def refused(self) -> frozenset[str]:
        """The calls that the profile denies with any arguments, without capabilities, except with ENOSYS."""
        return frozenset(
            name
            for name, granted in self.rules().items()
            if not granted[0].when and granted[0].action not in (ALLOW, ENOSYS)
        )

    def partly(self) -> Mapping[str, str]:
        """The calls that it denies by their arguments, and the reason, empty if there are several."""
        reasons: dict[str, set[str]] = {}
        for name, granted in self.rules().items():
            for rule in granted:
                if rule.when and rule.action != ALLOW:
                    reasons.setdefault(name, set()).add(rule.comment.rstrip("."))
        return {name: each.pop() if len(each) == 1 else "" for name, each in reasons.items()}

    def _rules_by_syscall(self, caps: frozenset[str]) -> dict[str, tuple[SeccompRule, ...]]:
        found: dict[str, tuple[SeccompRule, ...]] = {}
        for group in self.granted_groups(caps):
            for name, rules in self.groups[group].granted().items():
                before = found.get(name)
                if before is not None and before[0].when and rules[0].when:
                    raise ValueError(f"{name} has rules in {before[0].group} and in {group}")
                if before is None or before[0].when:
                    found[name] = rules
        for name, rules in self._refused_rules():
            found.setdefault(name, rules)
        return found

    def _refused_rules(self) -> Iterator[tuple[str, tuple[SeccompRule, ...]]]:
        """The rules for calls that are not granted. Groups that name a call outright come first."""
        refused = [(group, group.refused()) for group in self.groups.values()]
        for group, rules in refused:
            yield from ((name, rules[name]) for name in group.syscalls)
        for _, rules in refused:
            yield from rules.items()

    def granted_groups(self, caps: Collection[str] = ()) -> tuple[str, ...]:
        """The groups that apply with these capabilities, without duplicates, in the profile's order."""
        more = (
            group
            for capability, groups in self.with_capability.items()
            if capability in caps
            for group in groups
        )
        return tuple(dict.fromkeys((*self.grants, *more)))

    def expand(self, *, caps: Collection[str] = (), arch: Sequence[Architecture] = BOTH) -> SeccompProfile:
        """The profile itself: the rules for holders of the capabilities `caps`, with names that `arch` knows.

        Every name is in one rule, or in rules that never overlap with another answer, so that their order
        does not matter. Calls of 32-bit ABIs and of x32 kill the process.
        """
        syscalls = {name for one in arch for name in numbers(NATIVE[one])}
        by_name = {name: rules for name, rules in self.rules(caps).items() if name in syscalls}
        outright: dict[tuple[str, Action], list[str]] = {}
        for name, (first, *_) in by_name.items():
            if not first.when:
                outright.setdefault((first.group, first.action), []).append(name)
        whole = [replace(by_name[names[0]][0], names=tuple(names)) for names in outright.values()]
        whole.sort(key=lambda rule: (rule.action.kind is not ActionKind.ALLOW, rule.action.data, rule.group))
        some = [
            replace(rule, names=(name,)) for name, rules in by_name.items() for rule in rules if rule.when
        ]
        return SeccompProfile(
            self.name,
            DEFAULT,
            (*whole, *some),
            tuple(NATIVE[one].oci for one in arch),
            first_wins=True,
            foreign=KILL_PROCESS,
        )


def _overlap(one: SeccompRule, other: SeccompRule) -> bool:
    return any(
        all(first[argument].overlaps(second[argument]) for argument in first.keys() & second.keys())
        for first, second in itertools.product(one.alternatives(), other.alternatives())
    )


def _check_group_action(action: Action) -> None:
    if action.kind not in (ActionKind.ALLOW, ActionKind.ERRNO):
        raise ValueError(f"{action.kind.oci} is not something our profiles do")
    if action.kind is ActionKind.ERRNO and action.data == 0:
        raise ValueError("errno 0 would tell the caller that the call was made")
