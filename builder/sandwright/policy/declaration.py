"""The declaration of a method: how completely it enforces each feature of a policy.

- `exact`: enforced as written.
- `stricter`: enforced, and the sandbox allows less than the policy; reports name the difference.
- `partly`: enforced except for the case that the reason describes; reports show it.
- `cannot`: not enforced; the policy is refused unless `accept_gaps` lists the feature.
- `unused`: the feature does not apply to this method.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Level = Literal["exact", "stricter", "partly", "cannot", "unused"]

Refused = Literal["calls", "sockets", "hosts", "bridge", "paths"]
"""Kinds of denials that a run can report: system calls, connections to Unix sockets of the host, hosts (by
the proxy), programs (by the bridge) and paths."""

REFUSED: Mapping[Refused, str] = {
    "calls": "system calls",
    "sockets": "connections to Unix sockets of the host",
    "hosts": "hosts, by the proxy",
    "bridge": "programs, by the bridge",
    "paths": "paths, with `--explain-denials`",
}

Namespace = Literal["mount", "pid", "ipc", "uts", "cgroup", "user"]
"""Namespaces that artifacts name. The network namespace depends on `network.mode`."""

ControlGroups = Literal["own", "caller", "daemon"]
"""The creator of the cgroups: the method, the caller (who may need root), or the daemon of an engine."""


@dataclass(frozen=True)
class Support:
    """The degree to which a method enforces a feature, and the reason, which may be empty."""

    level: Level
    reason: str = ""


@dataclass(frozen=True)
class Declaration:
    """The features that a method enforces.

    `support` is by feature; a feature without an entry is `cannot`. `enforces` is False for `noop`, which is
    no sandbox. `mounts`: access to a path is granted by a mount, so the path must exist. `preset_limits` is
    the reason why the method ignores resource limits of presets, empty if it applies them.
    `outer_control_groups` are those of an outer container, by engine. `unreported` has an entry for every
    kind of denial, with the reason why the method cannot report it, empty if it can. The method denies
    `extra_denied_syscalls`, or some of their arguments, regardless of the seccomp profile. `other_account`:
    the command runs as an account without access to directories of mode 0700 of the caller. `namespaces`
    are unshared under every policy; those that the launcher creates are not listed. `masks_kernel`: the
    artifacts list the masked and read-only paths of /proc and /sys, and no engine adds a list of its own.
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
        """The degree to which the method enforces a feature."""
        return self.support.get(feature, Support("cannot", f"{self.method} doesn't declare it"))

    def why_unreported(self, refused: Refused) -> str:
        """The reason why the method cannot report this kind of denial; empty if it can."""
        return self.unreported.get(refused, f"{self.method} doesn't declare it")
