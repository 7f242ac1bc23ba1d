"""The seccomp profile that a policy asks for, as every Linux method renders it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from sandwright.errors import RenderError
from sandwright.policy.names import SECCOMP_PROFILES
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.seccomp import SeccompProfile, profile
from sandwright.render.seccomp.abi import Architecture
from sandwright.render.seccomp.action import ALLOW, EPERM
from sandwright.render.seccomp.model import ArgumentRule, Case, Comparison, Group

AF_UNIX = 1
"""The address family of Unix sockets on every architecture (linux/socket.h)."""


def seccomp_profile(policy: ResolvedPolicy, *, host_sockets: bool) -> SeccompProfile:
    """The profile of `process.seccomp`.

    `host_sockets`: sockets of the host can be reached by path or, in the host's network namespace, by
    abstract name; then a policy that lists none gets a profile that makes none but pairs. Raise RenderError
    for a profile from a file: what it holds is not among the facts.
    """
    name = policy.process.seccomp
    if name not in SECCOMP_PROFILES:
        source = policy.source("process.seccomp")
        names = ", ".join(SECCOMP_PROFILES)
        raise RenderError(f"{source}: process.seccomp: {name}: only {names} can be rendered, not a file")
    chosen = profile(name)
    if host_sockets and not policy.network.unix_sockets:
        return replace(chosen, groups=dict(_without_unix(chosen.groups)))
    return chosen


def architecture(policy: ResolvedPolicy) -> Architecture:
    """The processor that the policy's host has. Raise RenderError for one without system call tables."""
    match policy.facts.platform.partition("/")[2]:
        case "amd64":
            return "amd64"
        case "arm64":
            return "arm64"
        case other:
            raise RenderError(f"there is no table of system calls for {other or 'an unnamed processor'}")


def _without_unix(groups: Mapping[str, Group]) -> Iterator[tuple[str, Group]]:
    """The groups, with the case that grants AF_UNIX to socket(2) refusing it. socketpair(2) stays."""
    for name, group in groups.items():
        yield name, replace(group, rules=tuple(map(_refusing_unix, group.rules)))


def _refusing_unix(rule: ArgumentRule) -> ArgumentRule:
    if "socket" not in rule.syscalls:
        return rule
    return replace(rule, cases=tuple(map(_refused, rule.cases)))


def _refused(case: Case) -> Case:
    if case.action == ALLOW and case.when == (Comparison(0, (AF_UNIX,)),):
        return Case(case.when, EPERM, "AF_UNIX, by which sockets of the host would be reached.")
    return case
