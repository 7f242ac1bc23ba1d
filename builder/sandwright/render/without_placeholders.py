"""Mount plans for sandboxes that start without our launcher, which creates and removes placeholders."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sandwright.policy.paths import ancestors, depth
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.mounts import Mount, MountPlan, Root, mount_plan


def plan_without_placeholders(policy: ResolvedPolicy, *, root: Root) -> MountPlan:
    """The mount plan of a policy, without placeholders."""
    return without_placeholders(policy, mount_plan(policy, root=root))


def without_placeholders(policy: ResolvedPolicy, plan: MountPlan) -> MountPlan:
    """Replace placeholders in Git directories: each directory with one becomes read-only as a whole.

    Hidden paths in it stay hidden; writable paths in it become read-only. Missing names outside of Git
    directories that programs must not create are left to the caller.
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
    """The parent directories of a path that a program inside could move, together with the path."""
    tree = policy.filesystem.tree
    for above in ancestors(path)[:-1]:
        if tree.changes_host(above) and tree.changes_host(above.rpartition("/")[0] or "/"):
            yield above
