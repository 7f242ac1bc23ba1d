"""Grants of a policy on the host's files, as the launcher reads them: `rules`, words that end with NUL.

Each grant is two words, a kind and a path: `hide`, `read`, `write`, `device`, `terminal`. The most specific
path wins, but there are no grants below a writable path: Landlock grants all of it. A directory with
hidden entries is granted entry by entry when the sandbox starts (launcher/source/grants.c), so
that a hidden name that doesn't exist yet stays hidden too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, get_args

from sandwright.policy.paths import ancestors, depth
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.mounts import Mount, mount_plan

Grant = Literal["hide", "read", "write", "device", "terminal"]
GRANTS: tuple[Grant, ...] = get_args(Grant)

DEVICES = ("/dev/full", "/dev/null", "/dev/random", "/dev/urandom", "/dev/zero")
"""The granted devices: no device of a person, no terminal of others, no shared memory."""

TERMINAL = "/dev/tty"
"""The terminal of the session, which is the sandbox's own or none."""


def grants(policy: ResolvedPolicy) -> dict[str, Grant]:
    """The grants by path, parents first. Raise like `mount_plan`."""
    found: dict[str, Grant] = {}
    for rule in policy.filesystem.rules:
        if rule.kind == "deny":
            found[rule.path] = "hide"  # also what doesn't exist, of which the plan of mounts has nothing
    for mount in mount_plan(policy, root="host").mounts:
        found |= _of_mount(mount)
    ordered = sorted(found.items(), key=lambda each: (depth(each[0]), each[0]))
    return dict(_outside_writable(ordered))


def _of_mount(mount: Mount) -> dict[str, Grant]:
    match mount.kind:
        case "bind":
            return {mount.target: "write" if mount.writable else "read"}
        case "dev":
            return {mount.target: "hide", **dict.fromkeys(DEVICES, "device"), TERMINAL: "terminal"}
        case "proc":
            return {mount.target: "read"}
        case "mask" if mount.entry == "socket" or mount.target.startswith("/proc/"):
            return {}  # no socket can be connected to; /proc can only be granted as a whole
        case "mask" | "tmpfs":
            return {mount.target: "hide"}
        case "symlink":
            return {}


def _outside_writable(ordered: Iterable[tuple[str, Grant]]) -> Iterator[tuple[str, Grant]]:
    writable: set[str] = set()
    for path, grant in ordered:
        if writable.isdisjoint(ancestors(path)):
            yield path, grant
            writable |= {path} if grant == "write" else set()


def encode_grants(found: dict[str, Grant]) -> bytes:
    """The artifact."""
    words = (word for path, grant in found.items() for word in (grant, path))
    return b"".join(word.encode("utf-8", "surrogateescape") + b"\0" for word in words)
