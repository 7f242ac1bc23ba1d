"""Decides by the first bytes of a connection where it leads: to squid, or to an inspected host.

The bytes are only peeked at. A sandbox asks for a tunnel with CONNECT. If the tunnel is to a host of
`network.http`, the relay answers itself, and connects it to the proxy that reads requests. Everything else,
and everything in doubt, goes to squid unchanged. squid refuses these hosts to the sandbox, so a mistake here
can only choose the stricter way.
"""

from __future__ import annotations

import errno
import os
import re
import socket
import time
from dataclasses import dataclass
from typing import Literal

from sandwright.sockets import socket_name

MAX_HEAD = 8192
"""Bytes of a request for a tunnel, with its headers; longer ones go to squid."""

MAX_GREETING = 107
"""Bytes of the longest line of the PROXY protocol, version 1."""

PATIENCE = 30.0
"""Seconds in which the first bytes must have arrived."""

Address = str | tuple[str, int]
"""The path of a Unix socket, or a host and port of IPv4."""

ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"

_CONNECT = re.compile(rb"CONNECT ([A-Za-z0-9.-]{1,253}):([0-9]{1,5}) HTTP/1\.[01]\r\n")
_ACCEPTED = re.compile(rb"HTTP/1\.[01] 200[ \r]")
_METHOD = b"CONNECT "


@dataclass(frozen=True)
class Opened:
    """A host whose requests are read: the socket on which its proxy listens, and the tunnel to it.

    `inner` is the socket on which the proxy receives the requests that its message filter passes, or empty.
    """

    host: str
    port: int
    socket: str
    inner: str = ""

    @property
    def request(self) -> bytes:
        """The request for the tunnel from squid."""
        name = f"{self.host}:{self.port}"
        return f"CONNECT {name} HTTP/1.1\r\nHost: {name}\r\n\r\n".encode()


@dataclass(frozen=True)
class OpenedHosts:
    """The hosts in the order of the proxy's sockets, and the greeting of its connections.

    `opener` is the address by which squid recognizes them (PROXY protocol). It is random, so that no other
    process of this machine can pass for the proxy, on either side of it.
    """

    hosts: tuple[Opened, ...]
    opener: str

    def greeting(self, index: int, *, filtered: bool = False) -> bytes:
        """The first line of a connection to the proxy, or from it (PROXY protocol, version 1).

        `filtered`: from the filter of messages, back to the proxy.
        """
        family, here = ("TCP6", "::1") if ":" in self.opener else ("TCP4", "127.0.0.1")
        return f"PROXY {family} {self.opener} {here} {2 if filtered else 1} {index + 1}\r\n".encode()

    def index(self, host: bytes, port: int) -> int | None:
        """The index of a host and port; None where it is no opened host."""
        found = (at for at, each in enumerate(self.hosts) if (each.host.encode(), each.port) == (host, port))
        return next(found, None)


class Undecided(Exception):
    """The destination is not known before more bytes arrive."""


Way = Literal["sandbox", "launcher", "proxy"]
"""The connecting side: programs of a sandbox, its launcher for them (which sends squid's greeting itself), or
the proxy that reads requests."""


@dataclass(frozen=True)
class Upstream:
    """The target of a connection, an address or a connected socket, and the first bytes to send there."""

    target: Address | socket.socket
    greeting: bytes = b""


