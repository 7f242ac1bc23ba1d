"""Makes, replaces and removes one file of a project, so that no edit of the host is lost.

A new file appears by link(2), which replaces nothing. A file is replaced by an exchange of two names: the old
file is compared once more afterwards, and exchanged back if the host edited it at the last moment or has it
open for writing. On file systems that can't exchange names, a file is compared as late as possible, and
replaced by rename.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple, Protocol

from sandwright.streams import write_all
from sandwright.workspace.below import (
    LARGEST,
    OPEN_FILE,
    OpenFolders,
    PathState,
    closing,
    copied_mode,
    file_digest,
    open_locked,
    state_at,
    text_digest,
)
from sandwright.workspace.exchange import Unsupported, exchange, hold_off_writers, rename_new
from sandwright.workspace.filecopy import NEW_FILE, copy_content

CHANGED = "it was changed in the project, too"
MADE = "it was made in the project, too"
_STALE = "it was changed after it was compared"
_NO_TMPFILE = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT)


class Slot(NamedTuple):
    """A name in an open directory of the project, its path, and a temporary name."""

    parent: int
    name: bytes
    path: bytes
    part: bytes


class Source(Protocol):
    """A source of new content. Both methods raise OSError if the file is gone."""

    def content(self, path: bytes) -> tuple[int, int]:
        """A descriptor of a file, which the caller closes, and the time of its last write in ns."""

    def link(self, path: bytes) -> tuple[bytes, int]:
        """The text of a link, and the time of its last write in ns."""


class TreeSource:
    """The files below an open directory. `contents` replaces the content of some."""

    def __init__(self, root: int, contents: Mapping[bytes, bytes] = MappingProxyType({})) -> None:
        self._folders = OpenFolders(root)
        self._contents = contents

    def content(self, path: bytes) -> tuple[int, int]:
        """An open file."""
        if path in self._contents:
            fd = os.memfd_create("content")
            write_all(fd, self._contents[path])
            os.lseek(fd, 0, os.SEEK_SET)
            return fd, time.time_ns()
        parent, name = self._folders.parent(path)
        fd = open_locked(_there(parent), name, OPEN_FILE)
        return fd, os.fstat(fd).st_mtime_ns

    def link(self, path: bytes) -> tuple[bytes, int]:
        """A link's text."""
        parent, name = self._folders.parent(path)
        status = os.stat(name, dir_fd=_there(parent), follow_symlinks=False)
        return os.readlink(name, dir_fd=parent), status.st_mtime_ns

    def state(self, path: bytes) -> PathState:
        """The state of a path."""
        parent, name = self._folders.parent(path)
        state = state_at(_there(parent), name)
        return state or PathState("file", 0)

    def close(self) -> None:
        """Close the directory that was used last."""
        self._folders.close()


def _there(parent: int | None) -> int:
    if parent is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    return parent


class ChangeRules:
    """Decides which paths count as unchanged, and which mode and time a new file gets."""

    keeps_times = True
    """Whether a new file has the time of its source, and not of now."""

    def is_same(self, found: PathState | None, expected: PathState | None) -> bool:
        """Whether a path has the expected state. The mode of a link is ignored."""
        if found is None or expected is None:
            return found is expected
        if (found.kind, found.digest) != (expected.kind, expected.digest):
            return False
        if found.kind == "file" and not found.digest:
            return False  # it can't be read, so it may be anything
        return found.kind == "symlink" or not copied_mode(found.mode ^ expected.mode, found.kind)

    def mode_for(self, after: PathState, before: os.stat_result | None) -> int:
        """The mode of a new or replaced file. It never has set-id bits."""
        del before
        return copied_mode(after.mode, after.kind)


