"""An upstream that records each request: HTTPS with a certificate of its own authority, and an echo."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import socket
import socketserver
import ssl
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sandwright.egress.certificates import new_authority
from support.mcpserver import McpServer

_BLOCK = bytes(range(256)) * 1024


@dataclass(frozen=True)
class Arrived:
    """A request at the upstream: the bytes before its body, and its body without chunks."""

    head: bytes
    body: bytes

    @property
    def line(self) -> str:
        """The request line."""
        return self.head.decode("latin-1").split("\r\n")[0]

    @property
    def headers(self) -> list[tuple[str, str]]:
        """Names as they were sent, and values, in their order."""
        lines = self.head.decode("latin-1").split("\r\n")[1:-2]
        return [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]

    def header(self, name: str) -> list[str]:
        """The values of a header."""
        return [value for key, value in self.headers if key.lower() == name]


@dataclass
class Canary:
    """The upstream. `authority` is the PEM of its certificate's issuer.

    `switched` are the bytes after a switch of protocols; `parts` are the chunks of the answer to `/parts`,
    with `pause` seconds after each; `raw` is the whole answer to `/raw`, before it closes.
    """

    port: int
    authority: str
    arrived: list[Arrived] = field(default_factory=list)
    switched: list[bytes] = field(default_factory=list)
    parts: list[bytes] = field(default_factory=list)
    pause: float = 0.0
    raw: bytes = b""
    mcp: McpServer = field(default_factory=McpServer)


def server_context(directory: Path, names: Sequence[str]) -> tuple[ssl.SSLContext, str]:
    """TLS for a server with these names, and the PEM of its certificates' issuer."""
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
    return context, text


@contextlib.contextmanager
def canary(directory: Path, names: Sequence[str], address: str, port: int = 0) -> Iterator[Canary]:
    """Serve HTTPS for names at an address, in this thread's network namespace, for the length of a `with`.

    Every request is answered with 200 and a JSON object of the request, so that it echoes secrets, too. A
    path that begins with `/mcp` is an MCP server's. One that begins with `/stream` is answered in chunks,
    `/bytes/N` with N bytes, `/elsewhere` with a redirect. A request for `websocket` becomes an echo of bytes.
    """
    context, text = server_context(directory, names)
    found = Canary(port, text)
    server = _Server((address, port), type("Handler", (_Handler,), {"found": found}))
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


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128
    context: ssl.SSLContext

    def finish_request(self, request: Any, client_address: Any) -> None:
        request.settimeout(30)
        request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(OSError):
            super().finish_request(self.context.wrap_socket(request, server_side=True), client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report nothing when clients disconnect."""

    def shutdown_request(self, request: socket.socket | tuple[bytes, socket.socket]) -> None:
        with contextlib.suppress(OSError):
            super().shutdown_request(request)


class _Handler(socketserver.StreamRequestHandler):
    """Reads requests byte for byte, and relies only on their lengths."""

    found: Canary

    def handle(self) -> None:
        while head := self._head():
            self._answer(head)
            if b" /raw" in head or any(
                value.lower() == "close" for value in Arrived(head, b"").header("connection")
            ):
                return

    def _head(self) -> bytes:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            line = self.rfile.readline(65537)
            if not line:
                return b""
            head += line
        return head

    def _answer(self, head: bytes) -> None:
        asked = Arrived(head, b"")
        if "100-continue" in asked.header("expect"):
            self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        one = Arrived(head, self._body(asked))
        self.found.arrived.append(one)
        _, path, _ = one.line.split(" ", 2)
        if "websocket" in " ".join(one.header("upgrade")):
            self._switch(one)
        elif path.startswith("/bytes/"):
            self._send_bytes(int(path.partition("?")[0].split("/")[2]))
        elif path.startswith("/raw"):
            self.wfile.write(self.found.raw)
        elif path.lower().startswith("/mcp"):
            self._answer_mcp(one)
        elif path.startswith("/elsewhere"):
            self._send(b"302 Found", b"", b"Location: https://other.example:8443/secret\r\n")
        elif path.startswith("/parts"):
            self._stream(self.found.parts, pause=self.found.pause)
        else:
            answer = json.dumps(
                {"line": one.line, "headers": one.headers, "body": one.body.decode("latin-1")}
            )
            self._echo(one, answer.encode(), streamed=path.startswith("/stream"))

    def _echo(self, one: Arrived, answer: bytes, *, streamed: bool) -> None:
        if streamed:
            self._stream([answer[at : at + 7] for at in range(0, len(answer), 7)])
            return
        echo = " ".join(one.header("x-api-key")).encode("latin-1")
        self._send(b"200 OK", b"" if one.line.startswith("HEAD ") else answer, b"X-Echo: %s\r\n" % echo)

    def _send(self, status: bytes, body: bytes, headers: bytes = b"") -> None:
        head = b"HTTP/1.1 %s\r\n%sContent-Length: %d\r\n\r\n" % (status, headers, len(body))
        self.wfile.write(head + body)

    def _answer_mcp(self, one: Arrived) -> None:
        status, kind, parts = self.found.mcp.answer(one.line.split(" ")[0], one.body)
        if kind == "text/event-stream":
            self._stream(parts, self.found.pause, b"Content-Type: text/event-stream\r\n")
        else:
            typed = f"Content-Type: {kind}\r\n".encode() if kind else b""
            self._send(status.encode(), b"".join(parts), typed)

    def _stream(self, parts: Sequence[bytes], pause: float = 0.0, headers: bytes = b"") -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\n%sTransfer-Encoding: chunked\r\n\r\n" % headers)
        for part in parts:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            time.sleep(pause)
        self.wfile.write(b"0\r\n\r\n")

    def _send_bytes(self, size: int) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        while size > 0:
            self.wfile.write(_BLOCK[:size])
            size -= len(_BLOCK)

    def _switch(self, one: Arrived) -> None:
        """Switch the protocol (RFC 6455, 4.2.2), and echo all bytes."""
        key = "".join(one.header("sec-websocket-key")) + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        accept = base64.b64encode(hashlib.sha1(key.encode(), usedforsecurity=False).digest())
        self.wfile.write(
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            b"Sec-WebSocket-Accept: %s\r\n\r\n" % accept
        )
        while data := self.connection.recv(65536):
            self.found.switched.append(data)
            self.wfile.write(data)

    def _body(self, asked: Arrived) -> bytes:
        if any("chunked" in value for value in asked.header("transfer-encoding")):
            body = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            while self.rfile.readline() not in (b"\r\n", b""):
                """Trailers."""
            return body
        return self.rfile.read(int((asked.header("content-length") or ["0"])[0]))
