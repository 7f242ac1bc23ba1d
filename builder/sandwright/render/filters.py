"""The seccomp filter that a policy asks for, as every Linux method renders it.

`process.seccomp` names a shipped profile or a file, whose text is among the facts. `oci_filter`,
`gvisor_filter` and `bpf_filter` render either.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from sandwright.documents.document import field_name
from sandwright.errors import DocumentError, Problem, RenderError
from sandwright.policy.names import SECCOMP_PROFILES
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.seccomp import (
    compile_filter,
    compile_profile,
    gvisor_json,
    load_profile_json,
    oci_json,
    profile,
)
from sandwright.seccomp.abi import BOTH, NATIVE, Architecture, numbers
from sandwright.seccomp.action import ENOSYS, ActionKind
from sandwright.seccomp.adapt import in_order, own_unix, with_notifications, without_unix
from sandwright.seccomp.document import kernel_version
from sandwright.seccomp.model import SeccompFilter, SeccompProfile, SeccompRule
from sandwright.seccomp.resolve import for_machine, resolve
from sandwright.seccomp.sockets import makes_unix_sockets

Json = dict[str, Any]


def oci_filter(
    policy: ResolvedPolicy,
    *,
    host_sockets: bool,
    caps: Collection[str] = (),
    arch: Sequence[Architecture] = BOTH,
) -> Json:
    """The filter as `linux.seccomp` of the OCI runtime specification, which Docker and Podman read too.

    Arguments and errors are those of `engine_profile`.
    """
    chosen = engine_profile(policy, host_sockets=host_sockets, caps=caps, arch=arch)
    return oci_json(chosen)


def asking_filter(
    policy: ResolvedPolicy, *, host_sockets: bool, caps: Collection[str] = ()
) -> tuple[Json, bytes] | None:
    """`oci_filter` with refusals but ENOSYS as questions to a listener, and BPF that has the answers.

    None for a file, whose default action may refuse: runtimes accept no listener with that. No program inside
    can have a listener of a newer filter, which could allow the calls that this one reports. Errors are those
    of `engine_profile`.
    """
    if policy.process.seccomp not in SECCOMP_PROFILES:
        return None
    arch = architecture(policy)
    chosen = engine_profile(policy, host_sockets=host_sockets, caps=caps)
    return oci_json(with_notifications(chosen)), compile_profile(chosen, arch=arch)


def gvisor_filter(policy: ResolvedPolicy, *, host_sockets: bool, caps: Collection[str] = ()) -> Json:
    """The filter as runsc takes it with `--oci-seccomp`. Arguments and errors are those of `oci_filter`."""
    chosen = engine_profile(policy, host_sockets=host_sockets, caps=caps)
    return gvisor_json(chosen if chosen.first_wins else in_order(chosen, arch=architecture(policy)))


def bpf_filter(policy: ResolvedPolicy, *, supervised: bool, caps: Collection[str] = ()) -> bytes:
    """The filter as BPF for the policy's host, whose sockets can be reached. Raise like `oci_filter`.

    `supervised`: the launcher connects for programs inside, which so can have Unix sockets of their own.
    """
    sockets: Sockets = "all" if policy.network.unix_sockets else "none"
    if supervised and policy.network.makes_sockets:
        sockets = "own"
    return _bpf(policy, sockets, caps)


def guest_filter(policy: ResolvedPolicy, *, caps: Collection[str] = ()) -> bytes:
    """The filter as BPF for a kernel of the sandbox's own, where no socket of the host is. Raise likewise."""
    return _bpf(policy, "all" if policy.network.own_sockets else "none", caps)


def kernel_filter(policy: ResolvedPolicy) -> bytes:
    """The filter of the process that is such a kernel: it traces, and makes no connections.

    It creates all files that the policy's own profile allows, such as set-user-ID files under `build`.
    """
    name = "kernel-of-vm" if policy.process.seccomp in ("strict", "default") else "build"
    return _compile_shipped(name, "none", architecture(policy), ())


