"""Serves HTTP on a port of this machine for as long as a `with` lasts, with one thread for each request."""

from __future__ import annotations

import contextlib
import http.server
import threading
from collections.abc import Callable, Iterator
from typing import Any

POLL = 0.02
"""Seconds until the end is noticed."""


@contextlib.contextmanager
def listening(handler: Callable[..., Any]) -> Iterator[int]:
    """Answer with a request handler; give the port."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(POLL,))
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()
