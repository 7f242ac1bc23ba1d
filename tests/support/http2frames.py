"""HTTP/2 as bytes (RFC 9113, 7541): frames and headers with any content, and the answers."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, GOAWAY, CONTINUATION = 0, 1, 3, 4, 7, 9
END_STREAM, END_HEADERS = 1, 4

_STATUS = {8: 200, 9: 204, 10: 206, 11: 304, 12: 400, 13: 404, 14: 500}
"""Indexes of the static table (RFC 7541, A)."""

Headers = Sequence[tuple[str, str]]


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """A frame."""
    return len(payload).to_bytes(3) + struct.pack("!BBI", kind, flags, stream) + payload


def packed(headers: Headers) -> bytes:
    """Headers as literals that no table stores, without Huffman's code."""
    return b"".join(b"\0" + _string(name) + _string(value) for name, value in headers)


def _string(text: str) -> bytes:
    data = text.encode("latin-1")
    if len(data) < 127:
        return bytes([len(data)]) + data
    rest, number = b"", len(data) - 127
    while number >= 128:
        rest += bytes([number & 127 | 128])
        number >>= 7
    return b"\x7f" + rest + bytes([number]) + data


def opening(headers: Headers, body: bytes = b"") -> bytes:
    """The first bytes of a connection with one request."""
    ends = END_HEADERS | (0 if body else END_STREAM)
    first = PREFACE + frame(SETTINGS, 0, 0, b"") + frame(HEADERS, ends, 1, packed(headers))
    return first + (frame(DATA, END_STREAM, 1, body) if body else b"")


@dataclass(frozen=True)
class Answer:
    """The answer to one request. `status` is 0 if the stream or the connection was closed instead."""

    status: int
    body: bytes


def answer(connection: socket.socket, patience: float) -> Answer:
    """The answer to the request on stream 1; all data until the connection ends, or is silent."""
    status, body = 0, b""
    for kind, flags, stream, payload in _frames(connection, patience):
        if kind == GOAWAY or (stream == 1 and kind == RST_STREAM):
            break
        if stream != 1:
            continue
        if kind == HEADERS:
            status = status or _status(payload)
        elif kind == DATA:
            body += payload
        if flags & END_STREAM:
            break
    return Answer(status, body)


def _status(block: bytes) -> int:
    """The status, which servers write first: indexed, or as a literal (haproxy does not encode digits)."""
    if block[0] & 0x80:
        return _STATUS[block[0] & 0x7F]
    at = block.index(b"\x03")
    return int(block[at + 1 : at + 4])


def _frames(connection: socket.socket, patience: float) -> Iterator[tuple[int, int, int, bytes]]:
    connection.settimeout(patience)
    data = b""
    while True:
        while len(data) >= 9 and len(data) >= 9 + int.from_bytes(data[:3]):
            size = int.from_bytes(data[:3])
            kind, flags, stream = struct.unpack("!BBI", data[3:9])
            yield kind, flags, stream & 0x7FFFFFFF, data[9 : 9 + size]
            data = data[9 + size :]
        try:
            block = connection.recv(65536)
        except OSError:
            return
        if not block:
            return
        data += block
