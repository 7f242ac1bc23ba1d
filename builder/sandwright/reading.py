"""Reads files that another user may have put there: bounded, and without waiting for a pipe (FIFO)."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from sandwright.errors import DocumentError, Problem

_OPEN = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_PASS = getattr(os, "O_PATH", 0) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def open_regular(path: Path | str, *, flags: int = 0, folder: int | None = None) -> int:
    """A descriptor of a regular file. Raise OSError, also for a pipe, device or directory of that name.

    `flags` are added to those of open(2); `folder` is an open directory that `path` is looked up in.
    """
    fd = os.open(path, _OPEN | flags, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "it is not a regular file")
    return fd


def without_links(path: Path) -> Path:
    """The current canonical path, for `open_unlinked`; a circle of links stays."""
    return Path(os.path.realpath(path))


def open_unlinked(path: Path) -> int:
    """A descriptor of a regular file. Raise OSError as `open_regular` does, also for a link on the way."""
    *above, name = path.absolute().parts
    folder = os.open("/", _PASS)
    try:
        for part in above[1:]:
            above_it, folder = folder, os.open(part, _PASS, dir_fd=folder)
            os.close(above_it)
        return open_regular(name, flags=os.O_NOFOLLOW, folder=folder)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        os.close(folder)


def read_unlinked(path: Path) -> bytes:
    """The content of a regular file. Raise OSError as `open_unlinked` does."""
    with os.fdopen(open_unlinked(path), "rb") as file:
        return file.read()


def read_start(path: Path | str, *, size: int) -> bytes:
    """At most `size` bytes of a regular file, from its start. Raise OSError as `open_regular` does."""
    with os.fdopen(open_regular(path), "rb") as file:
        return file.read(size)


def open_named(path: Path | str) -> BinaryIO:
    """Open a file that the user named, or a shell's pipe, `<(…)`. Raise OSError, also for a named pipe.

    A sandbox may have planted a named pipe, and reading it could block forever.
    """
    if _is_named_pipe(path):
        raise OSError(errno.EINVAL, "it is a named pipe, and may have no writer")
    return Path(path).open("rb")


@contextlib.contextmanager
def quoting_no_link(path: Path | str, display_name: str) -> Iterator[None]:
    """For a document that `refuse_link` is about, replace a DocumentError by one without quotations."""
    try:
        yield
    except DocumentError:
        refuse_link(path, display_name)
        raise


def refuse_link(path: Path | str, display_name: str) -> None:
    """Raise DocumentError, without quotations, for a document with faults that is a link, or behind one.

    In a stranger's project a link can lead to your secrets, and error messages quote keys and values. A link
    in /dev stands for a file that the shell has opened.
    """
    if not _is_behind_link(Path(path)) or Path(path).is_relative_to("/dev"):
        return
    message = "the file to which this link leads is not valid; check it under its own name to see the faults"
    raise DocumentError(display_name, [Problem(0, 0, "", message)]) from None


def _is_behind_link(path: Path) -> bool:
    """Whether a file is a link, or is below the current directory and a directory between them is one."""
    links: list[bool] = []
    for each in (path, *path.parents):
        with contextlib.suppress(OSError):
            if each.samefile("."):
                return any(links)
        links.append(each.is_symlink())
    return links[0]


def _is_named_pipe(path: Path | str) -> bool:
    """Whether it has a name in a file system; a shell's has none."""
    try:
        return stat.S_ISFIFO(os.lstat(os.path.realpath(path)).st_mode)
    except (OSError, ValueError):
        return False


def read_named(path: Path | str, *, limit: int) -> bytes:
    """At most `limit` bytes of a file that the user named, or of a pipe. Raise OSError like `open_named`."""
    with open_named(path) as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise OSError(errno.EFBIG, f"it is longer than {limit} bytes")
    return content
