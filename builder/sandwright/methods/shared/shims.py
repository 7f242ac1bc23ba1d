"""The place of `credentials.shims` and `credentials.signing` in a sandbox, method by method.

Shims and the bridge's socket lie in one directory, which the session makes new for each run: `bin/NAME` for
each program, `shim`, `sandwright-enter` and `socket`. A shim finds the socket beside its own file, so the
directory may be seen at any path. It is always read-only inside; a read-only mount doesn't hinder a
connection.

| method | seen at | by | reached through |
|---|---|---|---|
| bwrap | BWRAP_PLACE | `--ro-bind` behind the plan's mounts | the sandbox's loopback; the socket where the policy lists sockets |
| docker, podman, oci | PLACE | a read-only bind mount | the socket |
| gvisor | PLACE | a read-only bind mount | as with bwrap |
| seatbelt | its own path on the host | rules for the directory and the socket, by the parameter SHIMS | the socket |
| user, alcless | nowhere | the bridge serves only its owner, and the account is another user | – |
| kubernetes, compose, devcontainer | nowhere | there is neither a session nor a bridge | – |
| noop | nowhere | programs can use the real one | – |

Every row is brought in by the method's launcher, when a session says where the directory is
(SANDWRIGHT_SHIMS); without that it starts nothing. The program inside that is called `gh` is the shim or none
at all.

Two methods go through the loopback. bwrap's filter refuses to make Unix sockets when the policy lists none,
since with the host's files in sight any of their sockets could be connected to; runsc connects to none of the
host's without `--host-uds=open`, which would open them all. With shims both stay as they are.
`sandwright-enter` makes a TCP listener in the sandbox's network namespace, before anything of the sandbox
runs there, and hands it to the bridge through a socket that it inherited, and closes that. The bridge takes
connections there, from inside this one namespace and nowhere else. For runsc the namespace is one that the
launcher makes and `--network=host` then means, as with a proxy. With `network.mode: host` there is no such
loopback, and no filter that lets containers make Unix sockets either: then `shim_plan` refuses the policy,
unless it lists sockets itself.
"""  # noqa: E501 - a table

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sandwright.errors import RenderError
from sandwright.launcher.plan import ShimPlan
from sandwright.policy.resolved import ResolvedPolicy

PLACE = "/.sandwright"
"""The directory's path in containers: at the root, because it must not lie below a mount of the host. The
runtime makes the mount point."""

BWRAP_PLACE = "/dev/.sandwright"
"""bubblewrap makes this `/dev` for each sandbox, so that a mount point can be made there."""

BROUGHT_IN = frozenset({"bwrap", "docker", "podman", "oci", "gvisor", "seatbelt"})
"""The methods with shims in the sandbox, and a bridge in the session."""

_LIST_CHANGES = frozenset({"bwrap", "oci", "gvisor"})
"""The methods of `BROUGHT_IN` that have a review workspace."""

Reach = Literal["socket", "loopback", "none"]

CONTAINERS = frozenset({"docker", "podman", "oci", "gvisor"})
"""The methods whose root is an image's."""

_ENGINES = frozenset({"docker", "podman"})


@dataclass(frozen=True)
class ShimPlace:
    """The way of a sandbox to its bridge. `directory` is its path inside; `path` goes first on PATH."""

    directory: str
    reach: Reach

    @property
    def path(self) -> str:
        """The directory of the shims."""
        return f"{self.directory}/bin"


def shim_place(policy: ResolvedPolicy, method: str, directory: str) -> ShimPlace | None:
    """The place of a bridge's host `directory` under a method. None without shims, or without such a place.

    `reach` is `none` for a policy that keeps the sandbox from its bridge.
    """
    if not (policy.credentials.needs_bridge or lists_changes(policy, method)) or method not in BROUGHT_IN:
        return None
    if method in CONTAINERS:
        return ShimPlace(PLACE, _bridge_reach(policy, method))
    return ShimPlace(BWRAP_PLACE if method == "bwrap" else directory, _bridge_reach(policy, method))


def lists_changes(policy: ResolvedPolicy, method: str) -> bool:
    """Whether runs of a policy have `sandwright-changes`: in a review, where the bridge can be reached."""
    if policy.workspace != "review" or method not in _LIST_CHANGES:
        return False
    location = ShimPlace(PLACE if method in CONTAINERS else BWRAP_PLACE, _bridge_reach(policy, method))
    return not _bridge_obstacle(policy, method, location)


def shim_plan(policy: ResolvedPolicy, method: str) -> ShimPlan:
    """The section `shims` of a launch plan; not `enabled` without shims.

    `place` is where the directory is seen, None for its own path; `loopback` how it is reached. `search` is
    the PATH behind the shims, None for that of the host; containers put them in front of their own PATH.
    Raise RenderError if the sandbox could not reach a bridge.
    """
    location = shim_place(policy, method, "")
    if location is None:
        return ShimPlan()
    if fault := _bridge_obstacle(policy, method, location):
        field = "credentials.shims" if policy.credentials.shims else "credentials.signing"
        raise RenderError(f"{policy.source(field)}: {field}: {fault}")
    passed = policy.environment.passes("PATH")
    search = None if passed else policy.environment.set.get("PATH", "/usr/local/bin:/usr/bin:/bin")
    loopback = location.reach == "loopback"
    return ShimPlan(enabled=True, place=location.directory or None, search=search, loopback=loopback)


def _bridge_obstacle(policy: ResolvedPolicy, method: str, location: ShimPlace) -> str:
    """The reason why the bridge could not be reached; empty when it can be."""
    if location.reach == "none" and method in ("bwrap", "gvisor"):
        return (
            f"with network.mode host and without network.unix_sockets, {method}'s sandbox has neither Unix "
            "sockets nor a separate loopback"
        )
    if location.reach == "none":
        return (
            f"with network.mode host and without network.unix_sockets, {method}'s filter refuses Unix "
            "sockets, by which the bridge is reached"
        )
    if method in CONTAINERS and policy.facts.os == "darwin":
        return f"{method} runs in a virtual machine on macOS, which has no way to a Unix socket of the host"
    as_root = policy.process.sandbox_root and policy.mapping != "required"
    if method == "docker" and as_root and policy.facts.uid:
        return (
            "with process.sandbox_root, docker runs as root, whom the bridge refuses: it serves only its "
            "owner"
        )
    if method in _ENGINES and policy.mapping == "off":
        return (
            f"with user.mapping off, {method} runs as the image's own user, whom the bridge refuses: it "
            "serves only its owner"
        )
    return ""


def _bridge_reach(policy: ResolvedPolicy, method: str) -> Reach:
    if policy.network.unix_sockets or method == "seatbelt":
        return "socket"
    if policy.network.mode == "host":
        return "none"
    return "loopback" if method in ("bwrap", "gvisor") else "socket"
