"""The types for the reasons of denials in a session record; `session.denial_sources` fills them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Grant = Literal["", "read", "write", "private"]
"""The access that the rule for a path grants. `private`: the path is in a private directory of the
sandbox."""


@dataclass(frozen=True, kw_only=True)
class BlamedField:
    """A field of the policy, the source of its value, and the edit that allows the refused access."""

    field: str
    source: str
    edit: str | None = None


@dataclass(frozen=True, kw_only=True)
class LooserProfile:
    """A profile that allows more: the calls that it allows with any arguments."""

    profile: str
    calls: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class PathContext:
    """The rules by path: `rules` first, and `startup` if none of them applies.

    `names` are protected below every writable path.
    """

    rules: Mapping[str, Grant]
    startup: Mapping[str, Grant]
    names: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class DenialContext:
    """For each kind of denial, its cause in the policy and the edit that allows it; recorded at rendering.

    `seccomp`, `sockets`, `allow`, `http` and `method` are the sources of these fields' values, `shims` those
    by program, `mcp` that of `mcp.tools`, and `signing` that of `credentials.signing`, empty without keys.
    `own_sockets` denies Unix sockets inside; its edit does not allow datagram sockets. `partly` are calls
    that the profile denies because of their arguments, each with the reason. `mode` is network.mode, and
    `network` its source. `shipped`: the profile ships with sandwright. No policy can list the sockets of
    `never`.
    """

    seccomp: str
    sockets: str
    allow: str
    http: str
    mcp: str
    mode: str
    network: str
    method: str
    own_sockets: BlamedField
    shims: Mapping[str, str]
    signing: str
    looser: tuple[LooserProfile, ...]
    partly: Mapping[str, str]
    shipped: bool
    never: tuple[str, ...]
    paths: PathContext
