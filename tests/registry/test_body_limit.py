"""A registry behind a front-end that limits the bodies of requests (413), as nginx does."""

from __future__ import annotations

import contextlib
import http.client
import io
import os
import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from sandwright.registry.failure import RegistryError
from sandwright.registry.graph import sha256_descriptor
from sandwright.registry.reference import parse_reference
from sandwright.registry.repository import open_repository
from sandwright.registry.settings import RegistrySettings
from support.localhttp import QuietHandler
from support.registryserver import Server

pytestmark = [pytest.mark.needs("docker-registry"), pytest.mark.timeout(120)]

MIB = 1 << 20
OCTETS = "application/octet-stream"


class _FrontEnd(ThreadingHTTPServer):
    """Stands in for nginx: answers 413 to a longer body, and closes; otherwise the real registry answers."""

    daemon_threads = True

    def __init__(self, behind: str, limit: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behind, self.limit = behind, limit
        self.passed: list[tuple[str, int]] = []


class _Handler(QuietHandler):
    protocol_version = "HTTP/1.1"
    server: _FrontEnd

    def pass_on(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        if length > self.server.limit:
            self.send_response(413)
            self.send_header("Content-Length", "0")
            self.send_header("Connection", "close")
            self.end_headers()
            self.close_connection = True
            return
        self.server.passed.append((self.command, length))
        other = http.client.HTTPConnection(self.server.behind, timeout=30)
        with contextlib.closing(other):
            other.request(self.command, self.path, self.rfile.read(length), dict(self.headers))
            answer = other.getresponse()
            body = answer.read()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name not in ("Content-Length", "Transfer-Encoding", "Connection"):
                    self.send_header(name, value)
            whole = answer.headers["Content-Length"] if self.command == "HEAD" else str(len(body))
            self.send_header("Content-Length", whole or "0")
            self.end_headers()
            self.wfile.write(body)

    do_GET = do_HEAD = do_PUT = do_POST = do_PATCH = do_DELETE = pass_on  # noqa: N815


@contextlib.contextmanager
def front_end(behind: str, limit: int) -> Iterator[_FrontEnd]:
    with _FrontEnd(behind, limit) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def push(server: _FrontEnd, content: bytes) -> None:
    reference = parse_reference(f"127.0.0.1:{server.server_address[1]}/limited/blob:1")
    with open_repository(reference, RegistrySettings(), push=True) as repository:
        repository.push_blob(sha256_descriptor(OCTETS, content), lambda: io.BytesIO(content))


@pytest.mark.parametrize("size", [3 * MIB, 20 * MIB], ids=["in one request", "streamed"])
@pytest.mark.parametrize("limit", [MIB, 5 * MIB // 2, 10**6], ids=["1 MiB", "2.5 MiB", "1 MB"])
def test_a_blob_longer_than_a_body_may_be(server: Server, limit: int, size: int) -> None:
    content = os.urandom(size)
    with front_end(server.host, limit) as front:
        push(front, content)
    assert server.blob(sha256_descriptor(OCTETS, content).digest).read_bytes() == content
    sent = [length for command, length in front.passed if command == "PATCH"]
    assert max(sent) <= limit
    assert sum(sent) == size
    assert len(sent) <= 2 * size / limit + 2, "chunks are no shorter than need be"


def test_a_limit_below_which_nothing_goes(server: Server) -> None:
    content = os.urandom(MIB)
    with front_end(server.host, 100_000) as front, pytest.raises(RegistryError) as refused:
        push(front, content)
    assert refused.value.status == 413


def test_without_a_limit_it_is_one_request(server: Server, tmp_path: Path) -> None:
    content = os.urandom(12 * MIB)
    with front_end(server.host, 64 * MIB) as front:
        push(front, content)
    assert [length for command, length in front.passed if command == "PATCH"] == [len(content)]
