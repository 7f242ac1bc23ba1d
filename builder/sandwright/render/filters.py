"""The filter of system calls that a policy asks for, as every Linux method renders it.

`process.seccomp` names a shipped profile or a file, whose text is among the facts. `oci_filter`,
`gvisor_filter` and `bpf_filter` render either.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sandwright.errors import RenderError
from sandwright.policy.names import SECCOMP_PROFILES
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.seccomp import SeccompProfile, compile_bpf, profile, render_gvisor, render_oci
from sandwright.seccomp.abi import Architecture
from sandwright.seccomp.action import ALLOW, EPERM
from sandwright.seccomp.adopted import (
    AF_UNIX,
    DATAGRAMS,
    TYPE_MASK,
    Adopted,
    adopt,
    makes_unix_sockets,
)
from sandwright.seccomp.document import kernel_version
from sandwright.seccomp.model import ArgumentRule, Case, Comparison, Group
from sandwright.seccomp.oci import BOTH

Json = dict[str, Any]


def oci_filter(
    policy: ResolvedPolicy,
    *,
    host_sockets: bool,
    caps: Collection[str] = (),
    arch: Sequence[Architecture] = BOTH,
    comments: bool = False,
) -> Json:
    """The filter as `linux.seccomp` of the OCI runtime specification, which Docker and Podman read too.

    `host_sockets`: sockets of the host can be reached by path or, in the host's network namespace, by
    abstract name; a policy that lists none then gets a filter with which none can be made but pairs. `caps`
    is the bounding set of who runs under it. A file is rendered for the architecture of the policy's host.
    Raise DocumentError for a file that is no profile, RenderError for one that can't be used.
    """
    given = from_file(policy)
    if given is None:
        chosen = seccomp_profile(policy, host_sockets=host_sockets)
        return render_oci(chosen, arch=arch, caps=caps, comments=comments)
    _check_sockets(policy, given, caps, host_sockets=host_sockets)
    return given.oci(caps)


def gvisor_filter(policy: ResolvedPolicy, *, host_sockets: bool, caps: Collection[str] = ()) -> Json:
    """The filter as runsc takes it with `--oci-seccomp`. Arguments and errors are those of `oci_filter`."""
    given = from_file(policy)
    if given is None:
        return render_gvisor(seccomp_profile(policy, host_sockets=host_sockets), caps=caps)
    _check_sockets(policy, given, caps, host_sockets=host_sockets)
    return given.gvisor(caps)


def bpf_filter(policy: ResolvedPolicy, *, caps: Collection[str] = ()) -> bytes:
    """The filter as BPF for the policy's host, whose sockets can be reached. Raise like `oci_filter`."""
    given = from_file(policy)
    if given is None:
        chosen = seccomp_profile(policy, host_sockets=True)
        return _compiled(chosen.name, bool(policy.network.unix_sockets), architecture(policy), tuple(caps))
    return given.bpf(caps, unix_sockets=bool(policy.network.unix_sockets))


def from_file(policy: ResolvedPolicy) -> Adopted | None:
    """The profile of the file that `process.seccomp` names; None when it names a shipped profile.

    Raise DocumentError with what is wrong in the file, RenderError when it could not be read on the host.
    """
    file = policy.process.seccomp
    if file in SECCOMP_PROFILES:
        return None
    text = policy.facts.texts.get(file)
    if text is None:
        source = policy.source("process.seccomp")
        raise RenderError(
            f"{source}: process.seccomp: {file} is not on the host, can't be read there, or is no profile: "
            "more than 1 MiB, or no plain file"
        )
    return adopt(text, file, arch=architecture(policy), kernel=kernel_version(policy.facts.kernel))


def _check_sockets(
    policy: ResolvedPolicy, given: Adopted, caps: Collection[str], *, host_sockets: bool
) -> None:
    """Refuse a file that lets sockets be made by which the host's are reached, which no rule can add."""
    if host_sockets and not policy.network.unix_sockets and makes_unix_sockets(given.filter(caps)):
        source = policy.source("process.seccomp")
        raise RenderError(
            f"{source}: process.seccomp: {given.document.file} lets AF_UNIX sockets be made, by which the "
            f"host's are reached with network.mode: {policy.network.mode}, and network.unix_sockets lists "
            "none; refuse io_uring_setup in it, socket with 1 in the lower half of argument 0, and "
            "socketpair with 2 or 3 in the lower four bits of argument 1"
        )


def seccomp_profile(policy: ResolvedPolicy, *, host_sockets: bool) -> SeccompProfile:
    """The shipped profile that `process.seccomp` names; `host_sockets` is that of `oci_filter`.

    Raise RenderError for a file, which only the functions above render.
    """
    name = policy.process.seccomp
    if name not in SECCOMP_PROFILES:
        source = policy.source("process.seccomp")
        raise RenderError(f"{source}: process.seccomp: {name} is a file, where a shipped profile is needed")
    return _closed(name) if host_sockets and not policy.network.unix_sockets else profile(name)


@functools.cache
def _closed(name: str) -> SeccompProfile:
    """A shipped profile that makes no sockets of AF_UNIX but pairs."""
    chosen = profile(name)
    return replace(chosen, groups=dict(_without_unix(chosen.groups)))


@functools.cache
def _compiled(name: str, sockets: bool, arch: Architecture, caps: tuple[str, ...]) -> bytes:
    """The program of a shipped profile, which is the same for every policy."""
    return compile_bpf(profile(name) if sockets else _closed(name), arch=arch, caps=caps)


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
    """The groups, with the cases that grant AF_UNIX refusing it; pairs stay that can't send elsewhere."""
    for name, group in groups.items():
        yield name, replace(group, rules=tuple(map(_refusing_unix, group.rules)))


def _refusing_unix(rule: ArgumentRule) -> ArgumentRule:
    if "socket" in rule.syscalls:
        return replace(rule, cases=tuple(map(_refused, rule.cases)))
    if "socketpair" in rule.syscalls:
        return replace(rule, cases=tuple(each for case in rule.cases for each in _pairs(case)))
    return rule


def _grants_unix(case: Case) -> bool:
    return case.action == ALLOW and case.when == (Comparison(0, (AF_UNIX,)),)


def _refused(case: Case) -> Case:
    if _grants_unix(case):
        return Case(case.when, EPERM, "AF_UNIX, by which sockets of the host would be reached.")
    return case


def _pairs(case: Case) -> Iterator[Case]:
    """A case of socketpair(2) by types: an end of a pair of datagrams can send to any other address."""
    if not _grants_unix(case):
        yield case
        return
    for kind in DATAGRAMS:
        when = (*case.when, Comparison(1, (kind,), TYPE_MASK))
        yield Case(when, EPERM, "Datagrams, by which sockets of the host would be reached.")
    others = Comparison(1, DATAGRAMS, TYPE_MASK, negated=True)
    yield Case((*case.when, others), ALLOW, case.reason)
