"""A profile as an engine resolves it: the rules that hold on one machine, for one set of capabilities.

The engines choose rules by capability, architecture and kernel, and give them to libseccomp one by one. The
result differs from the apparent meaning of the list (libseccomp 2.5.4, src/db.c; runc 1.1,
libcontainer/seccomp; crun 1.8, src/libcrun/seccomp.c):

- a rule with the default action is left out, even where it stands before others;
- a rule that names an argument twice becomes one rule for each comparison, and any of them is enough;
- of rules without arguments the first counts;
- a rule without arguments puts an end to those with arguments for the same call, earlier ones included;
- rules with arguments are tried in an order of libseccomp's own;
- on 32-bit ABIs arguments and values lose their upper halves.

Of a profile whose first rule wins, the rules stay in their order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from types import MappingProxyType

from sandwright.seccomp.abi import BY_OCI_NAME, NATIVE, RUNS, Abi, Architecture, SyscallTarget, targets
from sandwright.seccomp.model import (
    ALWAYS,
    U32,
    U64,
    ArgumentComparison,
    ComparisonOperator,
    RuleCondition,
    RuleTable,
    SeccompFilter,
    SeccompProfile,
    SeccompRule,
)
from sandwright.seccomp.order import RuleTree

Clashes = list[tuple[SeccompRule, SeccompRule]]


def resolve(
    profile: SeccompProfile,
    *,
    arch: Architecture,
    caps: Collection[str] = (),
    kernel: tuple[int, int] | None = None,
) -> SeccompFilter:
    """The filter that an engine makes of a profile on a machine of this architecture.

    `caps` is the bounding set of the container. `kernel` is the version that `minKernel` is compared
    with; without one every kernel is taken to be new enough.
    """
    profile = for_machine(profile, arch=arch, caps=caps, kernel=kernel)
    clashes: Clashes = []
    abis = _abis(profile, arch)
    tables = {abi: _guarded(_build_rule_table(profile, abi, clashes), profile, abi) for abi in abis}
    return SeccompFilter(
        profile.default,
        MappingProxyType(tables),
        profile.foreign,
        clashes=tuple(clashes),
        newest=MappingProxyType({abi: _newest(profile.rules, abi) for abi in abis}),
        silent=tuple(rule for rule in profile.rules if _is_silent(rule, profile)),
    )


def for_machine(
    profile: SeccompProfile,
    *,
    arch: Architecture,
    caps: Collection[str] = (),
    kernel: tuple[int, int] | None = None,
) -> SeccompProfile:
    """The profile with the rules that an engine takes over on one machine, and that machine's architectures.

    `archMap`, `includes` and `excludes` are decided: the runtime specification has none of them.
    """
    rules = (rule for rule in profile.rules if applies(rule, arch, caps, kernel))
    return replace(
        profile,
        rules=tuple(
            rule
            if rule.includes is ALWAYS is rule.excludes
            else replace(rule, includes=ALWAYS, excludes=ALWAYS)
            for rule in rules
        ),
        architectures=tuple(abi.oci for abi in _abis(profile, arch)),
        architecture_map={},
    )


def applies(
    rule: SeccompRule,
    arch: Architecture,
    caps: Collection[str],
    kernel: tuple[int, int] | None,
) -> bool:
    """Whether an engine takes a rule over: all of `includes` holds and none of `excludes`."""
    held = [*_condition_results(rule.includes, arch, caps, kernel, every=True)]
    barred = [*_condition_results(rule.excludes, arch, caps, kernel, every=False)]
    return all(held) and not any(barred)


def _condition_results(
    condition: RuleCondition,
    arch: Architecture,
    caps: Collection[str],
    kernel: tuple[int, int] | None,
    *,
    every: bool,
) -> Iterator[bool]:
    """Whether each kind of condition holds, among the given ones."""
    if condition.arches:
        yield arch in condition.arches
    if condition.caps:
        held = [name in caps for name in condition.caps]
        yield all(held) if every else any(held)
    if condition.min_kernel is not None:
        yield kernel is None or kernel >= condition.min_kernel


def _abis(profile: SeccompProfile, arch: Architecture) -> list[Abi]:
    """The machine's own ABI, which every filter has, and those that the profile adds to it."""
    native = NATIVE[arch]
    listed = set(profile.architectures)
    if native.oci in profile.architecture_map:
        listed |= {native.oci, *profile.architecture_map[native.oci]}
    chosen = {native, *(BY_OCI_NAME[name] for name in listed if name in BY_OCI_NAME)}
    return [abi for abi in RUNS[arch] if abi in chosen]


