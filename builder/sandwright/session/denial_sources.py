"""Makes the `DenialContext` of a policy while it is rendered: the lines that refuse, the edits that allow."""

from __future__ import annotations

from sandwright.methods.shared import reasons
from sandwright.policy.declaration import Declaration
from sandwright.policy.engines import SOCKETS
from sandwright.policy.names import SECCOMP_PROFILES
from sandwright.policy.resolved import Filesystem, ResolvedPolicy
from sandwright.policy.rules import PathRule
from sandwright.seccomp import profile
from sandwright.session.denial_context import BlamedField, DenialContext, Grant, LooserProfile, PathContext


def denial_context(policy: ResolvedPolicy, declaration: Declaration) -> DenialContext:
    """Find the deciding lines of a policy and the smallest edits."""
    return DenialContext(
        seccomp=f"{policy.process.seccomp} ({policy.source('process.seccomp')})",
        sockets=str(policy.source("network.unix_sockets")),
        allow=str(policy.source("network.allow")),
        http=str(policy.source("network.http")),
        mcp=str(policy.source("mcp.tools")),
        mode=policy.network.mode,
        network=f"({mode})" if (mode := policy.source("network.mode")).layer != "built-in" else "",
        method=f"{declaration.method} ({policy.source('method')})",
        own_sockets=_own_socket_source(policy, declaration),
        shims={
            name: str(item.source)
            for name, item in policy.settings.entries.get("credentials.shims", {}).items()
        },
        signing=str(policy.source("credentials.signing")) if policy.credentials.signing else "",
        looser=_looser_profiles(policy.process.seccomp, declaration.extra_denied_syscalls),
        partly=_partly(policy.process.seccomp),
        shipped=policy.process.seccomp in SECCOMP_PROFILES,
        never=tuple(_host_path(each, policy) for each in SOCKETS),
        paths=_path_context(policy.filesystem),
    )


def _path_context(files: Filesystem) -> PathContext:
    return PathContext(
        rules={rule.path: _grant(max(files.tree.at(rule.path), key=_strength)) for rule in files.rules},
        startup={rule.path: _grant(rule) for rule in sorted(files.startup, key=_strength)},
        names=tuple(sorted({name.value for each in files.protections for name in each.names})),
    )


def _strength(rule: PathRule) -> tuple[int, bool, int]:
    return rule.strength


def _grant(rule: PathRule) -> Grant:
    if rule.private:
        return "private"
    return "write" if rule.writable else "read" if rule.readable else ""


def _makes(declaration: Declaration) -> bool:
    """Whether programs can create at least some kinds of Unix sockets under a method."""
    support = declaration.of("network.own-sockets")
    return support.level in ("exact", "stricter") and support.reason != reasons.NO_UNIX_SOCKETS


def _own_socket_source(policy: ResolvedPolicy, declaration: Declaration) -> BlamedField:
    network = policy.network
    if not _makes(declaration):
        return BlamedField(field="method", source=f"{declaration.method} ({policy.source('method')})")
    if network.own_sockets and network.mode == "host":
        return BlamedField(field="network.mode", source=str(policy.source("network.mode")))
    needs_line = not network.own_sockets and network.mode != "host"
    edit = "network: {own_sockets: true}" if needs_line else None
    return BlamedField(
        field="network.own_sockets", source=str(policy.source("network.own_sockets")), edit=edit
    )


def _host_path(path: str, policy: ResolvedPolicy) -> str:
    """The path on the policy's host of an engine's socket, or of a directory of such sockets."""
    return path.replace("~", policy.facts.home, 1).replace("$UID", str(policy.facts.uid))


def _partly(name: str) -> dict[str, str]:
    return dict(profile(name).partly()) if name in SECCOMP_PROFILES else {}


def _looser_profiles(name: str, closed: frozenset[str]) -> tuple[LooserProfile, ...]:
    if name not in SECCOMP_PROFILES:
        return ()
    allowed = profile(name).outright() | closed
    others = SECCOMP_PROFILES[SECCOMP_PROFILES.index(name) + 1 :]
    return tuple(
        LooserProfile(profile=each, calls=tuple(sorted(profile(each).outright() - allowed)))
        for each in others
    )
