"""A stand-in for api.github.com on loopback: a proxy that ends TLS itself, with a certificate of its own CA.

`gh` uses https with fixed names only; a proxy leads it here. The answers match its queries, as far as the
tests need.
"""

from __future__ import annotations

import contextlib
import json
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sandwright import process
from support.localhttp import QuietHandler, listening

HOST = "api.github.com"


@dataclass
class GitHub:
    """A running server. `seen` are the requests: method, path, the Authorization field, the body's text."""

    token: str
    authority: Path
    port: int = 0
    seen: list[tuple[str, str, str, str]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        """The host's variables that direct a program to the stand-in."""
        return {"HTTPS_PROXY": f"http://127.0.0.1:{self.port}", "SSL_CERT_FILE": str(self.authority)}

    def answer(self, path: str, body: str) -> object:
        """The answer to a request."""
        if path.startswith("/graphql"):
            return {"data": self._data(json.loads(body))}
        return {"current_user_url": f"https://{HOST}/user"}

    def _data(self, asked: dict[str, Any]) -> object:
        query = asked["query"]
        request = {"id": "PR_1", "number": 1, "title": "A request", "state": "OPEN", "url": "https://x/1"}
        if "viewer" in query:
            return {"viewer": {"login": "somebody"}}
        if "mutation" in query:
            return {"addComment": {"commentEdge": {"node": {"url": "https://github.com/acme/app/pull/1#1"}}}}
        listed = {"nodes": [request], "totalCount": 1, "pageInfo": {"hasNextPage": False}}
        return {"repository": {"pullRequests": listed, "pullRequest": request}}


@contextlib.contextmanager
def github(folder: Path, token: str) -> Iterator[GitHub]:
    """Serve clients with the token; its certificates are made in `folder`."""
    _certificates(folder)
    server = GitHub(token, folder / "ca.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")

    class Handler(QuietHandler):
        protocol_version = "HTTP/1.1"

        def do_CONNECT(self) -> None:
            server.asked.append(self.path)
            self.send_response(200 if self.path == f"{HOST}:443" else 403)
            self.end_headers()
            if self.path != f"{HOST}:443":
                return
            with context.wrap_socket(self.connection, server_side=True) as inner:
                self.rfile, self.wfile = inner.makefile("rb"), inner.makefile("wb")
                with contextlib.suppress(ssl.SSLError, OSError):
                    self.handle_one_request()
            self.close_connection = True

        def do_GET(self) -> None:
            self._reply("")

        def do_POST(self) -> None:
            self._reply(self.rfile.read(int(self.headers.get("Content-Length", 0))).decode())

        def _reply(self, body: str) -> None:
            given = self.headers.get("Authorization", "")
            server.seen.append((self.command, self.path, given, body))
            good = given == f"token {server.token}"
            content = json.dumps(server.answer(self.path, body) if good else {"message": "Bad credentials"})
            self.send_response(200 if good else 401)
            self.send_header("Content-Type", "application/json")
            self.send_header("X-OAuth-Scopes", "repo, read:org")
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(content.encode())
            self.wfile.flush()

    with listening(Handler) as server.port:
        yield server


def _certificates(folder: Path) -> None:
    """Make a CA, and a certificate by it for the host."""
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")

    def openssl(*words: str) -> None:
        process.run("openssl", *words, cwd=folder, timeout=60)

    openssl("req", "-x509", *key, "-subj", "/CN=a test", "-keyout", "ca.key", "-out", "ca.pem")
    name = ("-subj", f"/CN={HOST}", "-addext", f"subjectAltName=DNS:{HOST}")
    signed = ("-CA", "ca.pem", "-CAkey", "ca.key")
    openssl("req", "-x509", *key, *name, *signed, "-keyout", "server.key", "-out", "server.pem")