def _newest(rules: Sequence[SeccompRule], abi: Abi) -> int:
    """The highest number of an ABI that any rule names, with any action."""
    return max(
        (target.number for rule in rules for name in rule.names for target in targets(abi, name)), default=0
    )


def _is_silent(rule: SeccompRule, profile: SeccompProfile) -> bool:
    """Whether a rule is left out, for its action is the default one."""
    return rule.action == profile.default and not (profile.first_wins and rule.when)


def _build_rule_table(profile: SeccompProfile, abi: Abi, clashes: Clashes) -> RuleTable:
    found: dict[int, list[SeccompRule]] = {}
    for rule in profile.rules:
        if _is_silent(rule, profile):
            continue
        for name in rule.names:
            for target in targets(abi, name):
                for when in _comparisons(rule.when, abi, target):
                    found.setdefault(target.number, []).append(replace(rule, names=(name,), when=when))
    if profile.first_wins:
        return {number: tuple(rules) for number, rules in found.items()}
    return {number: tuple(_effective(rules, abi, clashes)) for number, rules in found.items()}


def _effective(rules: Sequence[SeccompRule], abi: Abi, clashes: Clashes) -> Iterator[SeccompRule]:
    """The rules of one number as libseccomp keeps them, in the order in which they are tried."""
    tree = RuleTree(abi)
    for rule in rules:
        if not rule.when:
            yield rule
            break
        tree.add(rule)
    else:
        yield from tree.ordered()
    clashes += tree.clashes


def _comparisons(
    when: tuple[ArgumentComparison, ...], abi: Abi, target: SyscallTarget
) -> Iterator[tuple[ArgumentComparison, ...]]:
    """The comparisons of a rule: one tuple, or one per comparison when an argument is named twice."""
    indices = [comparison.argument for comparison in when]
    twice = len(set(indices)) < len(indices)
    parts: list[tuple[ArgumentComparison, ...]] = [(one,) for one in when] if twice else [when]
    for part in parts:
        if target.selector is not None:
            part = (_selects(target.selector), *(one for one in part if one.argument != 0))  # noqa: PLW2901
        made = (_as_compared(one, wide=abi.is_64_bit) for one in part)
        yield tuple(comparison for comparison in made if comparison.mask)


def _selects(selector: int) -> ArgumentComparison:
    """The comparison for argument 0 of a multiplexed call."""
    return ArgumentComparison(0, ComparisonOperator.EQ, (selector,))


def _as_compared(comparison: ArgumentComparison, *, wide: bool) -> ArgumentComparison:
    """A comparison within the width of an ABI's arguments."""
    mask = comparison.mask & (U64 if wide else U32)
    return replace(comparison, values=tuple(value & mask for value in comparison.values), mask=mask)


def _guarded(table: RuleTable, profile: SeccompProfile, abi: Abi) -> RuleTable:
    """A table with the profile's guards before its rules.

    A multiplexed call hides its arguments, so that a guard refuses all of it.
    """
    guards: dict[int, dict[SeccompRule, None]] = {}
    for guard in profile.guards:
        for name in guard.names:
            for target in targets(abi, name):
                when = guard.when if target.selector is None else (_selects(target.selector),)
                made = tuple(_as_compared(one, wide=abi.is_64_bit) for one in when)
                guards.setdefault(target.number, {})[replace(guard, names=(name,), when=made)] = None
    merged = dict(table)
    for number, added in guards.items():
        last = [*added][-1]
        merged[number] = (*added, *(table.get(number, ()) if last.when else ()))
    return MappingProxyType(merged)
