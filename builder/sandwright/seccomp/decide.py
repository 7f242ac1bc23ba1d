"""Says what a seccomp profile answers to one call, and which rule it is."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum

from sandwright.seccomp.abi import MINUS_ONE, X32_BIT, Abi, names
from sandwright.seccomp.action import ENOSYS, Action
from sandwright.seccomp.document import ProfileRule
from sandwright.seccomp.model import DEFAULT, Case, Comparison, SeccompProfile, Treatment
from sandwright.seccomp.resolve import Check, Filter, FilterRule, Relation

Arguments = tuple[int, int, int, int, int, int]
"""The six arguments of a call, as 64 bits without a sign."""


class Stage(Enum):
    """What decided about a call."""

    RULE = "rule"
    DEFAULT = "default"
    ARCHITECTURE = "architecture"


@dataclass(frozen=True)
class Call:
    """One call of one ABI. `number` is without the bit of x32."""

    abi: Abi
    number: int
    arguments: Arguments = (0, 0, 0, 0, 0, 0)

    @property
    def name(self) -> str:
        """The name of the number, or the number."""
        return names(self.abi).get(self.number, str(self.number))


@dataclass(frozen=True)
class Decision:
    """What happens to a call.

    `rule` is the one that decided; where the default did, one that says the same and was therefore left out.
    `others` are rules with another action that hold too, and so would decide
    in another order. `runc` is what runc answers where that differs: it puts a stub before the filter, which
    says ENOSYS to every number above those that the profile names (runc 1.1, patchbpf/enosys_linux.go).
    `unsure`: libseccomp before 2.6.1 may have merged the rules of this call into something else.
    """

    action: Action
    stage: Stage
    call: Call
    rule: ProfileRule | None = None
    others: tuple[ProfileRule, ...] = ()
    runc: Action | None = None
    unsure: bool = False


def decide(filter_: Filter, call: Call) -> Decision:
    """What a resolved profile answers to a call."""
    call = _as_seen(call)
    table = filter_.tables.get(call.abi)
    if table is None:
        return Decision(filter_.foreign, Stage.ARCHITECTURE, call)
    rules = table.get(call.number, ())
    holding = [rule for rule in rules if rule.holds(call.arguments)]
    rule: ProfileRule | None
    if holding:
        action, stage, rule = holding[0].action, Stage.RULE, holding[0].source
    else:
        action, stage = filter_.default, Stage.DEFAULT
        rule = next((silent for silent in filter_.silent if call.name in silent.names), None)
    others = tuple(other.source for other in holding[1:] if other.action != action)
    unsure = _merged_wrongly(rules, overlap=bool(others))
    return Decision(action, stage, call, rule, others, _stub(filter_, call, action), unsure)


def _merged_wrongly(rules: Sequence[FilterRule], *, overlap: bool) -> bool:
    """Whether libseccomp may make something else of the rules of one call (GHSA-4q85-33p6-j5g6).

    It merges rules, and mixes up branches where one compares several arguments by more than equality, where
    two compare by more than equality, one of them by order, and where rules with different actions hold
    together. What is none of these was compared with libseccomp 2.5.4, and was right.
    """
    unequal = [rule for rule in rules if any(map(_is_unequal, rule.checks))]
    by_order = any(check.relation is not Relation.EQUAL for rule in unequal for check in rule.checks)
    several = any(len(rule.checks) > 1 for rule in unequal)
    if len(rules) < 2:
        return False
    return several or (by_order and len(unequal) > 1) or (overlap and bool(unequal))


def _is_unequal(check: Check) -> bool:
    return check.negated or check.relation is not Relation.EQUAL


def _as_seen(call: Call) -> Call:
    """The call as filters take it: a number of amd64 with bit 30 is one of x32, but for -1."""
    if call.abi is Abi.AMD64 and call.number & X32_BIT and call.number != MINUS_ONE:
        return Call(Abi.X32, call.number & ~X32_BIT, call.arguments)
    return call


def _stub(filter_: Filter, call: Call, action: Action) -> Action | None:
    """What runc's stub answers, if that is not what the filter does."""
    newest = filter_.newest.get(call.abi, 0)
    if not newest or filter_.default.lets_run or call.number <= newest or action == ENOSYS:
        return None
    return ENOSYS


@dataclass(frozen=True)
class ProfileDecision:
    """What one of our profiles does with a call.

    `case` is there where arguments decide; `group` is empty for a call that the profile does not know.
    """

    action: Action
    group: str
    reason: str
    case: Case | None = None


def decide_profile(
    profile: SeccompProfile,
    name: str,
    arguments: Arguments = (0, 0, 0, 0, 0, 0),
    *,
    caps: Collection[str] = (),
) -> ProfileDecision:
    """What a profile of ours does with a call, straight from its groups. An unknown name gets the default."""
    treatment = profile.treatments(caps).get(name)
    if treatment is None:
        return ProfileDecision(
            DEFAULT, "", "Newer than the profile: answered as by a kernel that does not have it."
        )
    if not treatment.cases:
        return ProfileDecision(treatment.action, treatment.group, treatment.reason)
    return _of_case(treatment, arguments)


def _of_case(treatment: Treatment, arguments: Arguments) -> ProfileDecision:
    for case in treatment.cases:
        if all(_holds(comparison, arguments) for comparison in case.when):
            return ProfileDecision(case.action, treatment.group, case.reason, case)
    return ProfileDecision(
        treatment.action, treatment.group, "None of the group's cases holds for these arguments."
    )


def _holds(comparison: Comparison, arguments: Arguments) -> bool:
    found = arguments[comparison.argument] & comparison.mask in comparison.values
    return found != comparison.negated
