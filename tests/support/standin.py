"""A stand-in for a registry, in this process, with faults on demand, which no real registry has.

Without a fault it is an honest, small registry of distribution-spec 1.1. A fault applies to requests whose
line matches a pattern; faults are used up in order, except the last one.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import re
import socket
import ssl
import threading
import urllib.parse
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

from sandwright.rootfs.descriptor import OCI_INDEX
from support.localhttp import QuietHandler

Fault = Callable[["Handler"], bool]
"""Handles a request, and returns whether it did; otherwise the honest registry does."""


@dataclass
class Seen:
    """A received request."""

    line: str
    headers: dict[str, str]
    body: bytes
    client: tuple[str, int]


@dataclass
class Rule:
    """Faults for the requests whose line matches."""

    pattern: re.Pattern[str]
    faults: list[Fault]


@dataclass
class Content:
    """The registry's content: blobs and manifests by digest, tags, uploads under way."""

    blobs: dict[str, bytes] = field(default_factory=dict)
    manifests: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    uploads: dict[str, bytes] = field(default_factory=dict)


class Handler(QuietHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    server: StandIn
    body: bytes

    def handle_request(self) -> None:
        self.body = self._read_body()
        line = f"{self.command} {self.path}"
        with self.server.lock:
            self.server.seen.append(Seen(line, dict(self.headers), self.body, self.client_address))
            rule = next((each for each in self.server.rules if each.pattern.search(line)), None)
            fault = None
            if rule is not None and rule.faults:
                fault = rule.faults.pop(0) if len(rule.faults) > 1 else rule.faults[0]
        if fault is not None and fault(self):
            return
        self.honest()

    do_GET = do_HEAD = do_PUT = do_POST = do_PATCH = do_DELETE = handle_request  # noqa: N815

    def reply(self, status: int, body: bytes = b"", *, length: int | None = None, **headers: Any) -> None:
        """Answer. Names of headers have `_` for `-`."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if status != 204:
            self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        if self.command != "HEAD":
            with contextlib.suppress(OSError):
                self.wfile.write(body)

    def cut(self) -> None:
        """End the connection with a reset."""
        with contextlib.suppress(OSError):
            self.wfile.flush()
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.close_connection = True
        self.connection.close()

    def refuse(self, status: int, code: str, message: str = "") -> None:
        """Answer with an error as registries do."""
        body = json.dumps({"errors": [{"code": code, "message": message}]}).encode()
        self.reply(status, body, Content_Type="application/json")

    def _read_body(self) -> bytes:
        left = int(self.headers.get("Content-Length") or 0)
        held = []
        while left:
            piece = self.rfile.read(min(left, 1 << 16))
            if not piece:
                break
            held.append(piece)
            left -= len(piece)
        return b"".join(held)

    def honest(self) -> None:
        """Answer like a correct registry."""
        path, _, query = self.path.partition("?")
        fields = dict(urllib.parse.parse_qsl(query))
        if path == "/v2/":
            self.reply(200, b"{}", Content_Type="application/json")
        elif match := re.fullmatch(r"/v2/(.+)/manifests/([^/]+)", path):
            self._manifest(match[2])
        elif match := re.fullmatch(r"/v2/(.+)/blobs/uploads/", path):
            self._begin(match[1], fields)
        elif match := re.fullmatch(r"/v2/(.+)/blobs/uploads/([^/]+)", path):
            self._upload(match[2], fields)
        elif match := re.fullmatch(r"/v2/(.+)/blobs/([^/]+)", path):
            self._blob(match[2])
        else:
            self.refuse(404, "UNSUPPORTED")

    def _manifest(self, what: str) -> None:
        content = self.server.content
        if self.command == "PUT":
            digest = f"sha256:{hashlib.sha256(self.body).hexdigest()}"
            content.manifests[digest] = (self.headers["Content-Type"], self.body)
            if not what.startswith("sha256:"):
                content.tags[what] = digest
            self.reply(201, Docker_Content_Digest=digest)
            return
        digest = content.tags.get(what, what)
        if digest not in content.manifests:
            self.refuse(404, "MANIFEST_UNKNOWN", "manifest unknown")
            return
        media_type, body = content.manifests[digest]
        self.reply(200, body, Content_Type=media_type, Docker_Content_Digest=digest)

    def _blob(self, digest: str) -> None:
        body = self.server.content.blobs.get(digest)
        if body is None:
            self.refuse(404, "BLOB_UNKNOWN")
            return
        wanted = re.fullmatch(r"bytes=([0-9]+)-", self.headers.get("Range", ""))
        if wanted is None:
            self.reply(200, body, Content_Type="application/octet-stream")
            return
        start = int(wanted[1])
        if start >= len(body):
            self.reply(416)
            return
        part = f"bytes {start}-{len(body) - 1}/{len(body)}"
        self.reply(206, body[start:], Content_Range=part, Content_Type="application/octet-stream")

    def _begin(self, repository: str, fields: dict[str, str]) -> None:
        if fields.get("mount") in self.server.content.blobs:
            self.reply(201)
            return
        name = uuid.uuid4().hex
        self.server.content.uploads[name] = b""
        self.reply(202, Location=f"/v2/{repository}/blobs/uploads/{name}?state=1")

    def _upload(self, name: str, fields: dict[str, str]) -> None:
        content = self.server.content
        if name not in content.uploads:
            self.refuse(404, "BLOB_UPLOAD_UNKNOWN")
            return
        held = content.uploads[name]
        if self.command == "DELETE":
            del content.uploads[name]
            self.reply(204)
            return
        if self.command == "PATCH":
            start = int(self.headers["Content-Range"].partition("-")[0])
            if start != len(held):
                self.reply(416, Location=self.path, Range=f"0-{max(len(held) - 1, 0)}")
                return
        held = content.uploads[name] = held + self.body
        if self.command != "PUT":
            status = 202 if self.command == "PATCH" else 204
            self.reply(status, Location=self.path, Range=f"0-{max(len(held) - 1, 0)}")
            return
        digest = f"sha256:{hashlib.sha256(held).hexdigest()}"
        if digest != fields.get("digest"):
            self.refuse(400, "DIGEST_INVALID", "provided digest did not match uploaded content")
            return
        content.blobs[digest] = content.uploads.pop(name)
        self.reply(201, Docker_Content_Digest=digest)


class StandIn(ThreadingHTTPServer):
    """The stand-in. `host` is its form in references; `seen` has every request."""

    daemon_threads = True

    def __init__(self, *, certificate: tuple[Path, Path] | None = None) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content = Content()
        self.rules: list[Rule] = []
        self.seen: list[Seen] = []
        self.lock = threading.Lock()
        self.released = threading.Event()
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self.socket = context.wrap_socket(self.socket, server_side=True)

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server_port}"

    def fault(self, pattern: str, *faults: Fault) -> None:
        """Add faults for the requests whose line (`GET /v2/…`) matches a pattern."""
        self.rules.append(Rule(re.compile(pattern), list(faults)))

    def lines(self, pattern: str = "") -> list[str]:
        """The lines of the received requests."""
        return [each.line for each in self.seen if re.search(pattern, each.line)]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect, which these tests cause."""


@contextlib.contextmanager
def stand_in(*, certificate: tuple[Path, Path] | None = None) -> Iterator[StandIn]:
    """A stand-in for the length of a `with`."""
    with StandIn(certificate=certificate) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.released.set()
            server.shutdown()
            thread.join(5)


def honest(handler: Handler) -> bool:
    """No fault."""
    return False


def answer(status: int, body: bytes = b"", **headers: Any) -> Fault:
    """Give this answer."""

    def fault(handler: Handler) -> bool:
        handler.reply(status, body, **headers)
        return True

    return fault


def error(status: int, code: str, message: str = "", **headers: str) -> Fault:
    """Answer with an error of the registry."""
    body = json.dumps({"errors": [{"code": code, "message": message}]}).encode()
    return answer(status, body, Content_Type="application/json", **headers)


def cut(handler: Handler) -> bool:
    """Reset the connection without an answer."""
    handler.cut()
    return True


def cut_after(count: int) -> Fault:
    """Send the first bytes of a blob, and reset the connection."""

    def fault(handler: Handler) -> bool:
        digest = handler.path.rpartition("/")[2]
        body = handler.server.content.blobs[digest]
        start = int(re.sub(r"[^0-9]", "", handler.headers.get("Range", "")) or 0)
        status = 206 if start else 200
        headers: dict[str, Any] = {"Content_Range": f"bytes {start}-{len(body) - 1}/{len(body)}"}
        sent, length = body[start : start + count], len(body) - start
        handler.reply(status, sent, length=length, **headers)
        handler.cut()
        return True

    return fault


def needs_token(realm: str, token: str) -> Fault:
    """Refuse requests without a token."""

    def fault(handler: Handler) -> bool:
        if handler.headers.get("Authorization") == f"Bearer {token}":
            return False
        challenge = f'Bearer realm="{realm}",service="stand-in",scope="repository:a/b:pull"'
        handler.reply(401, b"{}", WWW_Authenticate=challenge)
        return True

    return fault


def basic(user: str, password: str) -> str:
    """The header of Basic authentication (RFC 7617)."""
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def listing(handler: Handler) -> bool:
    """The referrers API: manifests with a subject are listed."""
    subject = handler.path.rpartition("/")[2]
    found = []
    for digest, (media_type, raw) in list(handler.server.content.manifests.items()):
        document = json.loads(raw)
        if (document.get("subject") or {}).get("digest") == subject:
            entry = {"mediaType": media_type, "digest": digest, "size": len(raw)}
            more = {key: document[key] for key in ("artifactType", "annotations") if key in document}
            found.append({**entry, **more})
    body = json.dumps({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": found}).encode()
    return answer(200, body, Content_Type=OCI_INDEX)(handler)
