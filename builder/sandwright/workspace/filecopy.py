"""Copies one file into a new one, and notices when it changes meanwhile."""

from __future__ import annotations

import hashlib
import os
import stat
import time

from sandwright.errors import HostError
from sandwright.rootfs.tar.entry import show
from sandwright.streams import write_all
from sandwright.workspace.base import Entry
from sandwright.workspace.below import CHUNK, copied_mode, stamp_of, text_digest

NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_ATTEMPTS = 6
_TICK = 10_000_000
"""Nanoseconds in which two writes may get the same time: a tick of the kernel, at most 1/100 s."""


def copy_file(source: int, parent: int, name: bytes, path: bytes) -> Entry:
    """Copy the open file `source` to a new one, and give its entry. `path` is for messages.

    It gets mode, times, and for root the owner. A file that was written while it was read, or in the same
    tick before, is read again. Raise HostError if that happens too often, and OSError.
    """
    fd = os.open(name, NEW_FILE, 0o600, dir_fd=parent)
    try:
        for attempt in range(_ATTEMPTS):
            before = os.fstat(source)
            _wait_for_tick(before)
            digest = copy_content(source, fd, before)
            if stamp_of(os.fstat(source)) == stamp_of(before):
                break
            time.sleep(0.01 * 2**attempt)
            os.lseek(source, 0, os.SEEK_SET)
            os.ftruncate(fd, 0)
            os.lseek(fd, 0, os.SEEK_SET)
        else:
            raise HostError(f"{show(path)} changes all the time: cannot copy it as it was at one moment")
        mode = copied_mode(before.st_mode, "file")
        set_attributes(fd, before, mode=mode)
        made = stamp_of(os.fstat(fd))
        return Entry("file", mode, before.st_size, digest, stamp_of(before), made)
    finally:
        os.close(fd)


def _wait_for_tick(status: os.stat_result) -> None:
    """Wait until a later write gets another time than the last one."""
    age = time.time_ns() - status.st_ctime_ns
    if 0 <= age < _TICK:
        time.sleep((_TICK - age) / 1e9)


def copy_content(source: int, sink: int, status: os.stat_result) -> str:
    """Copy from one descriptor to another, and give the SHA-256. Holes of a sparse file stay holes."""
    sparse = status.st_blocks * 512 < status.st_size
    digest, size = hashlib.sha256(), 0
    while piece := os.read(source, CHUNK):
        digest.update(piece)
        size += len(piece)
        if sparse and not piece.strip(b"\0"):
            os.lseek(sink, len(piece), os.SEEK_CUR)
        else:
            write_all(sink, piece)
    if sparse:
        os.ftruncate(sink, size)
    return digest.hexdigest()


def set_attributes(fd: int, like: os.stat_result, *, mode: int) -> None:
    """Give an open file or directory a mode, and the times and, for root, the owner of another one."""
    if os.geteuid() == 0:
        os.fchown(fd, like.st_uid, like.st_gid)
    if not stat.S_ISREG(like.st_mode) or mode != 0o600:
        os.fchmod(fd, mode)
    os.utime(fd, ns=(like.st_atime_ns, like.st_mtime_ns))


def copy_link(source: int, name: bytes, parent: int, new: bytes, status: os.stat_result) -> Entry:
    """Copy a symbolic link, with its text as it is. Raise OSError."""
    text = os.readlink(name, dir_fd=source)
    os.symlink(text, new, dir_fd=parent)
    if os.geteuid() == 0:
        os.chown(new, status.st_uid, status.st_gid, dir_fd=parent, follow_symlinks=False)
    times = (status.st_atime_ns, status.st_mtime_ns)
    os.utime(new, ns=times, dir_fd=parent, follow_symlinks=False)
    made = os.stat(new, dir_fd=parent, follow_symlinks=False)
    digest = text_digest(text)
    return Entry("symlink", 0o777, len(text), digest, stamp_of(status), stamp_of(made))
