"""The mount plan for where nobody makes covers and removes them again, as launchers do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sandwright.policy.paths import ancestors, depth
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.mounts import Mount, MountPlan, Root, mount_plan


def plan_without_covers(policy: ResolvedPolicy, *, root: Root) -> MountPlan:
    """The plan of a policy that nobody makes covers for."""
    return without_covers(policy, mount_plan(policy, root=root))


def without_covers(policy: ResolvedPolicy, plan: MountPlan) -> MountPlan:
    """A plan that holds in Git's directories without covers: each that needs one is read-only as a whole.

    What is hidden in such a directory stays hidden; what could be written there can't be. A name elsewhere
    that doesn't exist, and must not be made, is left to the caller.
    """
    rules = {placeholder.closes: placeholder.rule for placeholder in plan.placeholders if placeholder.closes}
    closed = {path: rule for path, rule in rules.items() if not rules.keys() & set(ancestors(path))}
    mounts = {
        mount.target: mount
        for mount in plan.mounts
        if mount.target not in closed
        and not (_is_bind(mount) and closed.keys() & set(ancestors(mount.target)))
    }
    mounts |= {path: Mount(path, "bind", source=path, rule=rule) for path, rule in closed.items()}
    for path in closed:
        for above in movable_above(policy, path):
            mounts.setdefault(above, Mount(above, "bind", writable=True, source=above, pin=True))
    ordered = sorted(mounts.values(), key=lambda mount: (depth(mount.target), mount.target))
    return replace(plan, mounts=tuple(ordered), placeholders=())


def _is_bind(mount: Mount) -> bool:
    return mount.kind == "bind"


def movable_above(policy: ResolvedPolicy, path: str) -> Iterator[str]:
    """The directories above a path that somebody inside could move away, and the path with them."""
    tree = policy.filesystem.tree
    for above in ancestors(path)[:-1]:
        if tree.changes_host(above) and tree.changes_host(above.rpartition("/")[0] or "/"):
            yield above