def shipped_filter(name: str, arch: Architecture) -> bytes:
    """Compile a shipped profile to BPF, with Unix sockets denied."""
    return _compile_shipped(name, "none", arch, ())


def _bpf(policy: ResolvedPolicy, sockets: Sockets, caps: Collection[str]) -> bytes:
    profile_of_policy, arch = from_file(policy, caps=caps), architecture(policy)
    if profile_of_policy is None:
        return _compile_shipped(policy.process.seccomp, sockets, arch, tuple(caps))
    return compile_filter(resolve_usable(_SOCKETS[sockets](profile_of_policy), arch=arch), arch=arch)


Sockets = Literal["all", "own", "none"]
"""The Unix sockets that a filter lets be made."""

_SOCKETS: Mapping[Sockets, Callable[[SeccompProfile], SeccompProfile]] = {
    "all": lambda profile: profile,
    "own": own_unix,
    "none": without_unix,
}


def engine_profile(
    policy: ResolvedPolicy,
    *,
    host_sockets: bool,
    caps: Collection[str] = (),
    arch: Sequence[Architecture] = BOTH,
) -> SeccompProfile:
    """The profile that an engine is given as JSON.

    `host_sockets`: sockets of the host can be reached by path or, in the host's network namespace, by
    abstract name; a policy that lists none then gets a profile that allows only socket pairs, and so
    does one without sockets inside. `caps`
    is the bounding set of who runs under it. A file is taken for the architecture of the policy's host.
    Raise DocumentError for a file that is no profile, RenderError for one that can't be used.
    """
    closed = (host_sockets or not policy.network.own_sockets) and not policy.network.unix_sockets
    profile_of_policy = from_file(policy, caps=caps)
    if profile_of_policy is None:
        return _shipped_profile(policy.process.seccomp, "none" if closed else "all", tuple(caps), tuple(arch))
    found = resolve_usable(profile_of_policy, arch=architecture(policy))
    if closed and makes_unix_sockets(found):
        # No rule can be added: engines try rules in an order of their own.
        source = policy.source("process.seccomp")
        why = "by which the host's are reached with network.mode: host, and network.unix_sockets lists none"
        if not host_sockets:
            why = "which network.own_sockets: false refuses"
        raise RenderError(
            f"{source}: process.seccomp: {profile_of_policy.file} lets AF_UNIX sockets be made, {why}; "
            "refuse io_uring_setup in it, socket with 1 in the lower half of argument 0, and "
            "socketpair with 2 or 3 in the lower four bits of argument 1"
        )
    return profile_of_policy


def from_file(policy: ResolvedPolicy, *, caps: Collection[str] = ()) -> SeccompProfile | None:
    """The profile of the file that `process.seccomp` names, as it holds on the policy's host for `caps`.

    None when it names a shipped profile. The file lists the allowed calls; nothing is added to it. `flags`
    and the listener of SCMP_ACT_NOTIFY are not taken over. Raise DocumentError with the faults of the file,
    RenderError when it could not be read on the host. See `with_newer_calls` for calls newer than the file.
    """
    key = _file_key(policy, caps)
    return None if key is None else _profile_for(*key)


def filter_from_file(policy: ResolvedPolicy, caps: Collection[str] = ()) -> SeccompFilter:
    """The filter that engines make of the file that `process.seccomp` names, where it names one."""
    key = _file_key(policy, caps)
    assert key is not None
    return _filter_for(*key)


_FileKey = tuple[str, str, Architecture, frozenset[str], tuple[int, int] | None]


def _file_key(policy: ResolvedPolicy, caps: Collection[str]) -> _FileKey | None:
    file = policy.process.seccomp
    if file in SECCOMP_PROFILES:
        return None
    text = policy.facts.texts.get(file)
    if text is None:
        source = policy.source("process.seccomp")
        raise RenderError(
            f"{source}: process.seccomp: {file} is not on the host, cannot be read there, or is no profile: "
            "more than 1 MiB, or no plain file"
        )
    kernel = kernel_version(policy.facts.kernel)
    return text, file, architecture(policy), frozenset(caps), kernel


