"""Checks the mounts that a caller adds to a bundle against the root file system they go into."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from sandwright.errors import UsageError
from sandwright.render.baseline import BaselineMount
from sandwright.rootfs.securejoin import Root

_LOCKED = {os.ST_RDONLY: "ro", os.ST_NOSUID: "nosuid", os.ST_NODEV: "nodev", os.ST_NOEXEC: "noexec"}


def settle(
    root: Root, mounts: Iterable[BaselineMount], inside: Iterable[str], *, rootless: bool
) -> tuple[BaselineMount, ...]:
    """The mounts with destinations free of links.

    A destination must be there, since a runtime would make it in the root that is shared, or lie in one of
    `inside`, the destinations of file systems that are made anew at each start. A rootless bind keeps the
    flags that the caller may not take away (mount_namespaces(7), locked flags). Raise UsageError for an
    impossible mount.
    """
    fresh = [os.fsencode(path).rstrip(b"/") + b"/" for path in inside]
    return tuple(_settle(root, mount, fresh, rootless=rootless) for mount in mounts)


def is_bind(mount: BaselineMount) -> bool:
    """Whether a mount shows a file or directory of the host."""
    return mount.type == "bind" or bool({"bind", "rbind"} & set(mount.options))


def _settle(root: Root, mount: BaselineMount, fresh: list[bytes], *, rootless: bool) -> BaselineMount:
    destination = os.fsencode(mount.destination)
    if not destination.startswith(b"/") or b".." in destination.split(b"/") or not destination.strip(b"/"):
        raise UsageError(f"mount on {mount.destination}: not an absolute, normalised path below /")
    resolved = root.locate(destination)
    directory = True
    if is_bind(mount):
        source = Path(mount.source)
        if not source.is_absolute():
            raise UsageError(f"mount on {mount.destination}: {mount.source} is not an absolute path")
        if not source.exists():
            raise UsageError(f"mount on {mount.destination}: there is no {mount.source} on this machine")
        directory = source.is_dir()
        if rootless:
            mount = replace(mount, options=tuple(dict.fromkeys([*mount.options, *_locked_options(source)])))
    if resolved.status is None and not any(resolved.path.startswith(tree) for tree in fresh):
        raise UsageError(
            f"mount on {mount.destination}: the image has no such path, and its root is shared; "
            "choose one of the image's own, or one below a tmpfs"
        )
    if resolved.status is not None and (
        resolved.is_directory != directory or not (directory or resolved.is_file)
    ):
        raise UsageError(f"mount on {mount.destination}: that is {resolved.kind} in the image")
    return replace(mount, destination=os.fsdecode(resolved.path))


def _locked_options(source: Path) -> list[str]:
    flags = os.statvfs(source).f_flag
    return [option for flag, option in _LOCKED.items() if flags & flag]
