"""How new files come to belong to whoever started a sandbox: the rung of the ladder each method stands on.

The lower the rung, the less has to be trusted with it. `itself`: the command is a process of the caller's on
the host. `namespace`: a user namespace makes who runs inside the caller outside. `accounts`: the engine
starts it with the caller's numbers, and account files that were rendered outside give them a name. `init`:
the image starts as root, and its first process (`config.init` of its definition) becomes the caller. No
method of ours needs that, since each knows the caller before it starts anything; whoever runs such an image
by hand does. `none`: files belong to somebody else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sandwright.errors import UsageError
from sandwright.policy.names import MappingMode

Rung = Literal["itself", "namespace", "accounts", "init", "none"]
Inside = Literal["caller", "root", "other"]
"""Which number the command has inside: the caller's, 0, or one that the image or the method chose."""


@dataclass(frozen=True)
class Engine:
    """What decides besides the policy, and is known when a sandbox starts.

    `as_root`: the caller is root. `rootless`: the engine's daemon runs without root. `numbers`: the caller
    has subordinate numbers (subuid(5)). `remapped`: the daemon gives containers other numbers (userns-remap).
    """

    as_root: bool = False
    rootless: bool = False
    numbers: bool = True
    remapped: bool = False


@dataclass(frozen=True)
class Mapping:
    """The rung, the number inside, and whether account files of ours say its name and home."""

    rung: Rung
    inside: Inside
    named: bool


_ITSELF = Mapping("itself", "caller", named=False)
_NONE = Mapping("none", "other", named=False)


def mapping(method: str, engine: Engine, *, mode: MappingMode = "auto", privileged: bool = False) -> Mapping:
    """How a method maps the user, for a policy with `user.mapping: mode` and `process.privileged`.

    Raise UsageError for a method that there isn't.
    """
    match method:
        case "bwrap" | "seatbelt" | "noop":
            return _ITSELF
        case "kubernetes" | "user" | "alcless":
            return _NONE
        case "docker" | "podman" | "devcontainer" if mode == "off":
            return _NONE
        case "docker" | "devcontainer":
            return _docker(engine, privileged=privileged and mode != "required")
        case "podman":
            return _podman(engine, privileged=privileged)
        case "oci" | "gvisor":
            return Mapping("namespace", "root", named=mode != "off")
        case _:
            raise UsageError(f"there is no method '{method}'")


def _docker(engine: Engine, *, privileged: bool) -> Mapping:
    if engine.rootless:  # its root is the caller
        return Mapping("namespace", "root", named=True)
    if engine.remapped:
        return _NONE
    if privileged:
        return Mapping("accounts" if engine.as_root else "none", "root", named=True)
    return Mapping("accounts", "root" if engine.as_root else "caller", named=True)


def _podman(engine: Engine, *, privileged: bool) -> Mapping:
    if engine.as_root:
        return Mapping("accounts", "root", named=True)
    if not engine.numbers and not privileged:
        return Mapping("namespace", "root", named=True)
    return Mapping("namespace", "root" if privileged else "caller", named=True)
