"""Tracks the programs of all calls: starts them under a lock, and ends every process that they leave behind.

On Linux the bridge is a *subreaper* (prctl(2)): a process that outlives the program that started it becomes a
child of the bridge, in any session or group. A child that the bridge didn't start is such a leftover: the
bridge kills it and waits for it. Until then its pid can't be reused, so the right process is killed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator

from sandwright.signalling import children_of

_SET_CHILD_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER (linux/prctl.h)."""


class Children:
    """Distinguishes the programs of calls from leftover children."""

    def __init__(self) -> None:
        """Become a subreaper, on systems that have them."""
        self._known: set[int] = set()
        self._working = 0
        self._lock = threading.Lock()
        self._reaps = sys.platform == "linux" and _prctl(_SET_CHILD_SUBREAPER, 1)

    @contextlib.contextmanager
    def starting(self) -> Iterator[Callable[[int], None]]:
        """Hold the lock while a program is started; call the function with its pid."""
        with self._lock:
            yield self._known.add

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """Start programs for the bridge itself in this block; leftovers are not killed meanwhile."""
        with self._lock:
            self._working += 1
        try:
            yield
        finally:
            with self._lock:
                self._working -= 1
                self._kill_strangers()

    def ended(self, pid: int) -> None:
        """Note that a call's program was waited for, and end the processes that it left behind."""
        with self._lock:
            self._known.discard(pid)
            self._kill_strangers()

    def end_all(self) -> None:
        """End every program at the bridge's end, also those of unfinished work."""
        with self._lock:
            self._known.clear()
            self._working = 0
            self._kill_strangers()

    def _kill_strangers(self) -> None:
        """Kill leftover children; their children are reparented to the bridge then, so look again."""
        for _ in range(1000 if self._reaps and not self._working else 0):
            strangers = [
                pid
                for pid in children_of(os.getpid())
                if pid not in self._known and not _same_session(pid, self._known)
            ]
            if not strangers:
                return
            for pid in strangers:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, 0)


def _same_session(pid: int, leaders: set[int]) -> bool:
    """Whether a process belongs to a running call."""
    with contextlib.suppress(ProcessLookupError):
        return os.getsid(pid) in leaders
    return False


def _prctl(option: int, value: int) -> bool:
    with contextlib.suppress(OSError, AttributeError):
        return bool(ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) == 0)
    return False
