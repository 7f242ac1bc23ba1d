"""Reads the files of an image from a directory, or in place from a tar archive.

Neither follows a link out of itself. A directory is opened component by component. An archive is indexed once
by its headers; members of any size are read in place.
"""

from __future__ import annotations

import io
import os
import stat
import tempfile
import weakref
from pathlib import Path
from typing import BinaryIO, Protocol, cast

from sandwright.errors import ArchiveRefused, IntegrityError
from sandwright.reading import open_regular
from sandwright.rootfs.tar import header, member
from sandwright.rootfs.tar.archive_warnings import Notes
from sandwright.rootfs.tar.codec import decompressed
from sandwright.rootfs.tar.entry import NO_XATTRS, EntryKind, TarEntry, show
from sandwright.rootfs.tar.header import BLOCK, ZEROS
from sandwright.rootfs.tar.limits import DEFAULT, NAMED, ArchiveLimits
from sandwright.rootfs.tar.member import NOTHING, ExtendedHeader

_PASS = getattr(os, "O_PATH", 0) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_COPY = 1 << 20


class BlobSource(Protocol):
    """Files by relative path. `name` is the place's name in messages."""

    name: str

    def size(self, path: str) -> int | None:
        """The length of a file; None when nothing is there. Raise ArchiveRefused for anything but a file."""
        ...

    def open(self, path: str) -> BinaryIO:
        """A file for reading, from its start. Raise FileNotFoundError, or ArchiveRefused as `size` does."""
        ...


def read(blobs: BlobSource, path: str, *, limit: int) -> bytes:
    """A file of at most `limit` bytes. Raise ArchiveRefused for a longer one, FileNotFoundError for none."""
    size = blobs.size(path)
    if size is not None and size > limit:
        raise ArchiveRefused(f"{blobs.name}: {path} has {size} bytes; at most {limit} are read")
    with blobs.open(path) as file:
        content = file.read(limit + 1)
    if len(content) != size:
        raise IntegrityError(f"{blobs.name}: {path} changed while it was read")
    return content


