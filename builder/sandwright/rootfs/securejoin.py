"""Resolves paths in a root file system as after chroot, without entering it.

An absolute link starts again at the root, and `..` stops there. Every step opens one name in an open
directory and follows no link by itself, so links can't lead out of the root (CVE-2024-9676, CVE-2026-55686).
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from sandwright.errors import ArchiveRefused
from sandwright.rootfs.tar.entry import show

MOST_LINKS = 40
"""Links in one path before the kernel gives up (MAXSYMLINKS)."""

DEEPEST = 512
"""The most nested directories of a walk. Each needs a descriptor; a process may have 1,024."""

_PASS = getattr(os, "O_PATH", 0) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


@dataclass(frozen=True)
class ResolvedPath:
    """The target of a path. `path` is absolute and free of links, `..` and `.`; `/` is the root.

    `status` is None when nothing is there; then `path` ends with the unresolved rest as written. `links` are
    the followed symbolic links, in order: absolute paths, free of links but for the last component.
    """

    path: bytes
    status: os.stat_result | None
    links: tuple[bytes, ...] = ()

    @property
    def is_file(self) -> bool:
        """Whether a regular file is there."""
        return self.status is not None and stat.S_ISREG(self.status.st_mode)

    @property
    def is_directory(self) -> bool:
        """Whether a directory is there."""
        return self.status is not None and stat.S_ISDIR(self.status.st_mode)

    @property
    def is_link(self) -> bool:
        """Whether a symbolic link is there, which `locate` did not follow."""
        return self.status is not None and stat.S_ISLNK(self.status.st_mode)

    @property
    def kind(self) -> str:
        """The kind of file, in words."""
        if self.status is None:
            return "nothing"
        return KINDS.get(stat.S_IFMT(self.status.st_mode), "something unknown")


_REASONS = {
    errno.ELOOP: f"leads through more than {MOST_LINKS} links, or in a circle",
    errno.ENAMETOOLONG: "has too long a name, or lies too deep",
}

KINDS = {
    stat.S_IFREG: "a file",
    stat.S_IFDIR: "a directory",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
}


@dataclass
class _Walk:
    """The open directories from the root to the current one, and the names ahead (the next one last)."""

    fds: list[int]
    names: list[bytes]
    ahead: list[bytes]
    links: list[bytes] = field(default_factory=list)

    def path(self, name: bytes = b"") -> bytes:
        return b"/" + b"/".join([*self.names, name] if name else self.names)

    def up(self) -> None:
        if self.names:
            os.close(self.fds.pop())
            self.names.pop()

    def down(self, name: bytes) -> None:
        if len(self.fds) > DEEPEST:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
        self.fds.append(os.open(name, _PASS, dir_fd=self.fds[-1]))
        self.names.append(name)

    def follow(self, name: bytes) -> None:
        """Put the target of the link `name` ahead."""
        self.links.append(self.path(name))
        if len(self.links) > MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        target = os.readlink(name, dir_fd=self.fds[-1])
        self.ahead.extend(reversed(_parts(target)))
        while target.startswith(b"/") and self.names:
            self.up()


class Root:
    """A root file system. A context manager that holds one open directory."""

    def __init__(self, path: Path) -> None:
        """Open the directory `path`, following links in `path` itself."""
        self.name = str(path)
        self.fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self.fd)

    def locate(self, path: bytes, *, follow: bool = True) -> ResolvedPath:
        """Resolve `path`. With `follow` off, a link as its last component is not followed.

        A path through something that is no directory leads to nothing. Raise ArchiveRefused for links
        that loop.
        """
        with self._walk_components(path, follow=follow) as (walk, name, status):
            return ResolvedPath(walk.path(name), status, tuple(walk.links))

    @contextlib.contextmanager
    def parent(self, path: bytes, *, follow: bool = True) -> Iterator[tuple[int, bytes, ResolvedPath]]:
        """The open directory that holds the target of `path`, its name in there, and the place itself.

        For a directory that is the directory itself and `.`. The descriptor is good for the `dir_fd` of other
        calls only (O_PATH). When a directory on the way is missing, raise FileNotFoundError.
        """
        with self._walk_components(path, follow=follow) as (walk, name, status):
            resolved = ResolvedPath(walk.path(name), status, tuple(walk.links))
            if b"/" in name:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), show(path))
            yield walk.fds[-1], name or b".", resolved

    def open(self, path: bytes) -> int:
        """A file descriptor of the regular file that `path` leads to, for reading.

        Nothing else is opened, not even for a moment: opening a FIFO waits, opening a device acts. Raise
        FileNotFoundError when nothing is there, ArchiveRefused for anything but a regular file.
        """
        with self.parent(path) as (fd, name, resolved):
            if resolved.status is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), show(path))
            if not resolved.is_file:
                raise ArchiveRefused(f"{show(path)} in {self.name} is {resolved.kind}, not a file")
            opened = os.open(name, _OPEN_FILE, dir_fd=fd)
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            os.close(opened)
            raise ArchiveRefused(f"{show(path)} in {self.name} was replaced while it was read")
        return opened

    def read(self, path: bytes, *, limit: int) -> bytes:
        """The content of a regular file. Raise as `open` does, and ArchiveRefused above `limit` bytes."""
        with os.fdopen(self.open(path), "rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            content = b"" if size > limit else _read_up_to(file.fileno(), limit + 1)
        if size > limit or len(content) > limit:
            raise ArchiveRefused(f"{show(path)} in {self.name} is longer than {limit} bytes")
        return content

    def readlink(self, path: bytes) -> bytes:
        """The target of the link at `path`, as written."""
        with self.parent(path, follow=False) as (fd, name, _):
            return os.readlink(name, dir_fd=fd)

    def names(self, path: bytes) -> list[bytes]:
        """The names in the directory that `path` leads to, sorted by bytes."""
        with self._listing(path) as fd:
            return sorted(os.fsencode(name) for name in os.listdir(fd))  # noqa: PTH208 - by descriptor

    def tree(self, path: bytes) -> Iterator[bytes]:
        """Everything below the directory that `path` leads to, apart from non-empty directories.

        Paths are free of links; links are listed and not followed. The order is undefined.
        """
        ahead = [self.locate(path).path]
        while ahead:
            folder = ahead.pop()
            found = self._scan(folder)
            for name, is_directory in found:
                below = folder.rstrip(b"/") + b"/" + name
                if is_directory:
                    ahead.append(below)
                else:
                    yield below
            if not found:
                yield folder

    def measure(self) -> tuple[int, int]:
        """The number of entries that are no directories, and the bytes of all files, each inode once."""
        count, sizes, ahead = 0, {}, [b"/"]
        while ahead:
            folder = ahead.pop().rstrip(b"/")
            with self._listing(folder) as fd, os.scandir(fd) as found:
                for entry in found:
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(status.st_mode):
                        ahead.append(folder + b"/" + os.fsencode(entry.name))
                        continue
                    count += 1
                    sizes[status.st_ino] = status.st_size if stat.S_ISREG(status.st_mode) else 0
        return count, sum(sizes.values())

    def _scan(self, folder: bytes) -> list[tuple[bytes, bool]]:
        with self._listing(folder) as fd, os.scandir(fd) as found:
            return [(os.fsencode(entry.name), entry.is_dir(follow_symlinks=False)) for entry in found]

    @contextlib.contextmanager
    def _listing(self, path: bytes) -> Iterator[int]:
        with self.parent(path) as (parent, name, _):
            fd = os.open(name, _LIST, dir_fd=parent)
        try:
            yield fd
        finally:
            os.close(fd)

    @contextlib.contextmanager
    def _walk_components(
        self, path: bytes, *, follow: bool
    ) -> Iterator[tuple[_Walk, bytes, os.stat_result | None]]:
        if b"\0" in path:
            raise ArchiveRefused(f"{show(path)} in {self.name}: holds a NUL byte")
        walk = _Walk([self.fd], [], list(reversed(_parts(path))))
        try:
            yield walk, *_walk_to_end(walk, follow=follow)
        except OSError as error:
            reason = _REASONS.get(error.errno or 0)
            if reason is None:
                raise
            raise ArchiveRefused(f"{show(path)} in {self.name}: {reason}") from error
        finally:
            for fd in walk.fds[1:]:
                os.close(fd)


def _walk_to_end(walk: _Walk, *, follow: bool) -> tuple[bytes, os.stat_result | None]:
    """Walk to the end; return the name in the last directory (`b""`: the directory itself) and its status.

    When the path ends early, the name holds the rest of it.
    """
    while walk.ahead:
        name = walk.ahead.pop()
        if name == b"..":
            walk.up()
            continue
        try:
            status = os.lstat(name, dir_fd=walk.fds[-1])
        except (FileNotFoundError, NotADirectoryError):
            return _rest(name, walk.ahead), None
        if stat.S_ISLNK(status.st_mode) and (walk.ahead or follow):
            walk.follow(name)
        elif stat.S_ISDIR(status.st_mode):
            walk.down(name)
        elif walk.ahead:
            return _rest(name, walk.ahead), None
        else:
            return name, status
    return b"", os.fstat(walk.fds[-1])


def _rest(name: bytes, ahead: list[bytes]) -> bytes:
    """The rest of a path whose next component is missing."""
    return b"/".join([name, *reversed(ahead)])


def _parts(path: bytes) -> list[bytes]:
    return [part for part in path.split(b"/") if part not in (b"", b".")]


def _read_up_to(fd: int, limit: int) -> bytes:
    pieces = []
    while limit > 0 and (piece := os.read(fd, min(limit, 1 << 20))):
        pieces.append(piece)
        limit -= len(piece)
    return b"".join(pieces)
