"""Locks of files and directories (flock(2)), in a directory that no sandbox sees.

A process can lock every file that it can read, and keep the lock: a sandbox that sees a file could block
every run that locks it. So the lock of a path is another file, below `user_dirs.keys()`.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from sandwright import user_dirs
from sandwright.errors import HostError


@contextlib.contextmanager
def exclusive(path: Path, *, within: float) -> Iterator[bool]:
    """Hold the lock of a path; yield whether it was free within some seconds.

    Nothing has to exist there. Its directory must exist.
    """
    until = time.monotonic() + within
    while True:
        file = _lock_file(path)
        try:
            lock = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            continue  # the last holder of a lock removed the directory meanwhile
        held = lock_within(lock, until - time.monotonic())
        if not held or _is_at(file, lock):
            break
        os.close(lock)  # its last holder removed it meanwhile
    try:
        yield held
    finally:
        if held:
            file.unlink(missing_ok=True)
            if file.parent.name != "locks":
                with contextlib.suppress(OSError):  # another process has a lock there
                    file.parent.rmdir()
        os.close(lock)


def _lock_file(path: Path) -> Path:
    """The file that is locked for a path: the same for all processes of a user, with any HOME."""
    name = hashlib.sha256(os.fsencode(path.parent.resolve() / path.name)).hexdigest()
    for home in (user_dirs.account_home(), os.environ.get("HOME", "")):
        with contextlib.suppress(HostError):
            if home.startswith("/"):
                return Path(user_dirs.private(f"{home}/{user_dirs.STATE}/keys/locks"), name)
    # Of a user without a home, for whom no sandbox is started.
    return Path(user_dirs.private(f"{tempfile.gettempdir()}/sandwright-locks-{os.geteuid()}"), name)


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def lock_within(file: int, seconds: float) -> bool:
    """Take the exclusive lock of a descriptor, at once or within some seconds; whether it is ours now.

    The file must be one that no sandbox can open.
    """
    until = time.monotonic() + seconds
    while True:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        if time.monotonic() > until:
            return False
        time.sleep(0.005)
