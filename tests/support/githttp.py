"""A git server on loopback that requires a token: `git http-backend` behind a few lines of HTTP."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from sandwright import process
from support.localhttp import QuietHandler, listening


@dataclass
class GitServer:
    """A running server. `seen` are the passwords of requests, None for requests without one."""

    root: Path
    token: str
    port: int = 0
    seen: list[str | None] = field(default_factory=list)

    @property
    def url(self) -> str:
        """The server's address."""
        return f"http://127.0.0.1:{self.port}"


@contextlib.contextmanager
def git_server(root: Path, token: str) -> Iterator[GitServer]:
    """Serve the bare repositories below a directory to clients with the token, for reading and writing."""
    server = GitServer(root, token)

    class Handler(QuietHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(b"")

        def do_POST(self) -> None:
            self._answer(self._body())

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding", "") != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length", 0)))
            body = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return body

        def _answer(self, body: bytes) -> None:
            scheme, _, given = self.headers.get("Authorization", "").partition(" ")
            password = base64.b64decode(given).decode().partition(":")[2] if scheme == "Basic" else None
            server.seen.append(password)
            if password != server.token:
                self._send(401, [("WWW-Authenticate", 'Basic realm="git"')], b"")
                return
            path, _, query = self.path.partition("?")
            output = process.run(
                "git", "http-backend", stdin=body, timeout=60,
                env={
                    "PATH": "/usr/bin:/bin", "GIT_PROJECT_ROOT": str(root), "GIT_HTTP_EXPORT_ALL": "1",
                    "PATH_INFO": path, "QUERY_STRING": query, "REQUEST_METHOD": self.command,
                    "CONTENT_TYPE": self.headers.get("Content-Type", ""), "REMOTE_USER": "tester",
                    "CONTENT_LENGTH": str(len(body)), "GIT_CONFIG_NOSYSTEM": "1", "HOME": "/nonexistent",
                    "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                    "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                    "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*",
                },
            ).stdout  # fmt: skip
            head, _, content = output.partition(b"\r\n\r\n")
            pairs = [line.decode().partition(": ")[::2] for line in head.split(b"\r\n")]
            status = int(dict(pairs).get("Status", "200 OK").split()[0])
            self._send(status, [pair for pair in pairs if pair[0] != "Status"], content)

        def _send(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
            self.send_response(status)
            for name, value in [*headers, ("Content-Length", str(len(content)))]:
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

    with listening(Handler) as server.port:
        yield server
