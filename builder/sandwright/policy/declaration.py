"""What a method makes of each feature of a policy: its declaration, which the method brings.

`exact` is enforced as written. `stricter` is enforced, and less is possible than the policy allows; reports
say what. `partly` is enforced, but for a case that the reason names and reports show. `cannot` is not
enforced: the policy is refused, unless its `accept_gaps` lists it. `unused` is not about this method.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Level = Literal["exact", "stricter", "partly", "cannot", "unused"]

Refused = Literal["calls", "sockets", "hosts", "bridge", "paths"]
"""What a run may be told that it was refused: system calls, connections to Unix sockets of the host, hosts by
the proxy, programs by the bridge, and paths."""

REFUSED: Mapping[Refused, str] = {
    "calls": "system calls",
    "sockets": "connections to Unix sockets of the host",
    "hosts": "hosts, by the proxy",
    "bridge": "programs, by the bridge",
    "paths": "paths, with `--explain-denials`",
}

Namespace = Literal["mount", "pid", "ipc", "uts", "cgroup", "user"]
"""Namespaces that artifacts ask for by name; that of the network follows from the policy's `network.mode`."""

ControlGroups = Literal["own", "caller", "daemon"]
"""Who makes the control groups that count processes together: the method by means of its own, the caller, who
may have none without root, or an engine's daemon."""


@dataclass(frozen=True)
class Support:
    """What a method makes of a feature. `reason` says why, empty where nothing needs saying."""

    level: Level
    reason: str = ""


@dataclass(frozen=True)
class Declaration:
    """What a method makes of policies.

    `support` is by feature; a feature without an entry cannot be enforced. `unreported` lists the kinds of
    denials that the method cannot report, each with the reason, which is empty if it can. The method itself
    refuses `extra_denied_syscalls`, all or some of their arguments, whatever the policy's filter says.
    `enforces` is False for the method that is no sandbox. `mounts`: a path is granted by a mount, so it must
    exist. `preset_limits` is the reason why the method keeps no limit of a preset, empty if it may keep them.
    `outer_control_groups` are those of an outer container, by engine. `other_account`: it runs as an account
    that cannot enter the caller's directories of mode 0700. `namespaces` are the sandbox's own under every
    policy, as far as artifacts name them and not the launcher makes them. `masks_kernel`: the artifacts name
    the paths of /proc and /sys that are hidden or read-only, and no engine has a list of its own.
    """

    method: str
    support: Mapping[str, Support]
    enforces: bool = True
    mounts: bool = True
    preset_limits: str = ""
    control_groups: ControlGroups = "own"
    outer_control_groups: Mapping[str, ControlGroups] = field(default_factory=dict)
    unreported: Mapping[Refused, str] = field(default_factory=dict)
    extra_denied_syscalls: frozenset[str] = frozenset()
    other_account: bool = False
    namespaces: frozenset[Namespace] = frozenset()
    masks_kernel: bool = False

    def of(self, feature: str) -> Support:
        """What the method makes of a feature."""
        return self.support.get(feature, Support("cannot", f"{self.method} doesn't declare it"))

    def why_unreported(self, refused: Refused) -> str:
        """Why such refusals can't be told after a run; empty where they can."""
        return self.unreported.get(refused, f"{self.method} doesn't declare it")
