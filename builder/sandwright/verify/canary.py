"""A listener on the host's loopback that no sandbox may reach."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

_LONGEST_WORD = 256


class CanaryListener:
    """Remembers the words that it was sent."""

    def __init__(self, listener: socket.socket) -> None:
        """`listener` listens."""
        self._listener = listener
        self._heard: set[bytes] = set()

    @property
    def address(self) -> tuple[str, int]:
        """The address at which it listens."""
        host, port = self._listener.getsockname()
        return host, port

    def heard(self, word: str) -> bool:
        """Whether a client connected and sent `word`."""
        return word.encode() in self._heard

    def listen(self) -> None:
        """Accept all connections, until the listener is shut down."""
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            with peer, contextlib.suppress(OSError):
                peer.settimeout(2)
                self._heard.add(peer.recv(_LONGEST_WORD))

    def stop(self) -> None:
        """End `listen`, wherever it runs."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def canary_listener(at: socket.socket | None = None) -> Iterator[CanaryListener]:
    """Listen for the length of a `with`: at a given socket, or at a port of the loopback interface."""
    with at or socket.create_server(("127.0.0.1", 0)) as listener:
        hearing = CanaryListener(listener)
        thread = threading.Thread(target=hearing.listen, daemon=True)
        thread.start()
        try:
            yield hearing
        finally:
            hearing.stop()
            thread.join(timeout=5)
