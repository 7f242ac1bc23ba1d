"""Renames that replace nothing or exchange two names, and whether a file is open for writing."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import functools
import os
import signal
import sys
from collections.abc import Callable

_LINUX = {"new": 1, "exchange": 2}
"""RENAME_NOREPLACE and RENAME_EXCHANGE of renameat2(2)."""

_MACOS = {"new": 4, "exchange": 2}
"""RENAME_EXCL and RENAME_SWAP of renameatx_np(2)."""

_UNSUPPORTED = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)


class Unsupported(Exception):
    """The file system or C library lacks this rename: NFS, some FUSE file systems, musl before 1.2.6."""


@functools.cache
def _system_call() -> Callable[..., int] | None:
    library = ctypes.CDLL(None, use_errno=True)
    name = "renameatx_np" if sys.platform == "darwin" else "renameat2"
    found: Callable[..., int] | None = getattr(library, name, None)
    return found


def _rename(parent: int, old: bytes, new: bytes, how: str) -> None:
    call = _system_call()
    if call is None:
        raise Unsupported
    flags = (_MACOS if sys.platform == "darwin" else _LINUX)[how]
    if call(parent, old, parent, new, flags) == 0:
        return
    number = ctypes.get_errno()
    if number in _UNSUPPORTED:
        raise Unsupported
    raise OSError(number, os.strerror(number))


def exchange(parent: int, one: bytes, other: bytes) -> None:
    """Exchange two names of an open directory, at once. Raise OSError, Unsupported."""
    _rename(parent, one, other, "exchange")


def rename_new(parent: int, old: bytes, new: bytes) -> None:
    """Rename in an open directory, if the new name is free. Raise FileExistsError, OSError, Unsupported."""
    _rename(parent, old, new, "new")


def hold_off_writers(fd: int) -> bool:
    """Prevent others from opening a file for writing until it is closed; give False if a writer has it open.

    This uses a read lease (fcntl(2)), which needs a file of ours, or root. On file systems without leases it
    gives True, and prevents nothing.
    """
    if not hasattr(fcntl, "F_SETLEASE"):
        return True
    try:
        # A writer who waits would end this process by SIGIO. SIGURG is ignored by default.
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True
