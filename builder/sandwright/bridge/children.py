"""The programs of all calls: started under a lock, and everything that they leave behind is ended.

On Linux the bridge is a *subreaper* (prctl(2)): what a program starts and leaves behind becomes the bridge's
child, in any session or group. A child that the bridge didn't start is such a leftover: the bridge kills it
and waits for it. Until then its pid can't be reused, so the right process is killed.
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
    """Knows which children are a call's own."""

    def __init__(self) -> None:
        """Become a subreaper, where there is such a thing."""
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
        """Start programs of the bridge's own in here; nothing is swept meanwhile."""
        with self._lock:
            self._working += 1
        try:
            yield
        finally:
            with self._lock:
                self._working -= 1
                self._kill_strangers()

    def ended(self, pid: int) -> None:
        """A call's own program was waited for. End what it has left behind."""
        with self._lock:
            self._known.discard(pid)
            self._kill_strangers()

    def end_all(self) -> None:
        """The bridge ends: end every program, also those of work that goes on."""
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
    """Whether a process still belongs to a call that goes on."""
    with contextlib.suppress(ProcessLookupError):
        return os.getsid(pid) in leaders
    return False


def _prctl(option: int, value: int) -> bool:
    with contextlib.suppress(OSError, AttributeError):
        return bool(ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) == 0)
    return False
