"""Finds the changes that runs made in a workspace's copy, by comparing it with the copied state.

A file with the recorded stamp is unchanged, because no program can set the time of its last change. Other
files are read. The tree is hostile, so a path that can't be read or is too deep is a change with a reason.
"""

from __future__ import annotations

import contextlib
import os
import stat
from dataclasses import dataclass
from typing import Literal, NamedTuple

from sandwright.errors import HostError
from sandwright.questions import EntryKind
from sandwright.rootfs.unpacking.removal import OPEN_DIRECTORY
from sandwright.workspace.base import STAMP, Base, Entry, read_base
from sandwright.workspace.below import (
    DEEPEST,
    LARGEST,
    OPEN_FILE,
    UNKNOWN,
    PathState,
    Stamp,
    closing,
    file_digest,
    kind_of,
    open_locked,
    stamp_of,
    status_at,
    text_digest,
    unlocked,
)
from sandwright.workspace.store import Workspace, open_tree

MOST = 5_000_000
"""The most entries of a tree that are compared."""

ChangeKind = Literal["added", "changed", "deleted", "mode"]


class NewEntry(NamedTuple):
    """The state of a path in the copy now. `link` is the text of a symbolic link, None for everything else.

    `digest` is the SHA-256 of a file's content or of the link's text; it is empty for other kinds, and where
    `problem` says why a file or directory was not read. `mode` may have set-id bits.
    """

    kind: EntryKind
    mode: int
    size: int
    link: bytes | None = None
    digest: str = ""
    stamp: Stamp = UNKNOWN
    problem: str = ""

    @property
    def state(self) -> PathState:
        """The comparable state of the path."""
        return PathState(self.kind, self.mode, self.digest)


@dataclass(frozen=True)
class Change:
    """One path that differs: `old` is None for an added one, `new` for a deleted one."""

    path: bytes
    kind: ChangeKind
    old: Entry | None
    new: NewEntry | None


def changes(workspace: Workspace, *, reads_new: bool = True) -> list[Change]:
    """All changes of a workspace, by path; none if nothing was copied yet. `reads_new` as for `compare`.

    Raise HostError if the copy or its base can't be read, or has more than `MOST` entries.
    """
    try:
        base = read_base(workspace)
    except FileNotFoundError:
        return []
    return compare(workspace, base, reads_new=reads_new)


def compare(workspace: Workspace, base: Base, *, reads_new: bool = True) -> list[Change]:
    """The changes of a workspace, of which the base was read; with `reads_new` off, as `NameComparison`."""
    try:
        with closing(open_tree(workspace)) as root:
            return (CopyComparison if reads_new else NameComparison)(base).changes(root)
    except OSError as error:
        raise HostError(f"cannot read {workspace.tree}: {error.strerror}") from error


