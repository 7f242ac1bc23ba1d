"""Open connections to servers, which any thread can end at once.

A thread that waits for a server can't be interrupted, but its connection can be shut down.
"""

from __future__ import annotations

import contextlib
import math
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.response import BaseHTTPResponse, HTTPResponse

REDIRECTS = frozenset({301, 302, 303, 307, 308})

_PATIENCE = 2.0
"""The factor on the time without a byte for an answer's head, and for the framing of its body: each byte of
them is one, so that time alone does not bound them."""


class Connections:
    """The connections of some sessions. `stopped` is set after `stop`."""

    def __init__(self) -> None:
        """Start without connections."""
        self.stopped = threading.Event()
        self._connections: WeakSet[HTTPConnection] = WeakSet()
        self._sockets: WeakKeyDictionary[BaseHTTPResponse, socket.socket] = WeakKeyDictionary()
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

    def answer(self, connection: HTTPConnection) -> HTTPResponse:
        """The head of an answer to a connection's request. Cut off a server that sends it too slowly."""
        end, seconds = connection.sock, connection.timeout
        assert isinstance(seconds, int | float)  # as all requests here have it
        with _time_bounded(end, seconds * _PATIENCE) as bound, bound.reading():
            response = HTTPConnection.getresponse(connection)
        self._sockets[response] = end
        return response

    def pieces(self, response: requests.Response, size: int, stall: float) -> Iterator[bytes]:
        """The body of an answer as it comes, in pieces of up to `size` bytes.

        Disconnect a server that sends the framing of a chunked answer too slowly. `stall` is the
        time without a byte.
        """
        raw: BaseHTTPResponse = response.raw
        end = self._sockets.get(raw) if getattr(raw, "chunked", False) else None
        with _time_bounded(end, stall * _PATIENCE) as bound:
            while True:
                with bound.reading():
                    # It returns the received data; `read` would wait for a whole chunk of a slow server.
                    piece = raw.read1(size, decode_content=False)
                if not piece:
                    return
                yield piece

    def stop(self) -> None:
        """Shut all connections down, also those that wait for an answer, and refuse new ones."""
        self.stopped.set()
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            _shut_down(connection.sock)


class _Bound:
    """The start of the current read (infinity without one), and whether it took too long."""

    since, over = math.inf, False

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """One read. Raise TimeoutError if it was cut off: half a head looks like a short one."""
        self.since = time.monotonic()
        try:
            yield
        finally:
            self.since = math.inf
            if self.over:
                raise TimeoutError("it took too long to begin")


@contextlib.contextmanager
def _time_bounded(end: socket.socket | None, seconds: float) -> Iterator[_Bound]:
    """Shut a socket down when a read takes longer than that, for the length of a `with`."""
    bound, finished = _Bound(), threading.Event()

    def watch() -> None:
        while not finished.wait(seconds / 4):
            if bound.since + seconds < time.monotonic():
                bound.over = True
                _shut_down(end)

    if end is not None:
        threading.Thread(target=watch, name="sandwright-bound", daemon=True).start()
    try:
        yield bound
    finally:
        finished.set()


def _shut_down(end: socket.socket | None) -> None:
    """End reads and writes in all threads. The method of a TLS socket would go on in plain text."""
    with contextlib.suppress(OSError):  # it may have closed meanwhile
        if end is not None:
            socket.socket.shutdown(end, socket.SHUT_RDWR)


class _Session(requests.Session):
    """A session that follows no redirect, and so does not look where one leads.

    `requests` does that for each redirect, even with `allow_redirects=False`: it reads the whole body first,
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

        def getresponse(self) -> HTTPResponse:  # type: ignore[override]
            return reading.answer(self)

    class Secure(HTTPSConnection):
        def connect(self) -> None:
            super().connect()
            reading.connected(self)

        def getresponse(self) -> HTTPResponse:  # type: ignore[override]
            return reading.answer(self)

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