class DirectoryBlobs:
    """A directory, as of an OCI image layout."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._path = path

    def size(self, path: str) -> int | None:
        """See `BlobSource`."""
        try:
            with self.open(path) as file:
                return os.fstat(file.fileno()).st_size
        except FileNotFoundError:
            return None

    def open(self, path: str) -> BinaryIO:
        """See `BlobSource`."""
        *folders, name = path.split("/")
        fd = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        for folder in folders:
            fd = self._descend(fd, folder, path)
        try:
            status = os.lstat(name, dir_fd=fd)
            if not stat.S_ISREG(status.st_mode):
                raise ArchiveRefused(f"{self.name}: {path} is not a regular file")
            opened = open_regular(name, flags=os.O_NOFOLLOW, folder=fd)
        finally:
            os.close(fd)
        return os.fdopen(opened, "rb")

    def _descend(self, fd: int, folder: str, path: str) -> int:
        """The directory `folder` in `fd`, which is closed, also when this fails."""
        try:
            return os.open(folder, _PASS, dir_fd=fd)
        except NotADirectoryError as error:
            raise ArchiveRefused(
                f"{self.name}: {folder} in {path} is a link or a file, not a directory"
            ) from error
        finally:
            os.close(fd)


class ArchiveBlobs:
    """A tar archive that can be sought in, with the place of each member known."""

    def __init__(self, path: Path, *, limits: ArchiveLimits = DEFAULT) -> None:
        """Index the archive `path`. A compressed one is first decompressed into a file without a name."""
        self.name = str(path)
        self._fd = open_regular(path)
        self._close = weakref.finalize(self, os.close, self._fd)
        self._decompress(limits)
        self._members = _index_members(self._fd, limits, self.name)

    def size(self, path: str) -> int | None:
        """See `BlobSource`."""
        found = self._find_member(path)
        return None if found is None else found[0].size

    def open(self, path: str) -> BinaryIO:
        """See `BlobSource`."""
        found = self._find_member(path)
        if found is None:
            raise FileNotFoundError(f"{self.name}: no {path} in it")
        entry, offset = found
        return cast("BinaryIO", io.BufferedReader(_Window(self, self._fd, offset, entry.size), _COPY))

    def _find_member(self, path: str) -> tuple[TarEntry, int] | None:
        """The file behind a path and links: `docker save` writes a layer once and links to it."""
        name = path.encode()
        for _ in range(8):
            found = self._members.get(name)
            if found is None:
                return None
            entry, offset = found
            if offset < 0:
                raise ArchiveRefused(f"{self.name}: {show(name)} is there twice, with different content")
            if entry.kind is EntryKind.FILE:
                return entry, offset
            if entry.kind not in (EntryKind.SYMLINK, EntryKind.HARDLINK):
                raise ArchiveRefused(f"{self.name}: {show(name)} is a {entry.kind.value}")
            name = entry.link if entry.kind is EntryKind.HARDLINK else _link_target(name, entry.link)
        raise ArchiveRefused(f"{self.name}: the links from {path} lead in a circle")

    def _decompress(self, limits: ArchiveLimits) -> None:
        with open(self._fd, "rb", closefd=False) as file:
            stream = decompressed(file, name=self.name, limits=limits)
            if stream.codec == "plain":
                return
            with tempfile.TemporaryFile(prefix="sandwright-") as whole:
                while piece := stream.read(_COPY):
                    if stream.bytes > limits.bytes:
                        raise ArchiveRefused(f"{self.name}: holds more than {limits.bytes} bytes")
                    whole.write(piece)
                whole.flush()
                fd = os.dup(whole.fileno())
        self._close()
        self._fd = fd
        self._close = weakref.finalize(self, os.close, fd)


class _Window(io.RawIOBase):
    """A part of a file, as a file. Keeps no position in the file itself, so that many may read at once."""

    def __init__(self, owner: object, fd: int, offset: int, size: int) -> None:
        super().__init__()
        self._owner = owner  # closes `fd` when it goes
        self._fd = fd
        self._offset = offset
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: object, /) -> int:
        view = memoryview(cast("bytearray", buffer)).cast("B")
        length = min(len(view), max(0, self._size - self._at))
        done = os.preadv(self._fd, [view[:length]], self._offset + self._at) if length else 0
        self._at += done
        return done


def _index_members(fd: int, limits: ArchiveLimits, name: str) -> dict[bytes, tuple[TarEntry, int]]:
    """Each member with the offset of its content; -1 for a name that two members have."""
    members: dict[bytes, tuple[TarEntry, int]] = {}
    at, end, held, extension, notes = 0, os.fstat(fd).st_size, 0, NOTHING, Notes()
    while len(block := os.pread(fd, BLOCK, at)) == BLOCK and block != ZEROS:
        at += BLOCK
        try:
            _check_sum(block)
            flag = block[156:157]
            if flag in (b"x", b"g", b"L", b"K"):
                size = member.size_of(block, limits)
                extension = (
                    extension if flag == b"g" else _extended(extension, flag, os.pread(fd, size, at), notes)
                )
            else:
                entry = member.decode(block, extension, limits, notes)
                entry.xattrs = NO_XATTRS
                members[entry.path] = (entry, -1 if _clashes(members, entry) else at)
                held += len(entry.path) + len(entry.link) + NAMED
                size, extension = entry.size, NOTHING
        except ValueError as wrong:
            if at == BLOCK:
                raise ArchiveRefused(f"{name}: is not a tar archive: {wrong}") from wrong
            raise ArchiveRefused(f"{name}: the member at byte {at - BLOCK}: {wrong}") from wrong
        at += size + header.pad(size)
        if at - header.pad(size) > end:
            raise IntegrityError(f"{name}: ends in the middle of the member at byte {at - size}")
        if len(members) > limits.entries or held > limits.names:
            raise ArchiveRefused(
                f"{name}: has more members than an image needs: {len(members)}, and then more"
            )
    if not members:
        raise ArchiveRefused(f"{name}: is not a tar archive, or an empty one")
    return members


def _clashes(members: dict[bytes, tuple[TarEntry, int]], entry: TarEntry) -> bool:
    return entry.kind is not EntryKind.DIRECTORY and entry.path in members


def _extended(extension: ExtendedHeader, flag: bytes, data: bytes, notes: Notes) -> ExtendedHeader:
    extension = ExtendedHeader() if extension is NOTHING else extension
    extension.add(flag, data, notes)
    return extension


def _check_sum(block: bytes) -> None:
    if header.number(block[148:156]) not in (header.unsigned_sum(block), header.signed_sum(block)):
        raise ValueError("its checksum is wrong")


def _link_target(name: bytes, link: bytes) -> bytes:
    """The target of a link in an archive, by its text alone; `b""`, which no file has, when it climbs out."""
    parts = [] if link.startswith(b"/") else name.split(b"/")[:-1]
    for part in link.split(b"/"):
        if part == b"..":
            if not parts:
                return b""
            parts.pop()
        elif part not in (b"", b"."):
            parts.append(part)
    return b"/".join(parts)
