"""The protocol between a shim and the bridge: frames with a length, in version 1.

A frame is the length of its payload (four bytes, the highest first), its kind (one byte), and the payload, of
MAX_PAYLOAD bytes at most. The shim speaks first:

| kind | name | from | payload |
|---|---|---|---|
| 1 | CALL | shim | the version (one byte), the number of words (four), each word's length (four) and bytes: the program, the working directory, the arguments |
| 2 | STDIN | shim | bytes for the program's standard input, never more than was granted; none: its end |
| 3 | SIGNAL | shim | the number of a signal (one byte) as Linux numbers it on amd64 |
| 17 | STDOUT | bridge | bytes that the program wrote |
| 18 | STDERR | bridge | the same |
| 19 | EXIT | bridge | how it ended: 0 and its status, or 1 and the number of a signal (two bytes); the last frame |
| 20 | REFUSED | bridge | a status for the shim to exit with (one byte), and why, as text; the last frame |
| 21 | CREDIT | bridge | how many more bytes of standard input may be sent (four bytes) |

A connection is one call. Signals are never stuck behind input that the program doesn't read, as input is only
sent within what was granted; output waits in the socket until the shim takes it. A client that closes its
side, or half of it, has gone: the program is ended.
"""  # noqa: E501 - a table

from __future__ import annotations

import enum
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sandwright.launcher.shim_names import PROTOCOL

VERSION = PROTOCOL
MAX_PAYLOAD = 1 << 20
"""Bytes. A frame with a larger length in its header is refused unread."""

MAX_WORDS = 4096
"""Of a call: its program, its directory and its arguments."""

_HEADER = struct.Struct(">IB")
_LENGTH = struct.Struct(">I")


class FrameKind(enum.IntEnum):
    """The kinds of frames."""

    CALL = 1
    STDIN = 2
    SIGNAL = 3
    STDOUT = 17
    STDERR = 18
    EXIT = 19
    REFUSED = 20
    CREDIT = 21


FROM_SHIM = frozenset({FrameKind.CALL, FrameKind.STDIN, FrameKind.SIGNAL})


class ProtocolError(Exception):
    """The data is not a frame of this protocol. The bridge catches it, and closes the connection."""


@dataclass(frozen=True)
class Frame:
    """One frame."""

    kind: FrameKind
    payload: bytes


@dataclass(frozen=True)
class CallRequest:
    """The content of a CALL: a program's name, its directory, and its arguments as the shim got them."""

    program: bytes
    directory: bytes
    arguments: tuple[bytes, ...]


class FrameReader:
    """Parses bytes as they arrive, and gives complete frames."""

    def __init__(self, allowed: frozenset[FrameKind] = FROM_SHIM) -> None:
        """`allowed` are the accepted kinds."""
        self._allowed = allowed
        self._pending = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Give the frames that `data` completes. Raise ProtocolError for data that can't become a frame."""
        self._pending += data
        while len(self._pending) >= _HEADER.size:
            length, number = _HEADER.unpack_from(self._pending)
            if number not in self._allowed:
                raise ProtocolError(f"a frame of kind {number}")
            if length > MAX_PAYLOAD:
                raise ProtocolError(f"a frame of {length} bytes")
            end = _HEADER.size + length
            if len(self._pending) < end:
                return
            payload = bytes(self._pending[_HEADER.size : end])
            del self._pending[:end]
            yield Frame(FrameKind(number), payload)

    @property
    def midway(self) -> bool:
        """Whether a frame was received in part."""
        return bool(self._pending)


def header(kind: FrameKind, length: int) -> bytes:
    """The header of a payload of `length` bytes."""
    return _HEADER.pack(length, kind)


def encode_frame(kind: FrameKind, payload: bytes = b"") -> bytes:
    """A complete frame: its header and its payload."""
    return _HEADER.pack(len(payload), kind) + payload


def decode_request(payload: bytes) -> CallRequest:
    """The request of a CALL's payload. Raise ProtocolError for anything else, later versions too."""
    if not payload or payload[0] != VERSION:
        raise ProtocolError(f"version {payload[0] if payload else 'nothing'}; this is version {VERSION}")
    words = _decode_words(memoryview(payload)[1:])
    if any(b"\0" in word for word in words):
        raise ProtocolError("a word with a NUL byte")
    return CallRequest(words[0], words[1], tuple(words[2:]))


def encode_exit(status: int) -> bytes:
    """An EXIT frame for a status of `subprocess`, which is negative for a signal."""
    return encode_frame(FrameKind.EXIT, bytes([1, -status]) if status < 0 else bytes([0, status & 0xFF]))


def encode_refusal(status: int, why: str) -> bytes:
    """A REFUSED frame. The shim exits with `status`."""
    return encode_frame(FrameKind.REFUSED, bytes([status]) + why.encode(errors="replace")[:4000])


def encode_credit(amount: int) -> bytes:
    """A CREDIT frame for some bytes."""
    return encode_frame(FrameKind.CREDIT, _LENGTH.pack(amount))


def _decode_words(data: memoryview) -> Sequence[bytes]:
    if len(data) < _LENGTH.size:
        raise ProtocolError("a call that ends before its words")
    (count,) = _LENGTH.unpack_from(data)
    if not 2 <= count <= MAX_WORDS:
        raise ProtocolError(f"a call of {count} words")
    words, position = [], _LENGTH.size
    for _ in range(count):
        if position + _LENGTH.size > len(data):
            raise ProtocolError("a call that ends before its words")
        (length,) = _LENGTH.unpack_from(data, position)
        position += _LENGTH.size
        if length > len(data) - position:
            raise ProtocolError("a word that ends outside its call")
        words.append(bytes(data[position : position + length]))
        position += length
    if position != len(data):
        raise ProtocolError("a call with bytes behind its words")
    return words
