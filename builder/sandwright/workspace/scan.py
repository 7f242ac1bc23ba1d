"""Lists the files that a project has now, through open directories, without paths that the policy hides."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from sandwright.questions import is_placeholder, may_be_placeholder
from sandwright.rootfs.unpacking.removal import OPEN_DIRECTORY
from sandwright.workspace.below import DEEPEST, LARGEST, closing, kind_of, try_open

Hidden = Callable[[str], bool]
"""Tells whether the policy denies an absolute path. Everything below a hidden directory is hidden."""


@dataclass
class ScannedProject:
    """The status of each visible path, directories before their entries; and the paths that are left out."""

    found: dict[bytes, os.stat_result] = field(default_factory=dict)
    left_out: list[tuple[bytes, str]] = field(default_factory=list)

    @property
    def linked(self) -> int:
        """The number of files with further names (hard links) that are not among the paths."""
        files = [each for each in self.found.values() if stat.S_ISREG(each.st_mode) and each.st_nlink > 1]
        names = Counter((each.st_dev, each.st_ino) for each in files)
        return sum(each.st_nlink > names[each.st_dev, each.st_ino] for each in files)


def scan_project(root: int, project: str, hidden: Hidden) -> ScannedProject:
    """Walk an open project, whose absolute path is `project`. Raise OSError."""
    walk = _Scanning(project.rstrip("/") + "/", hidden, os.fstat(root).st_dev)
    walk.enter(root, b"", 0)
    return walk.scanned


class _Scanning:
    """One walk."""

    def __init__(self, start: str, hidden: Hidden, device: int) -> None:
        self.scanned = ScannedProject()
        self._start = start
        self._hidden = hidden
        self._device = device

    def enter(self, directory: int, path: bytes, depth: int) -> None:
        """All of an open directory."""
        start = path + b"/" if path else b""
        prefix = self._start + os.fsdecode(start)
        folders: list[tuple[str, bytes]] = []
        with os.scandir(directory) as entries:
            for entry in entries:
                if self._hidden(prefix + entry.name):
                    continue
                status = entry.stat(follow_symlinks=False)
                inner = start + os.fsencode(entry.name)
                problem = self._why_left_out(directory, entry.name, status, depth)
                if problem is not None:
                    self.scanned.left_out += [(inner, problem)] if problem else []
                    continue
                self.scanned.found[inner] = status
                if stat.S_ISDIR(status.st_mode):
                    folders.append((entry.name, inner))
        for name, inner in folders:
            if (below := try_open(directory, name, OPEN_DIRECTORY)) < 0:
                del self.scanned.found[inner]
                self.scanned.left_out.append((inner, "it cannot be read"))
                continue
            with closing(below):
                self.enter(below, inner, depth + 1)

    def _why_left_out(self, directory: int, name: str, status: os.stat_result, depth: int) -> str | None:
        """The reason why a file is not copied, empty for a launcher's placeholder; None if it is copied."""
        kind = kind_of(status.st_mode)
        if kind not in ("file", "directory", "symlink"):
            return f"it is a {kind}"
        if status.st_dev != self._device:
            return "it is on another file system"
        if kind == "file" and status.st_size > LARGEST:
            return f"it is larger than {LARGEST >> 30} GiB"
        if kind == "directory" and depth >= DEEPEST:
            return f"it is deeper than {DEEPEST} directories"
        if not may_be_placeholder(name, status):
            return None
        return "" if is_placeholder(f"/proc/self/fd/{directory}/{name}", status) else None
