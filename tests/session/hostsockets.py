"""Listening Unix sockets of the host, beside a sandbox."""

from __future__ import annotations

import socket
import threading
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Host:
    """Listening sockets of the host, each until the end of the test, and their clients."""

    stack: ExitStack
    heard: set[str] = field(default_factory=set)

    def listen(self, path: str, *, known_as: str = "") -> str:
        """Listen at a path, or with @ at an abstract name; `known_as` is the earlier name of the socket."""
        listener = self.stack.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind((known_as or path).replace("@", "\0"))
        if known_as:
            Path(known_as).rename(path)
        listener.listen()
        thread = threading.Thread(target=self._accept, args=(path, listener), daemon=True)
        thread.start()
        self.stack.callback(thread.join)
        self.stack.callback(listener.shutdown, socket.SHUT_RDWR)
        return path

    def _accept(self, path: str, listener: socket.socket) -> None:
        while True:
            try:
                listener.accept()[0].close()
            except OSError:
                return
            self.heard.add(path)
