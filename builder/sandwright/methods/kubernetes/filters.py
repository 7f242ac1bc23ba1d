"""The filter of system calls of a Pod, and without a network one that makes no IP sockets.

A NetworkPolicy closes nothing by itself: it needs a network plugin that enforces it, and it always leaves the
way to the Pod's own node open. A filter is enforced by the kernel of the node, or the Pod doesn't start.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from sandwright.errors import RenderError
from sandwright.policy.names import SECCOMP_PROFILES
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.filters import gvisor_filter, oci_filter, seccomp_profile
from sandwright.seccomp import SeccompProfile, render_gvisor, render_oci
from sandwright.seccomp.action import ALLOW, EPERM
from sandwright.seccomp.model import ArgumentRule, Case, Comparison, Group

IP = frozenset((2, 10))
"""AF_INET and AF_INET6 on Linux of every architecture (linux/socket.h)."""

_HIDDEN = ("socketcall", "io_uring_setup")
"""Calls that make sockets whose family no filter sees: i386's, and io_uring's IORING_OP_SOCKET."""

Json = dict[str, Any]


def pod_filter(policy: ResolvedPolicy, *, gvisor: bool) -> Json:
    """`linux.seccomp` for the Pod's containers, for runsc with `gvisor`.

    Raise RenderError for a file that lets IP sockets be made where the policy has no network.
    """
    closed = policy.network.mode == "none"
    if closed and policy.process.seccomp in SECCOMP_PROFILES:
        chosen = without_ip(seccomp_profile(policy, host_sockets=False))
        return render_gvisor(chosen) if gvisor else render_oci(chosen)
    rendered = (gvisor_filter if gvisor else oci_filter)(policy, host_sockets=False)
    if closed and makes_ip_sockets(rendered):
        raise RenderError(
            f"{policy.source('process.seccomp')}: process.seccomp: {policy.process.seccomp} lets IP "
            "sockets be made; with network.mode: none a Pod's filter must refuse them: "
            "socket with argument 0 of 2 and 10, socketcall and io_uring_setup"
        )
    return rendered


def without_ip(profile: SeccompProfile) -> SeccompProfile:
    """A shipped profile that refuses sockets of IPv4 and IPv6."""
    return replace(profile, groups=dict(_without_ip(profile.groups)))


def _without_ip(groups: Mapping[str, Group]) -> Iterator[tuple[str, Group]]:
    for name, group in groups.items():
        rules = (replace(rule, cases=tuple(_cases(rule))) for rule in group.rules)
        yield name, replace(group, rules=tuple(rules))


def _cases(rule: ArgumentRule) -> Iterator[Case]:
    """The cases of a rule; those that grant an IP family to socket(2) are one refusal of the family."""
    refused: set[int] = set()
    families = [(_family(case) if "socket" in rule.syscalls else None, case) for case in rule.cases]
    granted = {family for family, case in families if family is not None and case.action == ALLOW}
    for family, case in families:
        if family not in granted:
            yield case
        elif family not in refused:
            refused.add(family)
            reason = "IP, which a policy without a network closes in the kernel."
            yield Case((Comparison(0, (family,)),), EPERM, reason)


def _family(case: Case) -> int | None:
    """The IP family that a case is about."""
    values = [each.values for each in case.when if each.argument == 0 and not each.negated]
    return values[0][0] if values and values[0][0] in IP else None


def makes_ip_sockets(rendered: Json) -> bool:
    """Whether a rendered filter may let a socket of IPv4 or IPv6 be made, whatever its other arguments are.

    It says so of a filter that it can't tell from one that does, as of one whose default lets calls run.
    """
    running = [rule for rule in rendered["syscalls"] if rule["action"] in _RUNS]
    return (
        rendered["defaultAction"] in _RUNS
        or any(set(_HIDDEN) & set(rule["names"]) for rule in running)
        or any("socket" in rule["names"] and _may_match(rule, family) for rule in running for family in IP)
    )


_RUNS = ("SCMP_ACT_ALLOW", "SCMP_ACT_LOG", "SCMP_ACT_TRACE", "SCMP_ACT_NOTIFY")


def _may_match(rule: Json, value: int) -> bool:
    return all(_matches(argument, value) for argument in rule.get("args", ()) if argument["index"] == 0)


def _matches(argument: Json, value: int) -> bool:
    given: int = argument["value"]
    second: int = argument.get("valueTwo", 0)
    match argument["op"]:
        case "SCMP_CMP_EQ":
            return value == given & 0xFFFFFFFF
        case "SCMP_CMP_MASKED_EQ":
            return value & given & 0xFFFFFFFF == second & 0xFFFFFFFF
        case _:
            return True
