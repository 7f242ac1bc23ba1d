"""Copies chosen paths of a root file system into a new one, with all metadata of their inodes."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sandwright.errors import HostError
from sandwright.rootfs.securejoin import Root
from sandwright.rootfs.tar.entry import show

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_COPY = 1 << 24
_NOT_HERE = (errno.ENOSYS, errno.EINVAL, errno.EXDEV, errno.EOPNOTSUPP)
"""The errors of copy_file_range(2) on kernels and file systems that don't have it."""

_HOSTS_OWN = "security.selinux"
_FOR_ROOT = ("security.", "trusted.")


@dataclass(frozen=True)
class Copied:
    """The amount of copied data: files and links, and the bytes of all files, each inode once."""

    files: int
    bytes: int


def copy_paths(source: Root, paths: Iterable[bytes], destination: Path) -> Copied:
    """Make `destination`, a new directory, with `paths` of `source` in it and the directories above them.

    Paths are absolute and free of links but for their last component. A directory comes without its
    entries. Raise HostError when the disk is full or the caller may not create such a file.
    """
    destination.mkdir(mode=0o700)
    with Root(destination) as target:
        copying = _Copying(source, target)
        try:
            for path in sorted(set(paths)):
                copying.copy(path)
            copying.finish()
        except OSError as error:
            what = "the disk is full" if error.errno == errno.ENOSPC else error.strerror
            raise HostError(f"{destination}: {show(copying.current)}: {what}") from error
    return Copied(copying.files, copying.bytes)


class _Copying:
    """One copy under way. `current` is the path at hand."""

    def __init__(self, source: Root, target: Root) -> None:
        self.current = b"/"
        self.files = 0
        self.bytes = 0
        self._source = source
        self._target = target
        self._made = {b"/"}
        self._inodes: dict[tuple[int, int], bytes] = {}

    def copy(self, path: bytes) -> None:
        folder, _, name = path.rpartition(b"/")
        self._directories(folder)
        self.current = path
        with self._source.parent(path, follow=False) as (from_fd, from_name, resolved):
            if resolved.status is None or resolved.path != path:
                raise FileNotFoundError(errno.ENOENT, "changed while it was copied")
            if resolved.is_directory:
                self._directories(path)
                return
            with self._target.parent(folder or b"/") as (to_fd, _, _):
                self._one(from_fd, from_name, to_fd, name, resolved.status)
        self.files += 1

    def finish(self) -> None:
        """Give the directories their times and modes, which new files would change, the deepest first."""
        for path in sorted(
            self._made, key=lambda path: path.count(b"/") if path != b"/" else 0, reverse=True
        ):
            self.current = path
            with (
                _open_parent_directory(self._source, path) as old,
                _open_parent_directory(self._target, path) as new,
            ):
                _dress(old, new)

    def _directories(self, path: bytes) -> None:
        """Make a directory and those above it."""
        parts = path.strip(b"/").split(b"/")
        for depth in range(len(parts)):
            above, here = b"/" + b"/".join(parts[:depth]), b"/" + b"/".join(parts[: depth + 1])
            if parts[depth] and here not in self._made:
                with self._target.parent(above) as (fd, _, _):
                    os.mkdir(parts[depth], 0o700, dir_fd=fd)
                self._made.add(here)

    def _one(self, from_fd: int, from_name: bytes, to_fd: int, name: bytes, status: os.stat_result) -> None:
        key = (status.st_dev, status.st_ino)
        if status.st_nlink > 1 and key in self._inodes:
            with self._target.parent(self._inodes[key], follow=False) as (fd, twin, _):
                os.link(twin, name, src_dir_fd=fd, dst_dir_fd=to_fd, follow_symlinks=False)
            return
        self._inodes[key] = self.current
        if stat.S_ISREG(status.st_mode):
            self.bytes += status.st_size
            with (
                _opened_at(
                    from_name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, from_fd
                ) as old,
                _opened_at(name, _NEW_FILE, to_fd) as new,
            ):
                _copy_content(old, new, status.st_size)
                _dress(old, new)
            return
        if stat.S_ISLNK(status.st_mode):
            os.symlink(os.readlink(from_name, dir_fd=from_fd), name, dir_fd=to_fd)
        else:
            os.mknod(name, status.st_mode, status.st_rdev, dir_fd=to_fd)
            os.chmod(name, stat.S_IMODE(status.st_mode), dir_fd=to_fd)
        _copy_owner(name, to_fd, status)
        os.utime(name, ns=(status.st_atime_ns, status.st_mtime_ns), dir_fd=to_fd, follow_symlinks=False)


def _copy_content(old: int, new: int, size: int) -> None:
    """The bytes, inside the kernel: file systems that can share blocks do."""
    done = 0
    copy: Callable[[int, int, int], int] = os.copy_file_range
    while done < size:
        try:
            count = copy(old, new, min(_COPY, size - done))
        except OSError as error:
            if error.errno not in _NOT_HERE or done:
                raise
            copy = _send
            continue
        if count == 0:
            raise OSError(errno.EIO, "it became shorter while it was copied")
        done += count


def _send(old: int, new: int, count: int) -> int:
    return os.sendfile(new, old, None, count)


def _dress(old: int, new: int) -> None:
    """Give an open file the owner, xattrs, mode and time of another, in the order that keeps them."""
    status = os.fstat(old)
    _copy_owner(new, None, status)
    for name in os.listxattr(old):
        if name != _HOSTS_OWN and (os.geteuid() == 0 or not name.startswith(_FOR_ROOT)):
            os.setxattr(new, name, os.getxattr(old, name))
    os.fchmod(new, stat.S_IMODE(status.st_mode))
    os.utime(new, ns=(status.st_atime_ns, status.st_mtime_ns))


def _copy_owner(what: int | bytes, dir_fd: int | None, status: os.stat_result) -> None:
    """Only root can give files away; for others they are their own already."""
    if os.geteuid() != 0:
        return
    if isinstance(what, int):
        os.chown(what, status.st_uid, status.st_gid)
    else:
        os.chown(what, status.st_uid, status.st_gid, dir_fd=dir_fd, follow_symlinks=False)


@contextlib.contextmanager
def _opened_at(name: bytes, flags: int, dir_fd: int) -> Iterator[int]:
    fd = os.open(name, flags, 0o600, dir_fd=dir_fd)
    try:
        yield fd
    finally:
        os.close(fd)


@contextlib.contextmanager
def _open_parent_directory(root: Root, path: bytes) -> Iterator[int]:
    with root.parent(path) as (parent, name, _), _opened_at(name, _LIST, parent) as fd:
        yield fd
