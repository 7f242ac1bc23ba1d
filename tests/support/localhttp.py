"""Serves HTTP on a port of this machine for the length of a `with`, with one thread for each request."""

from __future__ import annotations

import contextlib
import http.server
import ssl
import threading
from collections.abc import Callable, Iterator
from typing import Any

POLL = 0.02
"""Seconds until it notices the end."""


class QuietHandler(http.server.BaseHTTPRequestHandler):
    """A handler of requests that writes no log.

    Without Nagle's algorithm: it writes headers and body separately, and the body would wait 40 ms for the
    client's delayed acknowledgement.
    """

    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Log nothing."""


@contextlib.contextmanager
def listening(
    handler: Callable[..., Any],
    address: tuple[str, int] = ("127.0.0.1", 0),
    tls: ssl.SSLContext | None = None,
) -> Iterator[int]:
    """Serve with a request handler, over HTTPS with `tls`; return the port."""
    with http.server.ThreadingHTTPServer(address, handler) as server:
        if tls is not None:  # the handshake is made by the request's thread, when it first reads
            server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        thread = threading.Thread(target=server.serve_forever, args=(POLL,))
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()
