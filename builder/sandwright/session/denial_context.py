"""Which lines of a policy refuse what `session.denials` tells of, and what would allow it.

All of it is known when the policy is rendered.
"""

from __future__ import annotations

from sandwright.methods.shared import reasons
from sandwright.policy.declaration import Declaration
from sandwright.policy.engines import SOCKETS
from sandwright.policy.names import SECCOMP_PROFILES
from sandwright.policy.resolved import Filesystem, ResolvedPolicy
from sandwright.policy.rules import PathRule
from sandwright.seccomp import profile


def deciding(policy: ResolvedPolicy, declaration: Declaration) -> dict[str, object]:
    """What `session.denials` needs of a policy and its method, as JSON.

    `seccomp`, `sockets`, `allow`, `method`: where these fields get their values; `shims` by program. `own`:
    the field that refuses Unix sockets inside, where it gets its value, and the edit that allows them, but
    for those of datagrams. `looser`: profiles that allow more, each with the calls that it then allows
    whatever their arguments are, as far as the method does. `partly`: calls that the profile refuses by their
    arguments, and why, where that can be told without these. `shipped`: the profile is one of ours. `never`:
    sockets that no policy can list. `paths` is for `session.candidate_denials`: rules by path.
    """
    return {
        "seccomp": f"{policy.process.seccomp} ({policy.source('process.seccomp')})",
        "sockets": str(policy.source("network.unix_sockets")),
        "method": f"{declaration.method} ({policy.source('method')})",
        "own": _own(policy, declaration),
        "shims": {
            name: str(item.source)
            for name, item in policy.settings.entries.get("credentials.shims", {}).items()
        },
        "allow": str(policy.source("network.allow")),
        "looser": _looser(policy.process.seccomp, declaration.closes),
        "partly": _partly(policy.process.seccomp),
        "shipped": policy.process.seccomp in SECCOMP_PROFILES,
        "never": [_placed(each, policy) for each in SOCKETS],
        "paths": _paths(policy.filesystem),
    }


def _paths(files: Filesystem) -> dict[str, object]:
    """`rules`, and `startup` where none of them says anything: by path `read`, `write`, `private` or empty.

    `names`: those that are protected below any path that may be written.
    """
    return {
        "rules": {rule.path: _said(max(files.tree.at(rule.path), key=_strength)) for rule in files.rules},
        "startup": {rule.path: _said(rule) for rule in sorted(files.startup, key=_strength)},
        "names": sorted({name.value for each in files.protections for name in each.names}),
    }


def _strength(rule: PathRule) -> tuple[int, bool, int]:
    return rule.strength


def _said(rule: PathRule) -> str:
    if rule.private:
        return "private"
    return "write" if rule.writable else "read" if rule.readable else ""


def _makes(declaration: Declaration) -> bool:
    """Whether programs inside can have Unix sockets of their own under a method, be it not all kinds."""
    support = declaration.of("network.own-sockets")
    return support.level in ("exact", "stricter") and support.reason != reasons.NO_UNIX_SOCKETS


def _own(policy: ResolvedPolicy, declaration: Declaration) -> tuple[str, str, str | None]:
    network = policy.network
    if not _makes(declaration):
        return "method", f"{declaration.method} ({policy.source('method')})", None
    if network.own_sockets and network.mode == "host":
        return "network.mode", str(policy.source("network.mode")), None
    edit = "network: {own_sockets: true}"
    wanted = not network.own_sockets and network.mode != "host"
    return "network.own_sockets", str(policy.source("network.own_sockets")), edit if wanted else None


def _placed(path: str, policy: ResolvedPolicy) -> str:
    """A socket of an engine, or a directory of such, on the policy's host."""
    return path.replace("~", policy.facts.home, 1).replace("$UID", str(policy.facts.uid))


def _partly(name: str) -> dict[str, str]:
    return dict(profile(name).partly()) if name in SECCOMP_PROFILES else {}


def _looser(name: str, closed: frozenset[str]) -> list[tuple[str, list[str]]]:
    if name not in SECCOMP_PROFILES:
        return []
    known = profile(name).outright() | closed
    others = SECCOMP_PROFILES[SECCOMP_PROFILES.index(name) + 1 :]
    return [(other, sorted(profile(other).outright() - known)) for other in others]
