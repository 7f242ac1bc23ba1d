"""Finds the other paths at which mounts show a directory: bind mounts, and mounts of the same file system.

A rule is about a path. What it protects is reached by each of these paths, too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

_TABLE = Path("/proc/self/mountinfo")


class MountEntry(NamedTuple):
    """A line of proc_pid_mountinfo(5): device number, directory of the file system, mount point, type."""

    device: str
    root: str
    point: str
    type: str


def read_mounts() -> list[MountEntry]:
    """All mounts, in their order; none without a table, as on macOS."""
    try:
        lines = os.fsdecode(_TABLE.read_bytes()).split("\n")[:-1]
    except OSError:
        return []
    return [_parse_line(line) for line in lines]  # a name may have a carriage return in it


def _parse_line(line: str) -> MountEntry:
    fields, _, rest = line.rpartition(" - ")
    _, _, device, root, point, *_ = fields.split(" ")
    return MountEntry(device, _decoded(root), _decoded(point), rest.split(" ")[0])


def aliases(path: str, mounts: Sequence[MountEntry]) -> list[str]:
    """The other paths of a directory, and the mount points that show a directory in it.

    Another mount may hide what is at some of them.
    """
    mount = _mount_showing(path, mounts)
    if mount is None:
        return []
    shown_path = _join_path(mount.root, _relative(path, mount.point))
    found = []
    for other in mounts:
        if other.device != mount.device or other is mount:
            continue
        if _is_inside(shown_path, other.root):
            found.append(_join_path(other.point, _relative(shown_path, other.root)))
        elif _is_inside(other.root, shown_path):
            found.append(other.point)
    return [alias for alias in found if alias != path]


def _mount_showing(path: str, mounts: Sequence[MountEntry]) -> MountEntry | None:
    """The mount that shows a path: the last of those above it, as a later one hides earlier ones."""
    return next((each for each in reversed(mounts) if _is_inside(path, each.point)), None)


def _is_inside(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory if directory == "/" else f"{directory}/")


def _relative(path: str, directory: str) -> str:
    return path[len(directory) :].lstrip("/")


def _join_path(directory: str, name: str) -> str:
    return f"{directory.rstrip('/')}/{name}".rstrip("/") or "/"


def _decoded(field: str) -> str:
    """A field of the table, in which white space and backslashes are octal escapes."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)
