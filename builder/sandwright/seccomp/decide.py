"""Finds a seccomp profile's answer to one call (allow, EPERM, ENOSYS), and the rule that gives it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum

from sandwright.seccomp.abi import MINUS_ONE, X32_BIT, Abi, syscall_names
from sandwright.seccomp.action import ENOSYS, Action
from sandwright.seccomp.groups import DEFAULT, CatalogueProfile
from sandwright.seccomp.model import ArgumentComparison, ComparisonOperator, SeccompFilter, SeccompRule

Arguments = tuple[int, int, int, int, int, int]
"""The six arguments of a call, as 64 bits without a sign."""


class DecisionStage(Enum):
    """The stage of a filter that decided on a call."""

    RULE = "rule"
    DEFAULT = "default"
    ARCHITECTURE = "architecture"


@dataclass(frozen=True)
class SeccompCall:
    """One call of one ABI. `number` is without the bit of x32."""

    abi: Abi
    number: int
    arguments: Arguments = (0, 0, 0, 0, 0, 0)

    @property
    def name(self) -> str:
        """The name of the number, or the number."""
        return syscall_names(self.abi).get(self.number, str(self.number))


@dataclass(frozen=True)
class SeccompDecision:
    """The decision on a call.

    `rule` is the one that decided; where the default did, one that says the same and was therefore left out.
    `others` are rules with another action that hold too, and so would decide in another order. `runc` is
    runc's answer if it differs: runc puts a stub before the filter, which answers ENOSYS for every number
    above those in the profile (runc 1.1, patchbpf/enosys_linux.go). `unsure`: libseccomp before 2.6.1 may
    have merged the rules of this call into something else.
    """

    action: Action
    stage: DecisionStage
    call: SeccompCall
    rule: SeccompRule | None = None
    others: tuple[SeccompRule, ...] = ()
    runc: Action | None = None
    unsure: bool = False


def decide(filter_: SeccompFilter, call: SeccompCall) -> SeccompDecision:
    """Decide on a call as the filter does."""
    call = _as_seen(call)
    table = filter_.tables.get(call.abi)
    if table is None:
        return SeccompDecision(filter_.foreign, DecisionStage.ARCHITECTURE, call)
    rules = table.get(call.number, ())
    holding = [rule for rule in rules if rule.holds(call.arguments)]
    rule: SeccompRule | None
    if holding:
        action, stage, rule = holding[0].action, DecisionStage.RULE, holding[0]
    else:
        action, stage = filter_.default, DecisionStage.DEFAULT
        rule = next((silent for silent in filter_.silent if call.name in silent.names), None)
    others = tuple(other for other in holding[1:] if other.action != action)
    unsure = _merged_wrongly(rules, overlap=bool(others))
    return SeccompDecision(action, stage, call, rule, others, _stub(filter_, call, action), unsure)


def _merged_wrongly(rules: Sequence[SeccompRule], *, overlap: bool) -> bool:
    """Whether libseccomp may make something else of the rules of one call (GHSA-4q85-33p6-j5g6).

    It merges rules, and mixes up branches where one compares several arguments by more than equality, where
    two compare by more than equality, one of them by order, and where rules with different actions hold
    together. All other cases were compared with libseccomp 2.5.4, and agreed.
    """
    if len(rules) < 2:
        return False
    unequal = [rule for rule in rules if any(map(_is_unequal, rule.when))]
    by_order = any(one.operator in _BY_ORDER for rule in unequal for one in rule.when)
    several = any(len(rule.when) > 1 for rule in unequal)
    return several or (by_order and len(unequal) > 1) or (overlap and bool(unequal))


def _is_unequal(comparison: ArgumentComparison) -> bool:
    return comparison.operator not in (ComparisonOperator.EQ, ComparisonOperator.MASKED_EQ)


_BY_ORDER = (ComparisonOperator.LT, ComparisonOperator.LE, ComparisonOperator.GE, ComparisonOperator.GT)


def _as_seen(call: SeccompCall) -> SeccompCall:
    """The call as filters take it: a number of amd64 with bit 30 is one of x32, but for -1."""
    if call.abi is Abi.AMD64 and call.number & X32_BIT and call.number != MINUS_ONE:
        return SeccompCall(Abi.X32, call.number & ~X32_BIT, call.arguments)
    return call


def _stub(filter_: SeccompFilter, call: SeccompCall, action: Action) -> Action | None:
    """The action of runc's stub, if it differs from the filter's."""
    newest = filter_.newest.get(call.abi, 0)
    if not newest or filter_.default.lets_run or call.number <= newest or action == ENOSYS:
        return None
    return ENOSYS


@dataclass(frozen=True)
class CatalogueDecision:
    """The decision of a shipped profile on a call.

    `rule` is there where arguments decide; `group` is empty for a call that the profile does not know.
    """

    action: Action
    group: str
    reason: str
    rule: SeccompRule | None = None


def decide_by_name(
    profile: CatalogueProfile,
    name: str,
    arguments: Arguments = (0, 0, 0, 0, 0, 0),
    *,
    caps: Collection[str] = (),
) -> CatalogueDecision:
    """Decide on a call by the groups of a shipped profile, on any architecture.

    An unknown name gets the default.
    """
    rules = profile.rules(caps).get(name)
    if rules is None:
        return CatalogueDecision(
            DEFAULT, "", "Newer than the profile: answered as by a kernel that does not have it."
        )
    group = rules[0].group
    rule = next((rule for rule in rules if rule.holds(arguments)), None)
    if rule is None:
        return CatalogueDecision(DEFAULT, group, "None of the group's cases holds for these arguments.")
    return CatalogueDecision(rule.action, group, rule.comment, rule if rule.when else None)
