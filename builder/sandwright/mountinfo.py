"""Lists the mounts below a directory, from the table of mounts (proc(5), mountinfo).

A bind mount may be on the same file system, so device numbers don't tell.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from sandwright import process

_TABLE = Path("/proc/self/mountinfo")


def mount_points() -> list[str]:
    """All mount points, in the order of the mounts; none without a table, as on macOS."""
    try:
        table = _TABLE.read_bytes()
    except OSError:
        return []
    lines = os.fsdecode(table).split("\n")[:-1]  # a name may have a carriage return in it
    return [_decoded(line.split(" ", 5)[4]) for line in lines]


def file_system_type(device: int) -> str:
    """The type of the mounted file system with a device number (st_dev), such as `ext4`; empty if unknown."""
    number = f"{os.major(device)}:{os.minor(device)}"
    try:
        lines = os.fsdecode(_TABLE.read_bytes()).split("\n")[:-1]
    except OSError:
        return ""
    found = (line for line in lines if line.split(" ", 3)[2] == number)
    return next((line.rpartition(" - ")[2].split(" ")[0] for line in found), "")


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


def _decoded(field: str) -> str:
    """A field of the table, in which white space and backslashes are octal escapes."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)