class Opening:
    """A connection whose destination is not known yet. `until` is when it is given up (monotonic)."""

    def __init__(self, inside: socket.socket, way: Way, squid: Upstream, opened: OpenedHosts) -> None:
        self.ends = [inside]
        self.until = time.monotonic() + PATIENCE
        self._way, self._squid, self._opened = way, squid, opened
        self._request = b""

    def decide(self) -> Upstream:
        """Give the destination, once the bytes that name it have arrived.

        Bytes that are only for the relay are taken from the socket. Raise Undecided before, and OSError if
        the connection leads nowhere.
        """
        if self._way == "launcher":
            if not starts_with(peek(self.ends[0]), self._squid.greeting):
                raise ConnectionError("it does not know the greeting")
            take(self.ends[0], len(self._squid.greeting))
            self._way = "sandbox"
        return self._tunnel() if self._way == "proxy" else self._lead_sandbox()

    def _lead_sandbox(self) -> Upstream:
        inside = self.ends[0]
        head = tunnel_head(peek(inside))
        index = None if head is None else self._opened.index(*head[:2])
        if head is None or index is None:
            return self._squid
        take(inside, head[2])
        inside.send(ESTABLISHED)
        return Upstream(self._opened.hosts[index].socket, self._opened.greeting(index))

    def _tunnel(self) -> Upstream:
        """The tunnel that squid opens to the host that the proxy names; the proxy itself, for its filter."""
        if len(self.ends) == 1:
            index, filtered = self._named_host()
            host = self._opened.hosts[index]
            if filtered:
                return Upstream(host.inner, self._opened.greeting(index))
            self._request = self._opened.greeting(index) + host.request
            self.ends.append(connecting(self._squid.target))
        outside = self.ends[1]
        if self._request:
            try:
                sent = outside.send(self._request)
            except BlockingIOError:
                raise Undecided from None
            self._request = self._request[sent:]
        length = accepted_head(peek(outside))
        if length is None:
            raise ConnectionError("squid refuses it")
        take(outside, length)
        return Upstream(outside)

    def _named_host(self) -> tuple[int, bool]:
        """The host that a connection names, and whether it is the filter's."""
        data = peek(self.ends[0])
        if b"\n" not in data and len(data) < MAX_GREETING:
            raise Undecided
        for index, host in enumerate(self._opened.hosts):
            for filtered in (False, True)[: 2 if host.inner else 1]:
                greeting = self._opened.greeting(index, filtered=filtered)
                if data.startswith(greeting):
                    take(self.ends[0], len(greeting))
                    return index, filtered
        raise ConnectionError("it is not the proxy")


def connecting(target: Address | socket.socket) -> socket.socket:
    """A socket that connects to an address. Raise OSError where that fails at once."""
    if isinstance(target, socket.socket):
        return target
    family = socket.AF_UNIX if isinstance(target, str) else socket.AF_INET
    outside = socket.socket(family, socket.SOCK_STREAM)
    try:
        outside.setblocking(False)
        fault = _try_connecting(outside, target)
        if fault not in (0, errno.EINPROGRESS):
            raise OSError(fault, os.strerror(fault))
    except OSError:
        outside.close()
        raise
    return outside


def _try_connecting(outside: socket.socket, target: Address) -> int:
    if not isinstance(target, str):
        return outside.connect_ex(target)
    with socket_name(target) as name:
        return outside.connect_ex(name)


def tunnel_head(data: bytes) -> tuple[bytes, int, int] | None:
    """The host, the port and the length of a whole request for a tunnel; None for anything else.

    Raise Undecided while `data` may become one.
    """
    if not data.startswith(_METHOD[: len(data)]):
        return None
    end = data.find(b"\r\n\r\n")
    found = _CONNECT.match(data)
    if end < 0:
        if len(data) >= MAX_HEAD or (b"\n" in data and not found):
            return None
        raise Undecided
    return found and (found[1].lower().removesuffix(b"."), int(found[2]), end + 4)


def accepted_head(data: bytes) -> int | None:
    """The length of squid's answer that opens a tunnel; None for another answer. Raise Undecided before."""
    end = data.find(b"\r\n\r\n")
    if end < 0:
        if len(data) >= MAX_HEAD:
            return None
        raise Undecided
    return end + 4 if _ACCEPTED.match(data) else None


def starts_with(data: bytes, expected: bytes) -> bool:
    """Whether `data` begins with a secret. Raise Undecided until as many bytes have arrived.

    An answer to fewer bytes would reveal whether they are right, so an attacker could find the secret byte by
    byte.
    """
    if len(data) < len(expected):
        raise Undecided
    return data.startswith(expected)


def peek(connection: socket.socket) -> bytes:
    """Read the bytes that have arrived without consuming them.

    Raise Undecided if there are none, ConnectionError at the end of the stream.
    """
    try:
        data = connection.recv(MAX_HEAD, socket.MSG_PEEK)
    except BlockingIOError:
        raise Undecided from None
    if not data:
        raise ConnectionError("it ended before it said where to")
    return data


def take(connection: socket.socket, length: int) -> None:
    """Consume bytes that `peek` has returned."""
    while length > 0:
        length -= len(connection.recv(length))