# `diff` asks about each system call, with the same files.
@functools.lru_cache(maxsize=8)
def _profile_for(
    text: str, file: str, arch: Architecture, caps: frozenset[str], kernel: tuple[int, int] | None
) -> SeccompProfile:
    profile = for_machine(_adoptable(text, file), arch=arch, caps=caps, kernel=kernel)
    return with_newer_calls(profile, arch=arch)


@functools.lru_cache(maxsize=8)
def _filter_for(
    text: str, file: str, arch: Architecture, caps: frozenset[str], kernel: tuple[int, int] | None
) -> SeccompFilter:
    return resolve_usable(_profile_for(text, file, arch, caps, kernel), arch=arch)


def with_newer_calls(original: SeccompProfile, *, arch: Architecture) -> SeccompProfile:
    """A file's profile that answers calls newer than all its named ones as runc does: with ENOSYS.

    A profile older than a call did not mean to forbid it, and programs fall back on ENOSYS alone (runc,
    libcontainer/seccomp/patchbpf). Not where the default lets calls run, or says so already.
    """
    numbered = numbers(NATIVE[arch])
    named = [numbered[name] for rule in original.rules for name in rule.names if name in numbered]
    newer = tuple(name for name, number in numbered.items() if named and number > max(named))
    if not newer or original.default == ENOSYS or original.default.kind in _PERMISSIVE:
        return original
    rule = SeccompRule(newer, ENOSYS, (), comment="Newer than what the file names.")
    return replace(original, rules=(*original.rules, rule))


_PERMISSIVE = (ActionKind.ALLOW, ActionKind.LOG, ActionKind.TRACE)
"""Default actions with which runc adds nothing."""


def resolve_usable(original: SeccompProfile, *, arch: Architecture) -> SeccompFilter:
    """The filter that engines make of a file's profile. Raise DocumentError where all refuse it."""
    found = resolve(original, arch=arch)
    problems = [
        _problem(one, f"answers differently than {field_name(other.path)} for equal calls")
        for one, other in found.clashes
    ]
    if problems:
        raise DocumentError(original.file, problems)
    return found


@functools.lru_cache(maxsize=8)
def _adoptable(text: str, file: str) -> SeccompProfile:
    """The profile of a file. One that asks a listener is refused: no sandbox has a listener."""
    found = load_profile_json(text.encode("utf-8", "surrogateescape"), file)
    problems = [
        _problem(rule, "SCMP_ACT_NOTIFY asks a supervisor, which a sandbox does not have")
        for rule in found.rules
        if rule.action.kind is ActionKind.NOTIFY
    ]
    if found.default.kind is ActionKind.NOTIFY:
        problems.append(Problem(1, 1, "defaultAction", "asks a supervisor, which a sandbox does not have"))
    if problems:
        raise DocumentError(file, problems)
    return found


def _problem(rule: SeccompRule, message: str) -> Problem:
    return Problem(*rule.position, field_name(rule.path), message)


@functools.lru_cache(maxsize=32)
def _shipped_profile(
    name: str, sockets: Sockets, caps: tuple[str, ...], arch: tuple[Architecture, ...]
) -> SeccompProfile:
    """A shipped profile with these Unix sockets."""
    return _SOCKETS[sockets](profile(name).expand(caps=caps, arch=arch))


@functools.cache
def _compile_shipped(name: str, sockets: Sockets, arch: Architecture, caps: tuple[str, ...]) -> bytes:
    """The program of a shipped profile, which is the same for every policy."""
    return compile_profile(_shipped_profile(name, sockets, caps, (arch,)), arch=arch)


def architecture(policy: ResolvedPolicy) -> Architecture:
    """The processor that the policy's host has. Raise RenderError for one without system call tables."""
    match policy.facts.platform.partition("/")[2]:
        case "amd64":
            return "amd64"
        case "arm64":
            return "arm64"
        case other:
            raise RenderError(f"there is no table of system calls for {other or 'an unnamed processor'}")
