"""Finds the other paths at which mounts show a directory: bind mounts, and mounts of the same file system.

A rule names one path. Each of these paths leads to the same file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
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


class MountTable:
    """Mounts, for questions about many paths."""

    def __init__(self, mounts: Iterable[MountEntry]) -> None:
        """`mounts` are in the order of the kernel's table: a later one hides earlier ones."""
        self._at: dict[str, tuple[int, MountEntry]] = {}
        self._of_device: dict[str, list[MountEntry]] = {}
        for index, each in enumerate(mounts):
            self._at[each.point] = index, each
            self._of_device.setdefault(each.device, []).append(each)

    def aliases(self, path: str) -> list[str]:
        """The other paths of a directory, and the mount points that show a directory in it elsewhere.

        Later mounts may hide some of them.
        """
        mount = self._showing(path)
        if mount is None:
            return []
        shown_path = _join_path(mount.root, _relative(path, mount.point))
        found = []
        for other in self._of_device[mount.device]:
            if _is_inside(shown_path, other.root):
                alias = _join_path(other.point, _relative(shown_path, other.root))
                found += [alias] * (alias != path)
            elif _is_inside(other.root, shown_path):
                own_place = _join_path(mount.point, _relative(other.root, mount.root))
                found += [other.point] * (other.point != own_place)
        return found

    def _showing(self, path: str) -> MountEntry | None:
        """The mount that shows a path: the last of those at it or above it."""
        found, end = [self._at["/"]] if "/" in self._at else [], len(path)
        while end > 0:
            if path[:end] in self._at:
                found.append(self._at[path[:end]])
            end = path.rfind("/", 0, end)
        return max(found)[1] if found else None


def join_aliases(aliases: Iterable[str]) -> str:
    """Absolute paths as one text, in which a slash separates them, as a name may have a line break in it."""
    return "/".join(aliases)


def split_aliases(text: str) -> list[str]:
    """The paths of which `join_aliases` made a text."""
    return re.findall(r"(/[^/]*(?:/[^/]+)*)(?:/|\Z)", text)


def _is_inside(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory if directory == "/" else f"{directory}/")


def _relative(path: str, directory: str) -> str:
    return path[len(directory) :].lstrip("/")


def _join_path(directory: str, name: str) -> str:
    return f"{directory.rstrip('/')}/{name}".rstrip("/") or "/"


def _decoded(field: str) -> str:
    """A field of the table, in which white space and backslashes are octal escapes."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)
