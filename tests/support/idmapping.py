"""The owner of new files, which must be the caller: the id-mapping strategy expected of each method.

It is stated here separately from the renderers, with which the tests of user mapping compare it.

`itself`: the command is a process of the caller's on the host. `namespace`: a user namespace maps the user
inside to the caller. `accounts`: the engine starts the command with the caller's numbers, and rendered
account files name them. `init`: the image starts as root, and its first process (`config.init` of its
definition) becomes the caller; no method of ours needs that, but users who run such an image by hand do.
`none`: files belong to another user.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sandwright.errors import UsageError
from sandwright.policy.names import MappingMode

IdStrategy = Literal["itself", "namespace", "accounts", "init", "none"]
InnerId = Literal["caller", "root", "other"]
"""The command's user number inside: the caller's, 0, or one that the image or the method chose."""


@dataclass(frozen=True)
class MappingHost:
    """The facts that decide in addition to the policy, and that are known when a sandbox starts.

    `as_root`: the caller is root. `rootless`: the engine's daemon runs without root. `numbers`: the caller
    has subordinate numbers (subuid(5)). `remapped`: the daemon gives containers other numbers (userns-remap).
    """

    as_root: bool = False
    rootless: bool = False
    numbers: bool = True
    remapped: bool = False


@dataclass(frozen=True)
class IdMapping:
    """The strategy, the number inside, and whether our account files have its name and home."""

    strategy: IdStrategy
    inside: InnerId
    named: bool


_ITSELF = IdMapping("itself", "caller", named=False)
_NONE = IdMapping("none", "other", named=False)


def mapping(
    method: str, host: MappingHost, *, mode: MappingMode = "auto", sandbox_root: bool = False
) -> IdMapping:
    """The mapping of the user by a method, for a policy with `user.mapping: mode` and `process.sandbox_root`.

    Raise UsageError for an unknown method.
    """
    match method:
        case "bwrap" | "landlock" | "vm" | "seatbelt" | "noop":
            return _ITSELF
        case "kubernetes" | "user" | "alcless":
            return _NONE
        case "docker" | "podman" | "devcontainer" if mode == "off":
            return _NONE
        case "docker" | "devcontainer":
            return _docker(host, sandbox_root=sandbox_root and mode != "required")
        case "podman":
            return _podman(host, sandbox_root=sandbox_root)
        case "oci" | "gvisor":
            return IdMapping("namespace", "root", named=mode != "off")
        case _:
            raise UsageError(f"there is no method '{method}'")


def _docker(host: MappingHost, *, sandbox_root: bool) -> IdMapping:
    if host.rootless:  # its root is the caller
        return IdMapping("namespace", "root", named=True)
    if host.remapped:
        return _NONE
    if sandbox_root:
        return IdMapping("accounts" if host.as_root else "none", "root", named=True)
    return IdMapping("accounts", "root" if host.as_root else "caller", named=True)


def _podman(host: MappingHost, *, sandbox_root: bool) -> IdMapping:
    if host.as_root:
        return IdMapping("accounts", "root", named=True)
    if not host.numbers and not sandbox_root:
        return IdMapping("namespace", "root", named=True)
    return IdMapping("namespace", "root" if sandbox_root else "caller", named=True)
