"""Checks of a profile's rules one by one, and of rules for the same call."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Iterator, Mapping, Sequence

from sandwright.documents.document import Path, Value
from sandwright.seccomp import tables
from sandwright.seccomp.abi import guess, known_names
from sandwright.seccomp.action import ActionKind, errno_name
from sandwright.seccomp.fault import SeccompFault, Severity, fault_at
from sandwright.seccomp.model import U32, ArgumentComparison, ComparisonOperator, SeccompProfile, SeccompRule

ORDERED = (
    ComparisonOperator.NE,
    ComparisonOperator.LT,
    ComparisonOperator.LE,
    ComparisonOperator.GT,
    ComparisonOperator.GE,
)

_CONDITION_KEYS = frozenset({"caps", "arches", "minKernel"})
_KEYS: Mapping[str, frozenset[str]] = {
    "profile": frozenset(
        (
            *("defaultAction", "defaultErrnoRet", "defaultErrno", "architectures", "archMap", "syscalls"),
            *("flags", "listenerPath", "listenerMetadata", "comment"),
        )
    ),
    "syscalls": frozenset(
        ("name", "names", "action", "errnoRet", "errno", "args", "comment", "includes", "excludes")
    ),
    "args": frozenset(("index", "value", "valueTwo", "op")),
    "includes": _CONDITION_KEYS,
    "excludes": _CONDITION_KEYS,
    "archMap": frozenset(("architecture", "subArchitectures")),
}
"""The keys that Docker, Podman or the runtime specification know, by the list or object they stand in."""


def rule_faults(profile: SeccompProfile) -> Iterator[SeccompFault]:
    """All faults of single rules, in no particular order."""
    yield from _lint_unknown_keys(profile)
    for rule in profile.rules:
        yield from _lint_names(rule, profile)
        yield from _lint_errno(rule, profile)
        yield from _lint_arguments(rule, profile)
        if rule.action == profile.default:
            yield _same_as_default(rule, profile)


def _lint_unknown_keys(profile: SeccompProfile) -> Iterator[SeccompFault]:
    source = profile.source
    if source is None:
        return
    value = source.data
    for step in profile.path:
        value = value[str(step)] if isinstance(value, dict) else None
    for path, allowed in _objects(value, profile.path, "profile"):
        line, column = source.key_position(path)
        close = difflib.get_close_matches(str(path[-1]), sorted(allowed), n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        message = f"{path[-1]} is no key that an engine knows, so it does nothing{hint}"
        yield SeccompFault(line, column, Severity.WARNING, "unknown-key", message)


def _objects(value: Value, path: Path, kind: str) -> Iterator[tuple[Path, frozenset[str]]]:
    """The unknown keys of an object and of those within, each with the keys it could have been."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _objects(item, (*path, index), kind)
    elif isinstance(value, dict):
        for key, inner in value.items():
            if key not in _KEYS[kind]:
                yield (*path, key), _KEYS[kind]
            elif key in _KEYS:
                yield from _objects(inner, (*path, key), key)


def _lint_names(rule: SeccompRule, profile: SeccompProfile) -> Iterator[SeccompFault]:
    if not rule.names:
        yield fault_at(rule, Severity.ERROR, "no-names", "a rule without names holds for nothing")
    open_end = profile.default.lets_run and not rule.action.lets_run
    for name in rule.names:
        if name not in known_names():
            best = guess(name)
            hint = f"; did you mean {best}?" if best else ""
            effect = "and so lets it run" if open_end else "as engines do with names they do not know"
            message = f"{name} is not a known system call: the rule is left out, {effect}{hint}"
            severity = Severity.ERROR if open_end else Severity.WARNING
            yield fault_at(rule, severity, "unknown-name", message)


