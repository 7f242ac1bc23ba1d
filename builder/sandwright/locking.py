"""Waits a while for a lock of a file (flock(2)): who may read a file, a sandbox too, can hold it for ever."""

from __future__ import annotations

import contextlib
import fcntl
import time


def lock_within(file: int, seconds: float) -> bool:
    """Take the exclusive lock of a descriptor, at once or within some seconds; whether it is ours now."""
    until = time.monotonic() + seconds
    while True:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        if time.monotonic() > until:
            return False
        time.sleep(0.005)
