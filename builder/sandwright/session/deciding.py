"""Which lines of a policy refuse what `session.denials` tells of, and what would allow it.

All of it is known when the policy is rendered.
"""

from __future__ import annotations

from sandwright.policy.engines import SOCKETS
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.seccomp import profile
from sandwright.seccomp.action import ALLOW

_FROM_STRICT_ON = ("strict", "default", "build")


def deciding(policy: ResolvedPolicy) -> dict[str, object]:
    """What `session.denials` needs of a policy, as JSON.

    `seccomp`, `sockets`, `own`, `allow`: where these fields get their values. `looser`: profiles that allow
    more, each with the calls that it then allows whatever their arguments are. `shipped`: the profile is one
    of ours. `never`: sockets that no policy can list.
    """
    return {
        "seccomp": f"{policy.process.seccomp} ({policy.source('process.seccomp')})",
        "sockets": str(policy.source("network.unix_sockets")),
        "own": str(policy.source("network.own_sockets")),
        "allow": str(policy.source("network.allow")),
        "looser": _looser(policy.process.seccomp),
        "shipped": policy.process.seccomp in _FROM_STRICT_ON,
        "never": [_placed(each, policy) for each in SOCKETS],
    }


def _placed(path: str, policy: ResolvedPolicy) -> str:
    """A socket of an engine, or a directory of such, on the policy's host."""
    return path.replace("~", policy.facts.home, 1).replace("$UID", str(policy.facts.uid))


def _looser(name: str) -> list[tuple[str, list[str]]]:
    if name not in _FROM_STRICT_ON:
        return []
    known = _outright(name)
    others = _FROM_STRICT_ON[_FROM_STRICT_ON.index(name) + 1 :]
    return [(other, sorted(_outright(other) - known)) for other in others]


def _outright(name: str) -> frozenset[str]:
    """The calls that a shipped profile allows whatever their arguments are."""
    rules = profile(name).rules()
    return frozenset(call for call, own in rules.items() if own[0].action == ALLOW and not own[0].when)