class CopyComparison:
    """One walk through a copy. No program may be working in it."""

    def __init__(self, base: Base) -> None:
        self.base = base
        self._packed = base.packed
        self._seen: set[bytes] = set()
        self._unread: list[bytes] = []
        self._found: list[Change] = []

    def changes(self, root: int) -> list[Change]:
        """The changes in an open copy. Raise OSError, HostError for too many files."""
        self._walk_directory(root, b"", 0)
        return self._sorted_changes()

    def opened(self, directory: int, name: str, mode: int) -> contextlib.AbstractContextManager[int]:
        """Open a directory of the copy."""
        if mode & 0o500 == 0o500:
            return closing(os.open(name, OPEN_DIRECTORY, dir_fd=directory))
        return unlocked(directory, name)

    def look(self, directory: int, name: str, path: bytes, status: os.stat_result) -> NewEntry | None:  # noqa: ARG002
        """The state of a path that is not a directory; None if it is gone."""
        return look_at(directory, os.fsencode(name), status)

    def pass_over(self, path: bytes) -> None:
        """Take a path as gone."""
        self._seen.discard(path)

    def _sorted_changes(self) -> list[Change]:
        """The changes, with removed paths. Paths below an unread directory are unknown, not removed."""
        gone = self._packed.keys() - self._seen
        for folder in self._unread:
            gone = {path for path in gone if not path.startswith(folder + b"/")}
        self._found += [Change(path, "deleted", self.base[path], None) for path in gone]
        return sorted(self._found, key=lambda each: each.path)

    def _walk_directory(self, directory: int, path: bytes, depth: int) -> None:
        """All of an open directory."""
        start = path + b"/" if path else b""
        folders: list[tuple[str, bytes]] = []
        packed, pack, seen = self._packed, STAMP.pack, self._seen
        with os.scandir(directory) as entries:
            for entry in entries:
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                inner = start + os.fsencode(entry.name)
                seen.add(inner)
                record = packed.get(inner)
                if stat.S_ISDIR(status.st_mode):
                    folders.append((entry.name, inner))
                elif record is None or record[-40:] != pack(*stamp_of(status)):
                    self._compare_entry(inner, self.look(directory, entry.name, inner, status))
        if len(seen) > MOST:
            raise HostError(f"the workspace has more than {MOST} files")
        for name, inner in folders:
            self.compare_directory(directory, name, inner, depth)

    def compare_directory(self, directory: int, name: str, path: bytes, depth: int) -> None:
        """Compare a directory with all in it."""
        status = status_at(directory, name)
        if status is None:
            self.pass_over(path)
            return
        new = NewEntry("directory", stat.S_IMODE(status.st_mode), 0)
        if depth >= DEEPEST:
            new = new._replace(problem=f"it is deeper than {DEEPEST} directories")
        else:
            try:
                with self.opened(directory, name, status.st_mode) as inner:
                    self._walk_directory(inner, path, depth + 1)
            except OSError as error:
                new = new._replace(problem=f"it cannot be read: {error.strerror}")
        if new.problem:
            self._unread.append(path)
        self._compare_entry(path, new)

    def _compare_entry(self, path: bytes, new: NewEntry | None) -> None:
        old = self.base.get(path)
        if new is None:
            self.pass_over(path)
        elif old is None:
            self._found.append(Change(path, "added", None, new))
        elif new.problem or (old.kind, old.digest) != (new.kind, new.digest):
            self._found.append(Change(path, "changed", old, new))
        elif old.mode != new.mode and new.kind != "symlink":
            self._found.append(Change(path, "mode", old, new))


class NameComparison(CopyComparison):
    """One walk that does not read new files: their states have no digest."""

    def look(self, directory: int, name: str, path: bytes, status: os.stat_result) -> NewEntry | None:
        """The state of a path; of a new file without its digest."""
        if path in self.base or not stat.S_ISREG(status.st_mode):
            return super().look(directory, name, path, status)
        return NewEntry("file", stat.S_IMODE(status.st_mode), status.st_size, stamp=stamp_of(status))


def look_at(directory: int, name: bytes, status: os.stat_result) -> NewEntry:
    """The state of a name in an open directory that is not a directory itself. Raise OSError."""
    kind, mode = kind_of(status.st_mode), stat.S_IMODE(status.st_mode)
    if kind == "symlink":
        text = os.readlink(name, dir_fd=directory)
        return NewEntry(kind, mode, len(text), text, text_digest(text), stamp_of(status))
    if kind != "file":
        return NewEntry(kind, mode, 0)
    if status.st_size > LARGEST:
        return NewEntry(kind, mode, status.st_size, problem=f"it is larger than {LARGEST >> 30} GiB")
    try:
        fd = open_locked(directory, name, OPEN_FILE)
    except OSError as error:
        return NewEntry(kind, mode, status.st_size, problem=f"it cannot be read: {error.strerror}")
    with closing(fd):
        status = os.fstat(fd)
        digest = file_digest(fd) if stat.S_ISREG(status.st_mode) else ""
    return NewEntry(kind, mode, status.st_size, None, digest, stamp_of(status))
