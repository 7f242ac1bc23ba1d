"""Masks and mounts that hide denied files of an image.

A runtime masks existing paths and skips missing ones (`maskedPaths` of the OCI runtime-spec). Without a
runtime's masks, a mount of the right kind is needed there.
"""

from __future__ import annotations

from dataclasses import replace

from sandwright.errors import RenderError
from sandwright.policy.paths import ancestors, is_inside
from sandwright.render.mounts import MountPlan

HOST_FILES = ("/etc/hosts", "/etc/resolv.conf", "/etc/hostname")
"""The files that engines, kubelet and our bundles mount over an image's."""

ACCOUNT_FILES = ("/etc/passwd", "/etc/group")
"""The same, where the caller has an account inside."""


def masked_paths(plan: MountPlan) -> tuple[MountPlan, tuple[str, ...]]:
    """The plan without the mounts that hide an image's files, and the paths to mask instead.

    Mounts inside such a path must stay visible, so a mount hides that one.
    """
    above = {each for mount in plan.mounts if not mount.of_image for each in ancestors(mount.target)}
    masked = tuple(each.target for each in plan.mounts if each.of_image and each.target not in above)
    mounts = tuple(each for each in plan.mounts if each.target not in masked)
    return replace(plan, mounts=mounts), masked


def check_image_masks(plan: MountPlan, method: str, *, accounts: bool) -> None:
    """Raise RenderError where a denied path holds a file that the method itself mounts."""
    files = (*HOST_FILES, *(ACCOUNT_FILES if accounts else ()))
    for mount in plan.mounts:
        inside = next((each for each in files if mount.of_image and is_inside(each, mount.target)), "")
        if inside and mount.rule is not None:
            raise RenderError(
                f"{mount.rule.source}: {method} cannot deny {mount.rule.written}: it mounts its own "
                f"{inside}; take podman or oci, which can, or leave the rule out"
            )
