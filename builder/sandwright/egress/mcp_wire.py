"""HTTP/1.1 between haproxy and the filter of MCP messages, as haproxy writes it: one request a connection.

haproxy has parsed the request and the answer before, and has refused ambiguous ones. Everything that haproxy
would not write itself is refused here.
"""

from __future__ import annotations

import re
import select
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

MAX_LINE, MAX_HEADERS = 65536, 256
PATIENCE = 60.0
"""The seconds in which a request, or the head of one, has to arrive."""

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})(;.*)?")
_BLOCK = 65536

Header = tuple[str, str]


class WireFault(Exception):
    """The data is not as haproxy writes it, or it ended too early."""


@dataclass(frozen=True)
class Head:
    """The first line of a request or an answer, and its headers with names in small letters."""

    start: str
    headers: tuple[Header, ...]

    def values(self, name: str) -> list[str]:
        """The values of a header."""
        return [value for key, value in self.headers if key == name]

    def without(self, names: Sequence[str]) -> list[Header]:
        """The headers except those with these names."""
        return [each for each in self.headers if each[0] not in names]


class Wire:
    """One end of a connection. While it waits for bytes, `other` must stay there, too."""

    def __init__(self, connection: socket.socket, other: socket.socket | None = None) -> None:
        """`other` is the connection for which the bytes are wanted."""
        self._connection, self._other = connection, other
        self._held = b""

    def line(self) -> bytes:
        """A line, without its CR LF. Raise WireFault for a longer one."""
        while b"\n" not in self._held:
            if len(self._held) > MAX_LINE:
                raise WireFault("a line is too long")
            self._held += self._receive_more()
        line, _, self._held = self._held.partition(b"\n")
        if not line.endswith(b"\r") or b"\r" in line[:-1] or b"\0" in line:
            raise WireFault("a line does not end as lines do")
        return line[:-1]

    def head(self) -> Head:
        """The lines before a body."""
        start = self.line().decode("latin-1")
        headers: list[Header] = []
        while line := self.line().decode("latin-1"):
            name, colon, value = line.partition(":")
            if not colon or not _NAME.fullmatch(name) or len(headers) == MAX_HEADERS:
                raise WireFault("a line is no header")
            headers.append((name.lower(), value.strip(" \t")))
        return Head(start, tuple(headers))

    def body(self, head: Head, *, until_end: bool = False) -> Iterator[bytes]:
        """The parts of a body as they come. Without a length it is empty, or ends with the connection."""
        codings, lengths = head.values("transfer-encoding"), head.values("content-length")
        if codings:
            if codings != ["chunked"] or lengths:
                raise WireFault("the body's length has two readings")
            yield from self._read_chunks()
        elif lengths:
            if len(lengths) > 1 or not re.fullmatch("[0-9]{1,15}", lengths[0]):
                raise WireFault("the body's length is no number")
            yield from self._read_length(int(lengths[0]))
        elif until_end:
            while block := self._read_some(_BLOCK, end=True):
                yield block

    def _read_chunks(self) -> Iterator[bytes]:
        while True:
            found = _SIZE.fullmatch(self.line())
            if found is None:
                raise WireFault("a chunk has no size")
            size = int(found[1], 16)
            if size == 0:
                while self.line():
                    """Trailers are discarded."""
                return
            yield from self._read_length(size)
            if self.line():
                raise WireFault("a chunk is longer than it says")

    def _read_length(self, size: int) -> Iterator[bytes]:
        while size:
            block = self._read_some(min(size, _BLOCK))
            size -= len(block)
            yield block

    def _read_some(self, most: int, *, end: bool = False) -> bytes:
        if not self._held:
            self._held = self._receive_more(end=end)
        block, self._held = self._held[:most], self._held[most:]
        return block

    def _receive_more(self, *, end: bool = False) -> bytes:
        """Bytes that come next. Raise WireFault when either connection ends; `end`: empty for this one."""
        if self._other is not None:
            ready, _, _ = select.select([self._connection, self._other], [], [])
            if self._connection not in ready:
                raise WireFault("the other side closed its connection")
        data = self._connection.recv(_BLOCK)
        if not data and not end:
            raise WireFault("it ended early")
        return data


def write_head(start: str, headers: Sequence[Header]) -> bytes:
    """A head as bytes."""
    return "".join((f"{start}\r\n", *(f"{name}: {value}\r\n" for name, value in headers), "\r\n")).encode(
        "latin-1"
    )


def chunk(data: bytes) -> bytes:
    """A part of a body of unknown length; the empty one ends it."""
    return b"%x\r\n%s\r\n" % (len(data), data)
