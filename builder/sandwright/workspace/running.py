"""Finds the changes in a copy while a run works in it, for programs of this run. Nothing is written.

Names can disappear or be replaced at any moment. An unreadable path is then a change with a reason. Only a
file of the size that was copied is read: a file of another size has changed. The launcher's placeholders are
no changes.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat

from sandwright.errors import HostError
from sandwright.questions import COVERED_TEXTS, may_be_placeholder
from sandwright.rootfs.unpacking.removal import OPEN_DIRECTORY
from sandwright.workspace.base import Base
from sandwright.workspace.below import CHUNK, LARGEST, OPEN_FILE, closing, kind_of, stamp_of, text_digest
from sandwright.workspace.changes import Change, CopyComparison, NewEntry
from sandwright.workspace.store import Workspace


def running_changes(workspace: Workspace, base: Base) -> list[Change]:
    """All changes so far, by path, of which the base was read. Raise HostError as `compare` does."""
    try:
        with closing(os.open(workspace.tree, OPEN_DIRECTORY)) as root:
            return _RunningComparison(base).changes(root)
    except OSError as error:
        raise HostError(f"cannot read {workspace.tree}: {error.strerror}") from error


class _RunningComparison(CopyComparison):
    """One walk through a copy in which programs work: a directory closed by its mode stays closed."""

    def opened(self, directory: int, name: str, mode: int) -> contextlib.AbstractContextManager[int]:  # noqa: ARG002
        return closing(os.open(name, OPEN_DIRECTORY, dir_fd=directory))

    def compare_directory(self, directory: int, name: str, path: bytes, depth: int) -> None:
        if path not in self.base and _is_empty_placeholder(directory, name):
            self.pass_over(path)
        else:
            super().compare_directory(directory, name, path, depth)

    def look(self, directory: int, name: str, path: bytes, status: os.stat_result) -> NewEntry | None:
        if path not in self.base and _is_empty_placeholder(directory, name):
            return None
        try:
            return self._state_now(directory, name, path, status)
        except FileNotFoundError:
            return None
        except OSError as error:
            problem = f"it cannot be read: {error.strerror}"
            return NewEntry(kind_of(status.st_mode), stat.S_IMODE(status.st_mode), 0, problem=problem)

    def _state_now(self, directory: int, name: str, path: bytes, status: os.stat_result) -> NewEntry:
        kind, mode, size = kind_of(status.st_mode), stat.S_IMODE(status.st_mode), status.st_size
        if kind == "symlink":
            text = os.readlink(os.fsencode(name), dir_fd=directory)
            return NewEntry(kind, mode, len(text), text, text_digest(text), stamp_of(status))
        if kind != "file":
            return NewEntry(kind, mode, 0)
        if size > LARGEST:
            return NewEntry(kind, mode, size, problem=f"it is larger than {LARGEST >> 30} GiB")
        old = self.base.get(path)
        if old is None or old.kind != "file" or old.size != size:
            return NewEntry(kind, mode, size)
        with closing(os.open(name, OPEN_FILE, dir_fd=directory)) as fd:
            return NewEntry(kind, mode, size, digest=_digest_of(fd, size))


def _is_empty_placeholder(directory: int, name: str) -> bool:
    """As `questions.is_placeholder` says, without a path that a program could exchange for a link."""
    try:
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if not may_be_placeholder(name, status):
            return False
        flags = OPEN_DIRECTORY if stat.S_ISDIR(status.st_mode) else OPEN_FILE
        with closing(os.open(name, flags, dir_fd=directory)) as fd:
            if stat.S_ISDIR(os.fstat(fd).st_mode):
                with os.scandir(fd) as entries:
                    return next(entries, None) is None
            return stat.S_ISREG(os.fstat(fd).st_mode) and os.read(fd, 3) in COVERED_TEXTS
    except OSError:
        return False


def _digest_of(fd: int, size: int) -> str:
    """The SHA-256 of a file of a size, empty for another one: a program may be writing it."""
    digest, length = hashlib.sha256(), 0
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        return ""
    while length <= size and (piece := os.read(fd, CHUNK)):
        digest.update(piece)
        length += len(piece)
    return digest.hexdigest() if length == size else ""