class Replacing:
    """Replaces files by those of a source.

    The methods give the reason why a path was not changed; empty if it was.
    """

    def __init__(self, source: Source, rules: ChangeRules) -> None:
        self._source = source
        self._rules = rules

    def create(self, slot: Slot, after: PathState) -> str:
        """Make a new file or link, with its content, in one step."""
        try:
            made = self._prepare_file(slot, after, None)
            if made is None:
                return _STALE
            if made < 0:
                try:
                    os.link(
                        slot.part,
                        slot.name,
                        src_dir_fd=slot.parent,
                        dst_dir_fd=slot.parent,
                        follow_symlinks=False,
                    )
                finally:
                    unlink_at(slot.parent, slot.part)
            else:
                with closing(made):
                    _link_open(made, slot.parent, slot.name)
        except FileExistsError:
            return MADE
        return ""

    def replace(self, slot: Slot, before: PathState, after: PathState) -> str:
        """Replace a file or link by a new one, if it is unchanged."""
        made = self._prepare_file(slot, after, os.stat(slot.name, dir_fd=slot.parent, follow_symlinks=False))
        if made is None:
            return _STALE
        if made >= 0:
            with closing(made):
                _link_open(made, slot.parent, slot.part)
        try:
            exchange(slot.parent, slot.part, slot.name)
        except Unsupported:
            return self._replace_late(slot, before)
        except OSError:
            unlink_at(slot.parent, slot.part)
            raise
        return "" if self.unlink_verified(slot, before) else self._put_back(slot, before, after)

    def _put_back(self, slot: Slot, before: PathState, after: PathState) -> str:
        """Exchange the names again: the old file has an edit of the host, made at the last moment."""
        exchange(slot.parent, slot.part, slot.name)
        if self.unlink_verified(slot, after):
            return CHANGED
        exchange(slot.parent, slot.part, slot.name)  # the host has edited the new file, too, and later
        return CHANGED if self.unlink_verified(slot, before) else _other_version(slot)

    def _replace_late(self, slot: Slot, before: PathState) -> str:
        """Compare once more, as late as possible, and rename."""
        if self._rules.is_same(state_at(slot.parent, slot.name), before):
            os.rename(slot.part, slot.name, src_dir_fd=slot.parent, dst_dir_fd=slot.parent)
            return ""
        unlink_at(slot.parent, slot.part)
        return CHANGED

    def remove(self, slot: Slot, before: PathState) -> str:
        """Remove a file: rename it first, and compare it once more under a name that only we know."""
        try:
            rename_new(slot.parent, slot.name, slot.part)
        except Unsupported:
            os.unlink(slot.name, dir_fd=slot.parent)
            return ""
        if self.unlink_verified(slot, before):
            return ""
        try:
            rename_new(slot.parent, slot.part, slot.name)
        except FileExistsError:
            return _other_version(slot)
        return CHANGED

    def set_mode(self, slot: Slot, before: PathState, after: PathState) -> str:
        """Change only a file's mode, in place: concurrent writes of the host are kept."""
        with closing(os.open(slot.name, OPEN_FILE, dir_fd=slot.parent)) as fd:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode) or copied_mode(status.st_mode ^ before.mode, "file"):
                return CHANGED
            os.fchmod(fd, self._rules.mode_for(after, status))
        return ""

    def unlink_verified(self, slot: Slot, expected: PathState) -> bool:
        """Unlink a part if it is as expected and no process has it open for writing; true if it was."""
        status = os.stat(slot.part, dir_fd=slot.parent, follow_symlinks=False)
        if not stat.S_ISREG(status.st_mode) or expected.kind != "file":
            same = self._rules.is_same(state_at(slot.parent, slot.part), expected)
            if same and not stat.S_ISDIR(status.st_mode):
                os.unlink(slot.part, dir_fd=slot.parent)
            return same
        found = PathState("file", stat.S_IMODE(status.st_mode), expected.digest)
        if not self._rules.is_same(found, expected):
            return False
        try:
            fd = open_locked(slot.parent, slot.part, OPEN_FILE)
        except OSError:
            return False
        with closing(fd):
            if not hold_off_writers(fd) or file_digest(fd) != expected.digest:
                return False
            os.unlink(slot.part, dir_fd=slot.parent)
        return True

    def _prepare_file(self, slot: Slot, after: PathState, before: os.stat_result | None) -> int | None:
        """Prepare the new file, and give its descriptor.

        It has no name; give -1 if it has that of the part, and None if the content is not the expected one.
        """
        owner = os.fstat(slot.parent) if before is None else before
        try:
            if after.kind == "symlink":
                return self._make_link(slot, after, owner)
            source, time = self._source.content(slot.path)
        except FileNotFoundError:
            return None
        with closing(source), contextlib.ExitStack() as stack:
            if os.fstat(source).st_size > LARGEST:
                return None
            fd, is_named = _new_file(slot)
            stack.callback(os.close, fd)
            if is_named:
                stack.callback(unlink_at, slot.parent, slot.part)
            if copy_content(source, fd, os.fstat(source)) != after.digest:
                return None
            if os.geteuid() == 0:
                os.fchown(fd, owner.st_uid, owner.st_gid)
            os.fchmod(fd, self._rules.mode_for(after, before))
            if self._rules.keeps_times:
                os.utime(fd, ns=(time, time))
            stack.pop_all()
        if is_named:
            os.close(fd)
        return -1 if is_named else fd

    def _make_link(self, slot: Slot, after: PathState, owner: os.stat_result) -> int | None:
        text, time = self._source.link(slot.path)
        if text_digest(text) != after.digest:
            return None
        os.symlink(text, slot.part, dir_fd=slot.parent)
        if os.geteuid() == 0:
            os.chown(slot.part, owner.st_uid, owner.st_gid, dir_fd=slot.parent, follow_symlinks=False)
        if self._rules.keeps_times:
            os.utime(slot.part, ns=(time, time), dir_fd=slot.parent, follow_symlinks=False)
        return -1


def _new_file(slot: Slot) -> tuple[int, bool]:
    """A new file in the slot's directory, and whether it has the part's name.

    It has no name if the system supports that.
    """
    if hasattr(os, "O_TMPFILE"):
        try:
            return os.open(b".", os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600, dir_fd=slot.parent), False
        except OSError as error:
            if error.errno not in _NO_TMPFILE:
                raise
    return os.open(slot.part, NEW_FILE, 0o600, dir_fd=slot.parent), True


def _link_open(fd: int, parent: int, name: bytes) -> None:
    """Give an open file without a name its first name (open(2), O_TMPFILE)."""
    os.link(f"/proc/self/fd/{fd}", name, dst_dir_fd=parent, follow_symlinks=True)


def _other_version(slot: Slot) -> str:
    return f"{CHANGED}; another version is in {os.fsdecode(slot.part)}"


def unlink_at(parent: int, name: bytes) -> None:
    """Unlink a name of an open directory, if it is there."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=parent)
