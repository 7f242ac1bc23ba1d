"""What is being read from servers, so that all of it can be ended at once, from any thread."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any


class Reading:
    """The bodies of answers that are being read. `stopped` is set once an end was asked for."""

    def __init__(self) -> None:
        """Nothing is read yet."""
        self.stopped = threading.Event()
        self._bodies: set[Any] = set()
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def of(self, body: object) -> Iterator[None]:
        """Let `stop` reach a body, one of urllib3's, while it is read."""
        with self._lock:
            self._bodies.add(body)
        try:
            yield
        finally:
            with self._lock:
                self._bodies.discard(body)

    def stop(self) -> None:
        """End what is being read; who begins later has to look at `stopped`."""
        self.stopped.set()
        with self._lock:
            bodies = list(self._bodies)
        for body in bodies:
            with contextlib.suppress(Exception):  # it may have ended just now
                body.shutdown()