def _lint_errno(rule: SeccompRule, profile: SeccompProfile) -> Iterator[SeccompFault]:
    if _states_key(rule, profile, "errnoRet") and rule.action.kind not in (
        ActionKind.ERRNO,
        ActionKind.TRACE,
    ):
        message = (
            f"errnoRet with {rule.action.kind.oci}: the specification forbids it and crun refuses the profile"
        )
        yield fault_at(rule, Severity.ERROR, "errno-without-error", message)
    if rule.action.kind is ActionKind.ERRNO and rule.action.data == 0:
        message = "error 0 tells the caller that the call was made"
        yield fault_at(rule, Severity.ERROR, "errno-zero", message)
    if rule.action.kind is ActionKind.ERRNO and rule.action.data > 4095:
        message = f"the kernel turns error {rule.action.data} into 4095"
        yield fault_at(rule, Severity.WARNING, "errno-large", message)


def _lint_arguments(rule: SeccompRule, profile: SeccompProfile) -> Iterator[SeccompFault]:
    indices = [argument.argument for argument in rule.when]
    for index in sorted(set(indices)):
        if indices.count(index) > 1:
            message = (
                f"argument {index} is compared {indices.count(index)} times: runc, crun and runsc then apply"
                " the rule when any one of its comparisons holds"
            )
            yield fault_at(rule, Severity.ERROR, "argument-twice", message)
    for name in rule.names:
        for argument in rule.when:
            if argument.argument in int_arguments().get(name, ()) and _looks_above(argument):
                yield _wide(rule, name, argument, profile)


def _wide(
    rule: SeccompRule, name: str, argument: ArgumentComparison, profile: SeccompProfile
) -> SeccompFault:
    """A comparison of 64 bits where the kernel sees 32; in some directions that only refuses more."""
    inverse = argument.operator in (ComparisonOperator.NE, ComparisonOperator.GT, ComparisonOperator.GE)
    walks_past = inverse == rule.action.lets_run
    effect = (
        "a caller that sets upper bits gets past it"
        if walks_past
        else "a caller that sets upper bits is refused a call that it could make"
    )
    message = (
        f"{name} compares all 64 bits of argument {argument.argument}, of which the kernel sees 32: {effect};"
        f" use SCMP_CMP_MASKED_EQ with the mask {U32}"
    )
    severity = Severity.ERROR if walks_past and rule.action != profile.default else Severity.NOTE
    return fault_at(rule, severity, "wide-comparison", message)


def _same_as_default(rule: SeccompRule, profile: SeccompProfile) -> SeccompFault:
    others = sorted(
        {
            name
            for other in profile.rules
            if other is not rule and other.action != rule.action
            for name in set(other.names) & set(rule.names)
        }
    )
    if others:
        message = (
            "has the default action, so engines leave it out; it takes nothing back from the rules for "
            + ", ".join(others)
        )
        return fault_at(rule, Severity.WARNING, "same-as-default", message)
    message = f"has the default action{_errno_text(rule)}, so engines leave it out"
    return fault_at(rule, Severity.NOTE, "same-as-default", message)


def ordered_pairs(rules: Sequence[SeccompRule]) -> bool:
    """Whether several rules for one call compare by more than equality."""
    with_order = [rule for rule in rules if any(argument.operator in ORDERED for argument in rule.when)]
    return len(with_order) > 1


@functools.cache
def int_arguments() -> Mapping[str, frozenset[int]]:
    """The arguments of which the kernel sees 32 bits, by call."""
    return {
        row["name"]: frozenset(map(int, row["arguments"].split())) for row in tables.rows("int_arguments.csv")
    }


def _looks_above(argument: ArgumentComparison) -> bool:
    return argument.operator is not ComparisonOperator.MASKED_EQ or argument.mask > U32


def _states_key(rule: SeccompRule, profile: SeccompProfile, key: str) -> bool:
    return profile.source is not None and (*rule.path, key) in profile.source.key_marks


def _errno_text(rule: SeccompRule) -> str:
    return f" ({errno_name(rule.action.data)})" if rule.action.kind is ActionKind.ERRNO else ""
