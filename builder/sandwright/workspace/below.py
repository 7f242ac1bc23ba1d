"""Opens and reads files in untrusted trees: one name at a time in an open directory, no link followed."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from sandwright.questions import EntryKind
from sandwright.rootfs.unpacking.removal import OPEN_DIRECTORY

OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
DEEPEST = 250
"""The most nested directories of a walk. Each needs a descriptor or two; a process may have 1,024."""

LARGEST = 1 << 36
"""The most bytes of a file that is read. A program may make a sparse file of exabytes, whose digest takes
years."""

CHUNK = 1 << 20
_NO_NAMES = (b"", b".", b"..")
_REPLACED = (
    errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EINVAL, errno.EEXIST, errno.ENOTEMPTY,
    errno.ENXIO, errno.EACCES, errno.EPERM,
)  # fmt: skip
_LOOK = getattr(os, "O_PATH", 0) | os.O_NOFOLLOW | os.O_CLOEXEC
_KINDS: dict[int, EntryKind] = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "directory",
    stat.S_IFLNK: "symlink",
    stat.S_IFSOCK: "socket",
    stat.S_IFIFO: "fifo",
}

Stamp = tuple[int, int, int, int, int]
"""Device, inode, size, time of the last write and of the last change, in ns. Programs can't set the last."""

UNKNOWN: Stamp = (0, 0, 0, 0, 0)
"""The stamp that matches no file: a file whose recorded stamp is this one is compared by its content."""


class PathState(NamedTuple):
    """The state of a path: its kind, its mode, and the SHA-256 of its content or link text, in hexadecimal.

    The digest is empty for kinds other than files and links.
    """

    kind: EntryKind
    mode: int
    digest: str = ""


def stamp_of(status: os.stat_result) -> Stamp:
    """The stamp of a file, from its status."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def kind_of(mode: int) -> EntryKind:
    """The kind of a file, from its mode; unknown kinds count as devices."""
    return _KINDS.get(stat.S_IFMT(mode), "device")


def copied_mode(mode: int, kind: EntryKind) -> int:
    """The permissions that a copy has: without set-id bits, and the sticky bit of directories only."""
    return mode & (0o1777 if kind == "directory" else 0o777)


def status_at(parent: int, name: bytes | str) -> os.stat_result | None:
    """The status of a name in an open directory, None for nothing."""
    try:
        return os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None


def may_be_replaced(error: OSError) -> bool:
    """Whether an error can mean that a path was replaced a moment ago, and not that the disk fails.

    ELOOP: it is a link now. EINVAL: it is no link any more. ENXIO: it is a socket.
    """
    return error.errno in _REPLACED


def try_open(directory: int, name: bytes | str, flags: int) -> int:
    """Open a file; give -1 if that fails."""
    try:
        return os.open(name, flags, dir_fd=directory)
    except OSError:
        return -1


class closing:  # noqa: N801 - as contextlib's
    """Closes a descriptor at the end of a `with`, and gives it."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def __enter__(self) -> int:
        return self._fd

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)


def open_below(root: int, path: bytes) -> int | None:
    """A directory below an open one, no link followed; None where there is none. The caller closes it."""
    held = os.dup(root)
    for name in filter(None, path.split(b"/")):
        inner = -1 if name in _NO_NAMES else try_open(held, name, OPEN_DIRECTORY)
        os.close(held)
        if inner < 0:
            return None
        held = inner
    return held


def open_plain(parent: int, name: bytes | str, flags: int) -> int:
    """Open a file whose mode allows it. Raise OSError."""
    return os.open(name, flags, dir_fd=parent)


