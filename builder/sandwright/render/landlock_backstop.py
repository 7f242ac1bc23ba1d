"""Landlock's grants as a second wall behind the mounts: a separate list of paths.

It is made of the policy's rules and not of the plan of mounts, so that a mistake in that opens nothing by
itself. Rules of Landlock grant a path with all below. So they enforce writing, and reading where a policy
lists readable paths; mounts alone enforce denied or read-only paths in a granted directory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from sandwright.launcher.plan import BackstopPlan
from sandwright.policy.names import SECCOMP_PROFILES
from sandwright.policy.paths import ancestors, depth
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.rules import PathRule
from sandwright.render.mounts import Root

Grant = Literal["read", "write"]

_RUNTIMES_OWN = ("r/sys", "w/tmp")
"""The paths that a runtime mounts besides /dev and /proc (oci/mounts.json)."""


def backstop_plan(policy: ResolvedPolicy, *, root: Root, home: str = "") -> BackstopPlan:
    """The section of a launcher's plan; empty where there can't be a wall. `home` is the account's.

    A filter from a file may allow mounts, which Landlock never does. Where programs can gain rights
    (sudo in a container), no process can restrict itself.
    """
    may_gain = root == "image" and policy.process.sandbox_root
    if policy.process.seccomp not in SECCOMP_PROFILES or may_gain:
        return BackstopPlan()
    paths = [(grant, path) for path, grant in wall_grants(policy, root=root).items()]
    private = [f"w{path}" for path in _private_paths(policy)] + [*(_RUNTIMES_OWN if root == "image" else ())]
    granted = (*paths, *([("write", home)] if home else []))
    return BackstopPlan(enabled=True, paths=granted, own=tuple(dict.fromkeys(private)))


def wall_grants(policy: ResolvedPolicy, *, root: Root) -> dict[str, Grant]:
    """The paths of the host that may be read or written, parents first, without grants inside a parent's."""
    found: dict[str, Grant] = {}
    for rule in sorted(_backstop_rules(policy, root), key=lambda each: (depth(each.path), each.path)):
        grant: Grant = "write" if rule.writable else "read"
        above = {found[path] for path in ancestors(rule.path) if path in found}
        if grant not in above and "write" not in above:
            found[rule.path] = grant
    return found


def _backstop_rules(policy: ResolvedPolicy, root: Root) -> Iterator[PathRule]:
    files, facts = policy.filesystem, policy.facts
    chosen: dict[str, PathRule] = {}
    for rule in files.rules:
        if rule.path not in chosen or rule.strength >= chosen[rule.path].strength:
            chosen[rule.path] = rule
    for rule in files.startup if root == "host" else ():
        chosen.setdefault(rule.path, rule)
    for rule in chosen.values():
        visible = rule.readable and not rule.private and facts.kind(rule.path) is not None
        if visible and not (root == "image" and rule.path == "/"):
            yield rule


def _private_paths(policy: ResolvedPolicy) -> Iterable[str]:
    """The private temporary directory."""
    rules = policy.filesystem.rules
    return (
        rule.path
        for rule in rules
        if rule.private and rule.writable and rule.path.split("/")[1] not in ("dev", "proc")
    )
