"""The directory that all temporary things of a smoke run lie in, and how one is known whose owner is dead."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from sandwright.smoke.contract import PREFIX

_LOCK = ".lock"
_NEW = 5.0
"""Seconds in which an owner has surely taken its lock."""


@contextlib.contextmanager
def scratch_directory() -> Iterator[Path]:
    """A temporary directory for runtimes. Gone at the end, with what other users' ids own in it if we may.

    Its owner holds a lock on it, which the kernel releases however the owner ends.
    """
    with tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True) as name:
        # Others must be able to pass: the sandbox's user looks its root up through it.
        Path(name).chmod(0o711)
        with (Path(name) / _LOCK).open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield Path(name)


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
