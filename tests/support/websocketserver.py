"""The server's side of a WebSocket (RFC 6455) with the channels of Kubernetes (v4.channel.k8s.io)."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.server
import json
import struct
from collections.abc import Iterator

_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_PIECE = 1 << 15


def serve_program(
    request: http.server.BaseHTTPRequestHandler, answer: tuple[bytes, bytes, int] | None
) -> None:
    """Answer a request with a program's streams and exit status; without an answer, break off half-way."""
    accept(request)
    with contextlib.suppress(OSError):
        if answer is None:
            _send(request, b"\x01half")
            return
        out, err, status = answer
        for channel, data in ((1, out), (2, err)):
            for at in range(0, len(data), _PIECE):
                _send(request, bytes((channel,)) + data[at : at + _PIECE])
        _send(request, b"\x03" + json.dumps(_status(status)).encode())
        request.wfile.write(b"\x88\x00")


def accept(request: http.server.BaseHTTPRequestHandler) -> None:
    """The handshake."""
    key = request.headers["Sec-WebSocket-Key"] + _GUID
    accepted = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
    request.send_response(101)
    for name, value in {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Accept": accepted,
        "Sec-WebSocket-Protocol": "v4.channel.k8s.io",
    }.items():
        request.send_header(name, value)
    request.end_headers()
    request.close_connection = True


def read_messages(request: http.server.BaseHTTPRequestHandler) -> bytes:
    """Accept, and read to the end: the data on channel 0."""
    accept(request)
    found = b""
    for channel, data in _messages(request):
        assert channel == 0
        found += data
    return found


def serve_terminal(
    request: http.server.BaseHTTPRequestHandler, shown: bytes, seen: list[tuple[int, bytes]], *, breaks: bytes
) -> bool:
    """Accept, show a text, then every key that arrives, until ^D; return whether ^D came.

    The keys are in `seen`, with their channel. After `breaks` the connection breaks off.
    """
    accept(request)
    _send(request, b"\x01" + shown)
    for channel, data in _messages(request):
        seen.append((channel, data))
        if channel == 0 and data == b"\x04":
            _send(request, b"\x03" + json.dumps(_status(0)).encode())
            request.wfile.write(b"\x88\x00")
            return True
        if channel == 0 and data == breaks:
            return False
        if channel == 0:
            _send(request, b"\x01<" + data + b">")
    return False


def _messages(request: http.server.BaseHTTPRequestHandler) -> Iterator[tuple[int, bytes]]:
    """Each message's channel and data, to the end."""
    while (head := request.rfile.read(2)) and head[0] & 15 != 8:
        size = head[1] & 127
        if size == 126:
            (size,) = struct.unpack(">H", request.rfile.read(2))
        mask, data = request.rfile.read(4), request.rfile.read(size)
        plain = bytes(each ^ mask[at % 4] for at, each in enumerate(data))
        if head[0] & 15 in (1, 2):
            yield plain[0], plain[1:]


def _status(status: int) -> dict[str, object]:
    if status == 0:
        return {"status": "Success"}
    cause = {"reason": "ExitCode", "message": str(status)}
    return {"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": [cause]}}


def _send(request: http.server.BaseHTTPRequestHandler, data: bytes) -> None:
    """One binary message in one frame."""
    size = len(data)
    length = bytes((size,)) if size < 126 else b"\x7e" + struct.pack(">H", size)
    request.wfile.write(b"\x82" + length + data)
