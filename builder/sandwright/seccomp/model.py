"""What a seccomp profile of ours is: groups of system calls, granted or not, some by their arguments.

The model holds only what every engine understands alike. A comparison sees the lower 32 bits of an argument,
which is all the kernel looks at where it takes an int; a case compares an argument once; cases that allow and
cases that refuse never overlap. Anything else can't be built.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from sandwright.seccomp.action import ALLOW, ENOSYS, EPERM, Action, Kind
from sandwright.seccomp.patterns import Pattern, all_but

INT = 0xFFFFFFFF
"""The mask under which an int argument is compared."""

MAX_ARGUMENTS = 6


@dataclass(frozen=True)
class Comparison:
    """One argument, masked, is one value, or with `negated` none of several."""

    argument: int
    values: tuple[int, ...]
    mask: int = INT
    negated: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.argument < MAX_ARGUMENTS:
            raise ValueError(f"argument {self.argument}: a call has arguments 0 to {MAX_ARGUMENTS - 1}")
        if not 0 < self.mask <= INT:
            raise ValueError(f"mask {self.mask:#x}: only the lower 32 bits can be compared")
        if any(not 0 <= value <= INT or value & ~self.mask for value in self.values):
            raise ValueError(f"argument {self.argument} can't have such a value under mask {self.mask:#x}")
        if not self.values or (len(self.values) > 1 and not self.negated):
            raise ValueError(f"argument {self.argument}: give one value, or those it must not have")
        self.patterns()

    def patterns(self) -> tuple[Pattern, ...]:
        """The same as alternatives, each a mask and a value."""
        if self.negated:
            return all_but(self.values, mask=self.mask)
        return (Pattern(self.mask, self.values[0]),)


Alternative = Mapping[int, Pattern]
"""Arguments that must all match, each by its index."""


@dataclass(frozen=True)
class Case:
    """What happens to a call when all comparisons hold, and why."""

    when: tuple[Comparison, ...]
    action: Action
    reason: str

    def __post_init__(self) -> None:
        arguments = [comparison.argument for comparison in self.when]
        if not arguments:
            raise ValueError("a case without a comparison would be the whole rule")
        if len(set(arguments)) < len(arguments):
            raise ValueError(
                "an argument is compared twice: engines take such a rule apart, and one half is then enough"
            )
        _check_action(self.action)

    def alternatives(self) -> Iterator[Alternative]:
        """The case as alternatives that hold no negation: what an OCI profile can say."""
        choices = [
            [(comparison.argument, pattern) for pattern in comparison.patterns()] for comparison in self.when
        ]
        return (dict(choice) for choice in itertools.product(*choices))


@dataclass(frozen=True)
class Treatment:
    """What a profile does with one call: `cases` by its arguments, or, where there are none, `action` always.

    With cases, a call that none of them covers gets the default action.
    """

    action: Action
    group: str
    reason: str
    cases: tuple[Case, ...] = ()


@dataclass(frozen=True)
class ArgumentRule:
    """Calls that a group grants or refuses by their arguments."""

    syscalls: tuple[str, ...]
    cases: tuple[Case, ...]

    def __post_init__(self) -> None:
        for one, other in itertools.combinations(self.cases, 2):
            if one.action != other.action and _overlap(one, other):
                raise ValueError(f"two cases overlap and differ: {one.reason} / {other.reason}")


@dataclass(frozen=True)
class Group:
    """System calls that belong together, and one line that says why they are granted or refused.

    `refusal` is what they get where they are not granted. `left_to_sentry`: gVisor's kernel may answer
    instead.
    """

    name: str
    reason: str
    syscalls: tuple[str, ...] = ()
    rules: tuple[ArgumentRule, ...] = ()
    refusal: Action = EPERM
    left_to_sentry: bool = False

    def __post_init__(self) -> None:
        _check_action(self.refusal)

    def granted(self) -> Iterator[tuple[str, Treatment]]:
        """What holds for its calls where the group is granted."""
        whole = Treatment(ALLOW, self.name, self.reason)
        yield from ((name, whole) for name in self.syscalls)
        for rule in self.rules:
            some = Treatment(DEFAULT, self.name, self.reason, rule.cases)
            yield from ((name, some) for name in rule.syscalls)


DEFAULT = ENOSYS
"""What calls get that no profile knows: the answer of a kernel without them, on which callers take another
way."""


@dataclass(frozen=True)
class SeccompProfile:
    """A named choice of groups. `with_capability` grants more to who holds a capability (`CAP_SYS_ADMIN`)."""

    name: str
    reason: str
    groups: Mapping[str, Group] = field(repr=False)
    grants: tuple[str, ...]
    with_capability: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    _treated: dict[frozenset[str], Mapping[str, Treatment]] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        used = {*self.grants, *itertools.chain.from_iterable(self.with_capability.values())}
        unknown = sorted(used - set(self.groups))
        if unknown:
            raise ValueError(f"no such group: {', '.join(unknown)}")
        self.treatments(self.with_capability)
        self.treatments()

    def treatments(self, caps: Collection[str] = ()) -> Mapping[str, Treatment]:
        """What happens to each call that any group knows, sorted by name.

        A group that grants a call whatever its arguments are wins over those with rules for it. Raise
        ValueError when two granted groups have rules for the same call.
        """
        key = frozenset(caps) & frozenset(self.with_capability)
        if key not in self._treated:
            self._treated[key] = self._treatments(key)
        return self._treated[key]

    def _treatments(self, caps: frozenset[str]) -> Mapping[str, Treatment]:
        found: dict[str, Treatment] = {}
        for name in self.granted_groups(caps):
            for syscall, treatment in self.groups[name].granted():
                before = found.get(syscall)
                if before is not None and before.cases and treatment.cases:
                    raise ValueError(f"{syscall} has rules in {before.group} and in {treatment.group}")
                if before is None or before.cases:
                    found[syscall] = treatment
        for syscall, treatment in self._refused():
            found.setdefault(syscall, treatment)
        return MappingProxyType(dict(sorted(found.items())))

    def _refused(self) -> Iterator[tuple[str, Treatment]]:
        """What calls get that are not granted. A group that names one outright comes before rules for it."""
        made = [(group, Treatment(group.refusal, group.name, group.reason)) for group in self.groups.values()]
        for group, refused in made:
            yield from ((name, refused) for name in group.syscalls)
        for group, refused in made:
            for rule in group.rules:
                yield from ((name, refused) for name in rule.syscalls)

    def granted_groups(self, caps: Collection[str] = ()) -> tuple[str, ...]:
        """The groups that hold for who has these capabilities, each once, in the order of the profile."""
        more = (
            group
            for capability, groups in self.with_capability.items()
            if capability in caps
            for group in groups
        )
        return tuple(dict.fromkeys((*self.grants, *more)))


def _overlap(one: Case, other: Case) -> bool:
    pairs = itertools.product(one.alternatives(), other.alternatives())
    return any(_compatible(first, second) for first, second in pairs)


def _compatible(first: Alternative, second: Alternative) -> bool:
    return all(first[argument].overlaps(second[argument]) for argument in first.keys() & second.keys())


def _check_action(action: Action) -> None:
    if action.kind not in (Kind.ALLOW, Kind.ERRNO):
        raise ValueError(f"{action.kind.oci} is not something our profiles do")
    if action.kind is Kind.ERRNO and action.data == 0:
        raise ValueError("errno 0 would tell the caller that the call was made")
