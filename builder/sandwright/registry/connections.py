"""What is being asked of servers, so that all of it can be ended at once, from any thread.

A thread that waits for a server can't be told to stop, but its connection can be shut down under it.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Any
from weakref import WeakSet

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool


class Connections:
    """The connections of some sessions. `stopped` is set once an end was asked for."""

    def __init__(self) -> None:
        """Nothing is connected yet."""
        self.stopped = threading.Event()
        self._connections: WeakSet[HTTPConnection] = WeakSet()
        self._lock = threading.Lock()

    def session(self) -> requests.Session:
        """A new session whose connections `stop` can end; for one thread."""
        session = requests.Session()
        for scheme in ("http://", "https://"):
            session.mount(scheme, _Adapter(_pools(self)))
        return session

    def connected(self, connection: HTTPConnection) -> None:
        """Take note of a connection that was made. Raise InterruptedError after `stop`."""
        with self._lock:
            self._connections.add(connection)
        if self.stopped.is_set():
            raise InterruptedError("it is to end")

    def stop(self) -> None:
        """End what is under way, also where nothing has been answered yet, and let nothing connect."""
        self.stopped.set()
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            with contextlib.suppress(OSError):  # it may have ended just now
                if connection.sock is not None:
                    socket.socket.shutdown(connection.sock, socket.SHUT_RDWR)


def _pools(reading: Connections) -> dict[str, type[HTTPConnectionPool]]:
    """Pools, by scheme, whose connections tell `reading` when they are made."""

    class Plain(HTTPConnection):
        def connect(self) -> None:
            super().connect()
            reading.connected(self)

    class Secure(HTTPSConnection):
        def connect(self) -> None:
            super().connect()
            reading.connected(self)

    class PlainPool(HTTPConnectionPool):
        ConnectionCls = Plain

    class SecurePool(HTTPSConnectionPool):
        ConnectionCls = Secure

    return {"http": PlainPool, "https": SecurePool}


class _Adapter(HTTPAdapter):
    """Connects through pools of ours, by way of proxies too."""

    def __init__(self, pools: dict[str, type[HTTPConnectionPool]]) -> None:
        self._pools = pools
        super().__init__()

    def init_poolmanager(self, *words: Any, **more: Any) -> None:  # noqa: ANN401 - of requests
        super().init_poolmanager(*words, **more)
        self.poolmanager.pool_classes_by_scheme = self._pools

    def proxy_manager_for(self, *words: Any, **more: Any) -> Any:  # noqa: ANN401 - of requests
        manager = super().proxy_manager_for(*words, **more)
        manager.pool_classes_by_scheme = self._pools
        return manager
