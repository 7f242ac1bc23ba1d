"""Writes profiles as JSON: for the engines, for `linux.seccomp` of an OCI configuration, and for gVisor.

The output holds for given architectures and one set of capabilities, so that it needs neither `archMap`
nor `includes`, which the runtime specification does not have. Names that only some of the architectures know
may stand in it: the engines skip names that a machine does not know.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sandwright.seccomp.action import ENOSYS, Action, ActionKind
from sandwright.seccomp.adapt import for_gvisor, merged
from sandwright.seccomp.model import ArgumentComparison, ComparisonOperator, SeccompProfile, SeccompRule

Json = dict[str, Any]


def oci_json(profile: SeccompProfile, *, comments: bool = False) -> Json:
    """The profile as `linux.seccomp` of the OCI runtime specification, which Docker and Podman read too.

    `comments` adds to each rule of the catalogue why it is there; Docker and Podman have a field for that,
    the specification has not. Rules of a file with the default action are left out, as the engines do.
    """
    if profile.first_wins:
        rules = profile.rules if comments else merged(profile.rules)
    else:
        rules = tuple(rule for rule in profile.rules if rule.action != profile.default)
    return {
        "architectures": list(profile.architectures),
        **_action(profile.default, "defaultAction", "defaultErrnoRet"),
        "syscalls": [written for rule in rules for written in _rule_entries(rule, comments=comments)],
    }


def gvisor_json(profile: SeccompProfile) -> Json:
    """The profile as runsc takes it, which applies it only when started with `--oci-seccomp`.

    It answers every ERRNO with EPERM and ignores `errnoRet`. TRACE serves as ENOSYS: seccomp(2) returns that
    if no tracer listens (seen in 20221219 and 20240729). So where a profile grants ptrace, a tracer inside
    can let gVisor's kernel execute a call that the filter answers with ENOSYS.
    """
    made = for_gvisor(profile)
    rules = [
        _gvisor_rule(rule, written) for rule in made.rules for written in _rule_entries(rule, comments=False)
    ]
    return {
        "architectures": list(made.architectures),
        "defaultAction": _gvisor_action(made.default),
        "syscalls": rules,
    }


_GVISOR_NAMES: Mapping[str, tuple[str, ...]] = {"pselect6": ("pselect6", "pselect")}
"""Calls that versions of runsc know by another name; it leaves unknown ones out."""


def _gvisor_rule(rule: SeccompRule, written: Json) -> Json:
    names = [other for name in rule.names for other in _GVISOR_NAMES.get(name, (name,))]
    compared = {key: value for key, value in written.items() if key == "args"}
    return {"action": _gvisor_action(rule.action), "names": names, **compared}


def _gvisor_action(action: Action) -> str:
    return (ActionKind.TRACE if action == ENOSYS else action.kind).oci


def _rule_entries(rule: SeccompRule, *, comments: bool) -> Iterator[Json]:
    """A rule; several when JSON can't express its comparison."""
    for arguments in itertools.product(*map(_argument_entries, rule.when)):
        written = {**_action(rule.action, "action", "errnoRet"), "names": list(rule.names)}
        if arguments:
            written["args"] = list(arguments)
        if comments and rule.group:
            written["comment"] = f"{rule.group}: {rule.comment}"
        yield written


def _action(action: Action, key: str, number: str) -> Json:
    numbered = action.kind in (ActionKind.ERRNO, ActionKind.TRACE)
    return {key: action.kind.oci, number: action.data} if numbered else {key: action.kind.oci}


def _argument_entries(comparison: ArgumentComparison) -> Sequence[Json]:
    """The alternatives that together express a comparison."""
    index, operator = comparison.argument, comparison.operator
    if operator not in (ComparisonOperator.MASKED_EQ, ComparisonOperator.NONE_OF):
        return [{"index": index, "op": operator.value, "value": comparison.value}]
    masked_eq = ComparisonOperator.MASKED_EQ.value
    return [
        {"index": index, "op": masked_eq, "value": pattern.mask, "valueTwo": pattern.value}
        for pattern in comparison.patterns()
    ]
