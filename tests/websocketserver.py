"""The server's side of a WebSocket (RFC 6455) with the channels of Kubernetes (v4.channel.k8s.io)."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.server
import json
import struct

_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_PIECE = 1 << 15


def serve_program(
    request: http.server.BaseHTTPRequestHandler, answer: tuple[bytes, bytes, int] | None
) -> None:
    """Answer a request with a program's streams and exit status; without an answer, break off half-way."""
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
