"""Lists the mounts below a directory, from the table of mounts (proc(5), mountinfo).

A bind mount may be on the same file system, so device numbers do not reveal it.
"""

from __future__ import annotations

import os
from os import PathLike
from pathlib import Path

from sandwright import process
from sandwright.errors import HostError
from sandwright.mount_aliases import read_mounts

_REMOVING = 600.0
"""Seconds."""


def mount_points() -> list[str]:
    """All mount points, in the order of the mounts; none without a table, as on macOS."""
    return [each.point for each in read_mounts()]


def file_system_type(device: int) -> str:
    """The type of the mounted file system with a device number (st_dev), such as `ext4`; empty if unknown."""
    number = f"{os.major(device)}:{os.minor(device)}"
    return next((each.type for each in read_mounts() if each.device == number), "")


def mounted_below(directory: Path) -> list[Path]:
    """The mount points at or below a directory, in the order of the mounts."""
    real = directory.resolve()
    points = map(Path, mount_points())
    return [point for point in points if point == real or real in point.parents]


def unmount_below(directory: Path) -> None:
    """Unmount all mounts below a directory, innermost first; a busy mount stays."""
    real = directory.resolve()
    for point in reversed(mounted_below(directory)):
        if point != real:
            process.run("umount", "--lazy", point, check=False)


def refuse_mounts(directory: Path) -> None:
    """Raise HostError where something is mounted at or below a directory: removing it would remove that, too.

    A killed mmdebstrap leaves the host's /dev in its directory. CVE-2024-23652 is the same mistake elsewhere.
    """
    mounted = mounted_below(directory)
    if mounted:
        raise HostError(f"cannot remove {directory}: something is mounted on {mounted[0]}; unmount it")


def remove_tree(path: str | PathLike[str]) -> None:
    """Remove a directory that a sandbox filled: it may be too deep for shutil, which recurses.

    Directories that may not be written are removed, too; no link is followed. Raise HostError, and remove
    nothing, where something is mounted in it; CommandFailed when some of it stays, or it takes more than ten
    minutes.
    """
    directory = Path(path)
    if directory.is_dir() and not directory.is_symlink():
        refuse_mounts(directory)
        process.run("chmod", "-R", "u+rwx", "--", directory, timeout=_REMOVING, check=False)
    process.run("rm", "-rf", "--", directory, timeout=_REMOVING)
