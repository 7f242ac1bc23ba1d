"""Reads files that another user may have put there: bounded, and without waiting for a pipe."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

_OPEN = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def open_regular(path: Path | str, *, flags: int = 0, folder: int | None = None) -> int:
    """A descriptor of a regular file. Raise OSError, also for a pipe, device or directory of that name.

    `flags` are added to those of open(2); `folder` is an open directory that `path` is looked up in.
    """
    fd = os.open(path, _OPEN | flags, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "it is not a regular file")
    return fd


def read_start(path: Path | str, *, size: int) -> bytes:
    """At most `size` bytes of a regular file, from its start. Raise OSError as `open_regular` does."""
    with os.fdopen(open_regular(path), "rb") as file:
        return file.read(size)


def read_named(path: Path | str, *, limit: int) -> bytes:
    """At most `limit` bytes of what a person named, which may be a pipe. Raise OSError."""
    with Path(path).open("rb") as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise OSError(errno.EFBIG, f"it is longer than {limit} bytes")
    return content
