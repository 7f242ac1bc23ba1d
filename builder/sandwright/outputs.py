"""Writes the files that a caller names, such as reports: through no link that a sandbox may have made.

Links are followed only on the way of an absolute path, up to the first directory of a project.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import select
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from sandwright.errors import HostError
from sandwright.process import below_project

FIFO_PATIENCE = 10
"""Seconds until a full named pipe counts as one without a reader."""

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_APPENDED = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def write_output(file: str, content: bytes, *, mode: int | None = None) -> None:
    """Write a file whole or not at all, and missing directories; a link in the file's place is replaced.

    A character device or FIFO, such as /dev/null, is written to. Raise HostError for a link on the way, for a
    FIFO that is not read, and where it can't be written.
    """
    with output_stream(file, mode=mode) as written:
        written.write(content)


@contextlib.contextmanager
def output_stream(file: str, *, mode: int | None = None) -> Iterator[BinaryIO]:
    """The same for output in pieces: the file appears when the block ends without an error."""
    with output_folder(file) as (folder, name):
        special = _open_special(name, folder, file)
        if special is not None:
            with special:
                yield special
            return
        part = f".{name}.{os.getpid()}.part"
        try:
            with open(os.open(part, _NEW, 0o666, dir_fd=folder), "wb") as written:  # noqa: PTH123 - a descriptor
                if mode is not None:
                    os.fchmod(written.fileno(), mode)
                yield written
                written.flush()
                os.fsync(written.fileno())
            os.replace(part, name, src_dir_fd=folder, dst_dir_fd=folder)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(part, dir_fd=folder)


def _open_special(name: str, folder: int, file: str) -> BinaryIO | None:
    """Open a character device or FIFO for writing: root would replace /dev/null for the whole system.

    In /dev nothing is replaced, and links (stdout, stderr) are followed: no sandbox makes them. Raise
    HostError for a block device or socket. None for anything else.
    """
    in_dev = os.path.samestat(os.fstat(folder), Path("/dev").stat())
    try:
        mode = os.stat(name, dir_fd=folder, follow_symlinks=in_dev).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISCHR(mode) or stat.S_ISFIFO(mode) or (in_dev and stat.S_ISREG(mode)):
        flags = os.O_WRONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK | (0 if in_dev else os.O_NOFOLLOW)
        descriptor = os.open(name, flags, dir_fd=folder)
        if stat.S_ISFIFO(mode):
            return io.BufferedWriter(_Fifo(descriptor, "wb"))  # type: ignore[type-var]
        os.set_blocking(descriptor, True)
        return open(descriptor, "wb")  # noqa: PTH123 - a descriptor
    if stat.S_ISBLK(mode) or stat.S_ISSOCK(mode):
        raise HostError(f"cannot write {file}: it is neither a file nor a character device")
    return None


class _Fifo(io.FileIO):
    """The write end of a FIFO. The process at the read end may never read."""

    def write(self, data: bytes | bytearray | memoryview, /) -> int:  # type: ignore[override]
        """Write some of it. Raise OSError if nothing could be written for a while."""
        if not select.select([], [self], [], FIFO_PATIENCE)[1]:
            raise OSError(
                errno.ETIMEDOUT, f"it is a named pipe, and was not read for {FIFO_PATIENCE} seconds"
            )
        return os.write(self.fileno(), data)


def append_output(file: str, line: bytes) -> None:
    """Append to a file of this user in one write, so that lines of several writers stay whole (write(2)).

    Raise HostError for a link on the way or in the file's place, and where it can't be written.
    """
    with output_folder(file) as (folder, name):
        _refuse_link(name, folder, file)
        descriptor = os.open(name, _APPENDED, 0o600, dir_fd=folder)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)


def refuse_links(file: str) -> None:
    """Raise HostError for a link on the way to an output, before the work that makes it; nothing is made."""
    with contextlib.suppress(FileNotFoundError), output_folder(file, make=False):
        pass


@contextlib.contextmanager
def output_folder(file: str, *, make: bool = True) -> Iterator[tuple[int, str]]:
    """The directory of a file, open, and the file's name in it. Errors of the system become HostError.

    Missing directories are made; else, without `make`, they raise FileNotFoundError.
    """
    *parts, name = file.split("/")
    reached = "/" if file.startswith("/") else ""
    try:
        folder = os.open(reached or ".", _DIRECTORY)
        try:
            for part in filter(None, parts):
                following = bool(reached) and not below_project(reached)
                above, folder = folder, _open_component(part, folder, file, following=following, make=make)
                os.close(above)
                reached = reached and os.path.realpath(f"{reached}/{part}")
            yield folder, name
        finally:
            os.close(folder)
    except OSError as fault:
        if isinstance(fault, FileNotFoundError) and not make:
            raise
        raise HostError(f"cannot write {file}: {fault.strerror}") from fault


def _open_component(part: str, above: int, file: str, *, following: bool, make: bool) -> int:
    """A directory in one that is open; made where there is none."""
    if not following:
        _refuse_link(part, above, file)
    if make:
        with contextlib.suppress(FileExistsError):
            os.mkdir(part, dir_fd=above)
    return os.open(part, _DIRECTORY | (0 if following else os.O_NOFOLLOW), dir_fd=above)


def _refuse_link(name: str, folder: int, file: str) -> None:
    with contextlib.suppress(OSError):
        target = os.readlink(name, dir_fd=folder)
        raise HostError(f"cannot write {file}: {name} is a symbolic link to {target}: name its target")


@contextlib.contextmanager
def disk_errors(where: Path) -> Iterator[None]:
    """Turn errors of the file system, such as a full disk, into a HostError that names the path."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            reason += f"; {_free_space(where)} bytes are free there"
        raise HostError(f"cannot write {error.filename or where}: {reason}") from error


def _free_space(where: Path) -> int:
    while not where.exists() and where != where.parent:
        where = where.parent
    return shutil.disk_usage(where).free
