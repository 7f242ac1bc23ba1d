"""The volumes of a Pod: the project, on a volume of the cluster, and a temporary directory (emptyDir).

The Pod has no files of the host. The volume is assumed to hold the project as recorded in the facts:
writable, read-only and hidden paths in it are separate mounts, as with other methods. For a missing path an
empty directory is mounted, which the runtime creates on the volume and which stays there. With other methods
a file covers Git's `commondir` and is removed afterwards; here it would stay, so the repository's directory
is read-only as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from sandwright.errors import RenderError
from sandwright.policy.paths import ancestors, depth, is_inside
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.uses import absent_restrictions
from sandwright.render.imagemasks import check_image_masks
from sandwright.render.mounts import Mount, MountPlan, mount_plan
from sandwright.render.without_placeholders import movable_above, without_placeholders

TMP = "/tmp"  # noqa: S108 - inside the sandbox
"""The default temporary directory."""

Holds = Literal["project", "nothing", "empty-file", "tmp"]


@dataclass(frozen=True)
class VolumeMount:
    """One place in the container.

    `holds` is the visible content: the project from `sub` on (relative to it, empty for all of it), a
    directory or a file without content, or the temporary directory.
    """

    path: str
    holds: Holds
    writable: bool = False
    sub: str = ""


def volume_mounts(policy: ResolvedPolicy) -> tuple[VolumeMount, ...]:
    """The mounts of a policy, parents first. Raise RenderError for a path that can't be mounted on."""
    project = policy.canonical(policy.facts.project)
    temporary = (TMP, policy.filesystem.tmp_path)
    chosen = {path: VolumeMount(path, "tmp", writable=True) for path in temporary}
    plan = mount_plan(policy, root="image")
    check_image_masks(plan, "kubernetes", accounts=False)
    for mount in _planned(policy, plan, project):
        chosen.setdefault(mount.path, mount)
    for path in (*_first_absent(policy), *(placeholder.path for placeholder in plan.placeholders)):
        above = next((chosen[each] for each in (path, *ancestors(path)) if each in chosen), None)
        if is_inside(path, project) and above is not None and above.writable:
            chosen.setdefault(path, VolumeMount(path, "nothing"))
    for hidden in plan.mounts:
        if hidden.of_image and not is_inside(hidden.target, project):
            chosen[hidden.target] = _of_project(hidden, project)
    restricted = [mount.path for mount in chosen.values() if not mount.writable]
    for path in (above for each in restricted for above in movable_above(policy, each)):
        if is_inside(path, project):
            chosen.setdefault(path, _of_project(Mount(path, "bind", writable=True), project))
    _check_paths(policy, chosen)
    return tuple(sorted(chosen.values(), key=lambda each: (depth(each.path), each.path)))


def _planned(policy: ResolvedPolicy, plan: MountPlan, project: str) -> Iterator[VolumeMount]:
    """The planned paths in the project, including the project itself if it is planned."""
    plan = without_placeholders(policy, plan)
    for mount in plan.mounts:
        if is_inside(mount.target, project) and mount.entry != "socket":
            yield _of_project(mount, project)
    around = [mount for mount in plan.mounts if is_inside(project, mount.target)]
    if around and around[-1].kind == "bind":
        yield VolumeMount(project, "project", around[-1].writable)


def _of_project(mount: Mount, project: str) -> VolumeMount:
    match mount.kind:
        case "bind":
            sub = mount.target[len(project) :].lstrip("/")
            return VolumeMount(mount.target, "project", mount.writable, sub)
        case "mask" if mount.entry != "directory":
            return VolumeMount(mount.target, "empty-file")
        case _:
            return VolumeMount(mount.target, "nothing")


def _first_absent(policy: ResolvedPolicy) -> Iterator[str]:
    """For each restricted path that doesn't exist, the first name on the way to it that doesn't."""
    for rule in absent_restrictions(policy):
        missing = [path for path in (rule.path, *ancestors(rule.path)) if policy.facts.kind(path) is None]
        yield missing[-1]


def _check_paths(policy: ResolvedPolicy, mounts: Iterable[str]) -> None:
    for path in mounts:
        if ":" in path:
            rules = policy.filesystem.tree.deciding(path)
            source = f"{rules[0].source}: " if rules else ""
            raise RenderError(f"{source}cannot mount on {path!r}: Kubernetes takes no ':' in a mountPath")
