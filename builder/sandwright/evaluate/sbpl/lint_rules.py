"""Lint checks of precedence: rules that other rules undo."""

from __future__ import annotations

from collections.abc import Iterator

from sandwright.evaluate.sbpl.finding import Check, LintedProfile, SbplFinding, lint_data
from sandwright.evaluate.sbpl.probes import probes
from sandwright.evaluate.sbpl.request import SbplRequest
from sandwright.evaluate.sbpl.rule import Rule
from sandwright.evaluate.sbpl.vocabulary import Operation, vocabulary

_CHILDREN_SEEN = 40


def _operation_descendants(name: str) -> list[Operation]:
    """The operations that an operation decides for when nothing names them, itself first."""
    words = vocabulary()
    found = [words.operations[name]]
    for operation in words.operations.values():
        inherits = operation.parent is not None and operation.builtin is None and operation not in found
        if inherits and any(step.name == name for step in words.chain(operation.name)):
            found.append(operation)
    return found[:_CHILDREN_SEEN]


def _ineffective_denies(subject: LintedProfile) -> Iterator[SbplFinding]:
    for rule in subject.profile_rules:
        if rule.action == "allow" or not rule.filters:
            continue
        for name in rule.operations:
            for child in _operation_descendants(name)[1:]:
                opener = _reopened(subject, rule, child)
                if opener is not None:
                    yield _reopening(subject, rule, child, opener)
                    break


def _reopened(subject: LintedProfile, rule: Rule, child: Operation) -> Rule | None:
    """A rule on a child operation that allows a request which a rule denies."""
    for request in probes(rule.filters):
        decision = subject.evaluator.decide_request(child.name, request)
        if decision.allowed and decision.rule is not None and decision.level not in rule.operations:
            return decision.rule
    return None


def _reopening(subject: LintedProfile, rule: Rule, child: Operation, opener: Rule) -> SbplFinding:
    where = f"line {opener.position.line} allows {child.name} all the same: {opener.text[:120]}"
    if opener.ordinal > rule.ordinal:
        return subject.find(rule, "L16", "info", where)
    message = f"{where}. A rule on an operation beats any on its parent; name {child.name} here too"
    return subject.find(rule, "L16", "error", message)


def _late_unfiltered(subject: LintedProfile) -> Iterator[SbplFinding]:
    for rule in subject.profile_rules:
        if rule.filters or rule.operations == ("default",):
            continue
        for earlier in subject.profile.rules[: rule.ordinal]:
            shared = set(rule.operations) & set(earlier.operations)
            if earlier.filters and shared and earlier.action != rule.action:
                message = (
                    f"this does not override line {earlier.position.line}: "
                    f"an unfiltered rule holds only where no filtered one of {min(shared)} matches"
                )
                yield subject.find(rule, "L17", "warning", message)
                break


def _lint_default(subject: LintedProfile) -> Iterator[SbplFinding]:
    rules = [rule for rule in subject.profile.rules if "default" in rule.operations and not rule.filters]
    if not rules:
        yield subject.find(None, "L18", "error", "no rule on default: begin with (deny default)")
    elif rules[-1].action == "allow":
        message = "(allow default) allows whatever no rule denies, operations of later systems too"
        yield subject.find(rules[-1], "L18", "error", message)
    else:
        yield from _default_gaps(subject, rules[-1])


def _default_gaps(subject: LintedProfile, rule: Rule) -> Iterator[SbplFinding]:
    open_still = [
        f"{name} ({why})"
        for name, why in lint_data()["default_allowed"].items()
        if subject.evaluator.decide_request(name, SbplRequest()).stage == "built-in"
    ]
    if open_still:
        message = f"(deny default) does not deny {', '.join(open_still)}: deny them by name"
        yield subject.find(rule, "L19", "warning", message)


def _unreachable(subject: LintedProfile) -> Iterator[SbplFinding]:
    seen: dict[str, Rule] = {}
    for rule in subject.profile_rules:
        same = seen.setdefault(rule.expanded, rule)
        if same is not rule:
            message = f"this repeats line {same.position.line}"
            yield subject.find(rule, "L26", "warning", message)
            continue
        found = _overruler(subject, rule)
        if found is not None:
            message = (
                f"this decides nothing we could try: line {found.position.line} does ({found.text[:120]})"
            )
            yield subject.find(rule, "L26", "warning", message)


def _overruler(subject: LintedProfile, rule: Rule) -> Rule | None:
    """The rule that overrides `rule` for every tried request; None if `rule` decides at least one."""
    if not rule.filters:
        return _replaced(subject, rule)
    instead: Rule | None = None
    for name in rule.operations:
        children = _operation_descendants(name)
        for request in probes(rule.filters):
            for child in children:
                decision = subject.evaluator.decide_request(child.name, request)
                if decision.rule is rule or decision.link is not None:
                    return None
                instead = decision.rule or instead
    return instead


def _replaced(subject: LintedProfile, rule: Rule) -> Rule | None:
    newer = [other for other in subject.profile.rules[rule.ordinal + 1 :] if not other.filters]
    for name in rule.operations:
        if not any(name in other.operations for other in newer):
            return None
    return next((other for other in newer if rule.operations[0] in other.operations), None)


RULE_CHECKS: tuple[Check, ...] = (_ineffective_denies, _late_unfiltered, _lint_default, _unreachable)