def open_locked(parent: int, name: bytes | str, flags: int) -> int:
    """Open a file of ours for reading, also one whose mode forbids that; the mode stays.

    Raise OSError as open(2) does. No program may be working in the directory.
    """
    try:
        return os.open(name, flags, dir_fd=parent)
    except PermissionError:
        with closing(os.open(name, _LOOK, dir_fd=parent)) as seen:
            status = os.fstat(seen)
            if status.st_uid != os.geteuid() or kind_of(status.st_mode) != "file":
                raise
            itself = Path(f"/proc/self/fd/{seen}")  # what chmod takes for an O_PATH descriptor
            itself.chmod(stat.S_IMODE(status.st_mode) | stat.S_IRUSR)
            try:
                return os.open(name, flags, dir_fd=parent)
            finally:
                itself.chmod(stat.S_IMODE(status.st_mode))


@contextlib.contextmanager
def unlocked(parent: int, name: bytes | str) -> Iterator[int]:
    """Open a directory of ours, also one whose mode forbids it.

    It can be searched until it is closed; then it gets its mode again. Raise OSError as open(2) does. No
    program may be working in it.
    """
    with closing(os.open(name, _LOOK | os.O_DIRECTORY, dir_fd=parent)) as seen:
        status = os.fstat(seen)
        mode = stat.S_IMODE(status.st_mode)
        is_closed = mode & 0o500 != 0o500 and status.st_uid == os.geteuid()
        itself = Path(f"/proc/self/fd/{seen}")  # what chmod takes for an O_PATH descriptor
        if is_closed:
            itself.chmod(mode | 0o500)
        try:
            with closing(os.open(name, OPEN_DIRECTORY, dir_fd=parent)) as fd:
                yield fd
        finally:
            if is_closed:
                itself.chmod(mode)


def file_digest(fd: int) -> str:
    """The SHA-256 of an open file, in hexadecimal. Raise OSError."""
    digest = hashlib.sha256()
    while piece := os.read(fd, CHUNK):
        digest.update(piece)
    return digest.hexdigest()


def text_digest(text: bytes) -> str:
    """The SHA-256 of a link's text, in hexadecimal."""
    return hashlib.sha256(text).hexdigest()


def state_at(parent: int, name: bytes) -> PathState | None:
    """The state of a name in an open directory; None for nothing.

    The digest is empty if the file can't be read, or was replaced before it was opened. Raise OSError.
    """
    status = status_at(parent, name)
    if status is None:
        return None
    kind, mode = kind_of(status.st_mode), stat.S_IMODE(status.st_mode)
    try:
        if kind == "symlink":
            return PathState(kind, mode, text_digest(os.readlink(name, dir_fd=parent)))
        if kind != "file":
            return PathState(kind, mode)
        fd = os.open(name, OPEN_FILE, dir_fd=parent)
    except OSError:
        return PathState(kind, mode)
    with closing(fd):
        status = os.fstat(fd)
        readable = stat.S_ISREG(status.st_mode) and status.st_size <= LARGEST
        return PathState(kind, stat.S_IMODE(status.st_mode), file_digest(fd) if readable else "")


class OpenFolders:
    """The directories below an open one, by path; the last one stays open until the next is needed."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._path: bytes | None = None
        self._fd: int | None = None

    def parent(self, path: bytes) -> tuple[int | None, bytes]:
        """The open directory of a path, None where there is none; and the name in it."""
        folder, _, name = path.rpartition(b"/")
        if folder != self._path or self._fd is None:
            self.close()
            self._path, self._fd = folder, self.open(folder)
        return None if name in _NO_NAMES else self._fd, name

    def folder(self, path: bytes) -> int | None:
        """A directory, open, if it is there."""
        return self.parent(path + b"/.x")[0]

    def open(self, folder: bytes) -> int | None:
        """Open a directory."""
        return open_below(self._root, folder)

    def close(self) -> None:
        """Let go of the open directory."""
        if self._fd is not None:
            os.close(self._fd)
        self._path = self._fd = None


def parents(path: bytes) -> Iterator[bytes]:
    """The directories above a path, from the top."""
    at = path.find(b"/")
    while at > 0:
        yield path[:at]
        at = path.find(b"/", at + 1)


def has_parent_in(path: bytes, roots: set[bytes]) -> bool:
    """Whether a directory above a path is one of some."""
    return any(each in roots for each in parents(path))
