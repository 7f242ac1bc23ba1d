"""The directory that all temporary things of a smoke run lie in, and how one is known whose owner is dead."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from sandwright import process
from sandwright.errors import HostError
from sandwright.smoke.contract import PREFIX

_LOCK = ".lock"
_NEW = 5.0
"""Seconds in which an owner has surely taken its lock."""


@contextlib.contextmanager
def scratch_directory() -> Iterator[Path]:
    """A temporary directory for runtimes. Gone at the end, with what is mounted in it.

    Its owner holds a lock on it, which the kernel releases however the owner ends. Raise HostError when it
    can't be removed.
    """
    directory = Path(tempfile.mkdtemp(prefix=PREFIX))
    try:
        # Others must be able to pass: the sandbox's user looks its root up through it.
        directory.chmod(0o711)
        with (directory / _LOCK).open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield directory
    finally:
        unmount_below(directory)
        shutil.rmtree(directory, ignore_errors=True)
    if directory.exists():
        raise HostError(f"{directory} can't be removed")


def unmount_below(directory: Path) -> None:
    """Unmount all that is mounted below `directory`, innermost first; what can't be is left."""
    try:
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return
    points = [line.split()[4] for line in mounts.splitlines()]
    for point in reversed([point for point in points if point.startswith(f"{directory}/")]):
        process.run("umount", "--lazy", point, check=False)


def stale_directories() -> list[Path]:
    """Directories of ours whose owner was killed. They may still be in use by what it had started."""
    return [path for path in sorted(Path(tempfile.gettempdir()).glob(f"{PREFIX}*")) if _is_stale(path)]


def _is_stale(directory: Path) -> bool:
    try:
        status = directory.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            return False
        with (directory / _LOCK).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return time.time() - os.fstat(lock.fileno()).st_mtime > _NEW
    except OSError:
        return False
