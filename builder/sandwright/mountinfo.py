"""Lists the mounts below a directory, from the table of mounts (proc(5), mountinfo).

A bind mount may be on the same file system, so device numbers don't tell.
"""

from __future__ import annotations

import os
from pathlib import Path

from sandwright import process
from sandwright.mount_aliases import read_mounts


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
    """Unmount all that is mounted below a directory, innermost first; what can't be is left."""
    real = directory.resolve()
    for point in reversed(mounted_below(directory)):
        if point != real:
            process.run("umount", "--lazy", point, check=False)
