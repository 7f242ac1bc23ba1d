"""Open connections to servers, which any thread can end at once.

A thread that waits for a server can't be interrupted, but its connection can be shut down.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from typing import Any
from weakref import WeakSet

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

REDIRECTS = frozenset({301, 302, 303, 307, 308})


class Connections:
    """The connections of some sessions. `stopped` is set after `stop`."""

    def __init__(self) -> None:
        """Start without connections."""
        self.stopped = threading.Event()
        self._connections: WeakSet[HTTPConnection] = WeakSet()
        self._lock = threading.Lock()

    def session(self) -> requests.Session:
        """A new session whose connections `stop` can end; for one thread."""
        session = _Session()
        for scheme in ("http://", "https://"):
            session.mount(scheme, _Adapter(_pools(self)))
        return session

    def use_context(self, session: requests.Session, host: str, context: ssl.SSLContext) -> None:
        """Use a separate TLS context for `host[:port]` in a session."""
        session.mount(f"https://{host}/", _Adapter(_pools(self), context))

    def connected(self, connection: HTTPConnection) -> None:
        """Register a new connection. Raise InterruptedError after `stop`."""
        with self._lock:
            self._connections.add(connection)
        if self.stopped.is_set():
            raise InterruptedError("it is to end")

    def stop(self) -> None:
        """Shut all connections down, also those that wait for an answer, and refuse new ones."""
        self.stopped.set()
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            with contextlib.suppress(OSError):  # it may have closed meanwhile
                if connection.sock is not None:
                    socket.socket.shutdown(connection.sock, socket.SHUT_RDWR)


class _Session(requests.Session):
    """A session that follows no redirect, and so does not look where one leads.

    `requests` does that for each, even when told not to follow: it reads the whole body first,
    without a limit, decompresses it, and fails at malformed addresses.
    """

    def get_redirect_target(self, resp: requests.Response) -> None:
        """None: it is no redirect."""


def _pools(reading: Connections) -> dict[str, type[HTTPConnectionPool]]:
    """Connection pools by scheme, whose connections register themselves with `reading`."""

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
    """Connects through the given pools, also to proxies; with a TLS context where one is given."""

    def __init__(
        self, pools: dict[str, type[HTTPConnectionPool]], context: ssl.SSLContext | None = None
    ) -> None:
        self._pools, self._context = pools, context
        super().__init__()

    def init_poolmanager(self, *words: Any, **more: Any) -> None:  # noqa: ANN401 - of requests
        if self._context is not None:
            more["ssl_context"] = self._context
        super().init_poolmanager(*words, **more)
        self.poolmanager.pool_classes_by_scheme = self._pools

    def proxy_manager_for(self, *words: Any, **more: Any) -> Any:  # noqa: ANN401 - of requests
        if self._context is not None:
            more["ssl_context"] = self._context
        manager = super().proxy_manager_for(*words, **more)
        manager.pool_classes_by_scheme = self._pools
        return manager
