"""An upstream that writes down what arrived: HTTPS with a certificate of its own authority, and an echo."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from sandwright.egress.certificates import new_authority


@dataclass
class Arrived:
    """A request as the upstream got it: its line, its headers in their order, and its body."""

    line: str
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> list[str]:
        """The values of a header."""
        return [value for key, value in self.headers if key.lower() == name]


@dataclass
class Canary:
    """The upstream. `authority` is the PEM of who signed its certificate."""

    port: int
    authority: str
    arrived: list[Arrived] = field(default_factory=list)


@contextlib.contextmanager
def canary(directory: Path, names: Sequence[str], address: str, port: int = 0) -> Iterator[Canary]:
    """Serve HTTPS for names at an address, in this thread's network namespace, for the length of a `with`.

    Every request is answered with 200 and a JSON object of what arrived, so that it echoes secrets, too; a
    path that begins with `/stream` is answered in chunks.
    """
    with new_authority(directory, names) as authority:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        by_name = {}
        for name in names:
            file = directory / f"{name}.pem"
            file.write_text(authority.certify(name))
            by_name[name] = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            by_name[name].load_cert_chain(file)
        context.load_cert_chain(directory / f"{names[0]}.pem")
        text = authority.certificate

    def chosen(connection: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
        if name in by_name:
            connection.context = by_name[name]

    context.sni_callback = chosen
    found = Canary(port, text)
    server = _Server((address, port), _handler(found))
    found.port = server.server_address[1]
    server.context = context
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    context: ssl.SSLContext

    def finish_request(self, request: Any, client_address: Any) -> None:
        request.settimeout(30)
        with contextlib.suppress(OSError):
            super().finish_request(self.context.wrap_socket(request, server_side=True), client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that go away."""

    def shutdown_request(self, request: socket.socket | tuple[bytes, socket.socket]) -> None:
        with contextlib.suppress(OSError):
            super().shutdown_request(request)


def _handler(found: Canary) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one_request(self) -> None:
            self.raw_requestline = self.rfile.readline(65537)
            if not self.raw_requestline or not self.parse_request():
                self.close_connection = True
                return
            one = Arrived(self.requestline, list(self.headers.items()), self._body())
            found.arrived.append(one)
            data = {"line": one.line, "headers": one.headers, "body": one.body.decode("latin-1")}
            answer = json.dumps(data).encode()
            self.send_response(200)
            self.send_header("X-Echo", " ".join(self.headers.get_all("x-api-key", [])))
            if self.path.startswith("/stream"):
                self._stream(answer)
                return
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer)

        def _stream(self, answer: bytes) -> None:
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for at in range(0, len(answer), 7):
                part = answer[at : at + 7]
                self.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
            self.wfile.write(b"0\r\n\r\n")

        def _body(self) -> bytes:
            if "chunked" in self.headers.get("Transfer-Encoding", ""):
                body = b""
                while size := int(self.rfile.readline().split(b";")[0], 16):
                    body += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
                return body
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler
