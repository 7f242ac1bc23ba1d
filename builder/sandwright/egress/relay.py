"""Carries connections from a socket in one network namespace to a port of another, without looking at them.

A socket belongs to the network namespace in which it was made, in any process: one process accepts in the
sandbox's and connects in its own. The bytes go from socket to pipe to socket in the kernel (splice(2)), so
one thread of Python carries more than squid does.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import select
import socket
import time
from collections import deque

from sandwright.egress.opening import OpenedHosts, Opening, Undecided, Upstream, Way, connecting

CHUNK = 1 << 18
"""Bytes that a direction holds at most, and the requested size of its pipe."""

ROUNDS = 16
"""The number of moves in one direction before others have their turn."""

MAX_CONNECTIONS = 1024
"""Connections of all sandboxes of one relay together; further ones are closed. Fewer if descriptors are
few."""

_EACH, _OTHERS = 6, 64
"""Descriptors: two sockets and two pipes for a connection, and the others that this process has open."""

_EVENTS = select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP | select.EPOLLET

Pipe = tuple[int, int]


class _Pipes:
    """Empty pipes, to be used again."""

    def __init__(self) -> None:
        self._free: list[Pipe] = []

    def take(self) -> Pipe:
        if self._free:
            return self._free.pop()
        pipe = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        with contextlib.suppress(OSError):  # a user has only so much (pipe-user-pages-soft)
            fcntl.fcntl(pipe[1], fcntl.F_SETPIPE_SZ, CHUNK)
        return pipe

    def give(self, pipe: Pipe, *, empty: bool) -> None:
        if empty and len(self._free) < 32:
            self._free.append(pipe)
        else:
            os.close(pipe[0])
            os.close(pipe[1])


class _Direction:
    """One direction of a connection. It has a pipe only while there are bytes in it."""

    def __init__(
        self, source: socket.socket, sink: socket.socket, pipes: _Pipes, greeting: bytes = b""
    ) -> None:
        self._source, self._sink, self._pipes = source, sink, pipes
        self._pipe: Pipe | None = None
        self._held = 0
        if greeting:
            self._pipe = pipes.take()
            self._held = os.write(self._pipe[1], greeting)
        self._ended = False
        self.done = False

    def move(self) -> bool:
        """Move until nothing moves; True when it stopped only to let others move. Raise OSError at faults."""
        if self.done:
            return False
        for _ in range(ROUNDS):
            taken, written = self._fill_pipe(), self._drain_pipe()
            if self._ended and not self._held:
                with contextlib.suppress(OSError):
                    self._sink.shutdown(socket.SHUT_WR)
                self.done = True
                return False
            if not taken and not written:
                return False
        return True

    def close(self) -> None:
        if self._pipe is not None:
            self._pipes.give(self._pipe, empty=not self._held)
            self._pipe = None

    def _fill_pipe(self) -> int:
        if self._ended or self._held >= CHUNK:
            return 0
        self._pipe = self._pipe or self._pipes.take()
        try:
            count = os.splice(self._source.fileno(), self._pipe[1], CHUNK - self._held, flags=_FLAGS)
        except BlockingIOError:
            count = 0
        else:
            self._ended = count == 0
        self._held += count
        return count

    def _drain_pipe(self) -> int:
        count = 0
        if self._held and self._pipe is not None:
            with contextlib.suppress(BlockingIOError):
                count = os.splice(self._pipe[0], self._sink.fileno(), self._held, flags=_FLAGS)
        self._held -= count
        if not self._held:
            self.close()
        return count


_FLAGS = os.SPLICE_F_NONBLOCK | os.SPLICE_F_MOVE


class _Connection:
    """A connection from a sandbox, and ours to the port that it leads to."""

    def __init__(self, inside: socket.socket, outside: socket.socket, pipes: _Pipes, greeting: bytes) -> None:
        self.ends = (inside, outside)
        self.waits = False
        self._ways = (_Direction(inside, outside, pipes, greeting), _Direction(outside, inside, pipes))

    def move(self) -> bool:
        """Move both ways; True when there is more to do at once. Raise OSError when it is over."""
        more = [way.move() for way in self._ways]
        if all(way.done for way in self._ways):
            raise ConnectionError("both have said all")
        return any(more)

    def close(self) -> None:
        for way in self._ways:
            way.close()
        for end in self.ends:
            end.close()


class Relay:
    """Connects any number of listening sockets to one port on this side's loopback.

    With `opened` hosts, the first bytes of a connection decide whether it leads to the proxy that reads their
    requests instead (`egress.opening`); connections of that proxy become tunnels.
    """

    def __init__(
        self, host: str, port: int, greeting: bytes = b"", opened: OpenedHosts | None = None
    ) -> None:
        """Connect to a TCP port, and send `greeting` first in each connection."""
        self._squid = Upstream((host, port), greeting)
        self._opened = opened
        self._epoll = select.epoll()
        self._pipes = _Pipes()
        self._listening: dict[int, tuple[socket.socket, Way]] = {}
        self._openings: dict[int, Opening] = {}
        self._connections: dict[int, _Connection] = {}
        self._waiting: deque[_Connection] = deque()
        self._room = _room()

    def fileno(self) -> int:
        """A descriptor that can be read when `turn` has something to do."""
        return self._epoll.fileno()

    @property
    def busy(self) -> bool:
        """Whether `turn` has something to do, although nothing new came."""
        return bool(self._waiting)

    def listen(self, listener: socket.socket, way: Way = "sandbox") -> None:
        """Take connections from a listening socket too, which is closed with `forget`."""
        listener.setblocking(False)
        self._listening[listener.fileno()] = (listener, way)
        self._epoll.register(listener.fileno(), select.EPOLLIN)

    def forget(self, listener: socket.socket) -> None:
        """Close a listening socket; its connections go on until they end."""
        if self._listening.pop(listener.fileno(), None) is not None:
            self._epoll.unregister(listener.fileno())
            listener.close()

    def turn(self) -> None:
        """Do all work that is possible now, without waiting."""
        for number, event in self._epoll.poll(0):
            if number in self._listening:
                self._accept_connection(*self._listening[number])
            elif number in self._openings:
                self._lead_on(self._openings[number], broken=bool(event & select.EPOLLERR))
            elif number in self._connections:
                self._move_bytes(self._connections[number], broken=bool(event & select.EPOLLERR))
        for _ in range(len(self._waiting)):
            connection = self._waiting.popleft()
            connection.waits = False
            self._move_bytes(connection, broken=False)
        if self._openings:
            now = time.monotonic()
            for late in [each for each in set(self._openings.values()) if each.until < now]:
                self._abandon(late)

    def close(self) -> None:
        """Close all sockets."""
        for listener, _ in list(self._listening.values()):
            self.forget(listener)
        for opening in set(self._openings.values()):
            self._abandon(opening)
        for connection in set(self._connections.values()):
            self._drop(connection)
        self._epoll.close()

    def _accept_connection(self, listener: socket.socket, way: Way) -> None:
        """Take a connection, or close it where there is no room or nothing to lead it to."""
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            inside = stack.enter_context(listener.accept()[0])
            inside.setblocking(False)
            if len(self._connections) + len(self._openings) < 2 * self._room:
                if self._opened is None:
                    self._connect(inside, self._squid)
                else:
                    self._watch_opening(Opening(inside, way, self._squid, self._opened))
                stack.pop_all()

    def _watch_opening(self, opening: Opening) -> None:
        """Wait for more bytes of a connection without an upstream."""
        for end in opening.ends:
            if end.fileno() not in self._openings:
                self._openings[end.fileno()] = opening
                self._epoll.register(end.fileno(), _EVENTS)

    def _lead_on(self, opening: Opening, *, broken: bool) -> None:
        """Read the first bytes of a connection, and connect it to the upstream that they name."""
        if opening.ends[0].fileno() not in self._openings:
            return  # led since
        try:
            if broken:
                raise ConnectionError("it is broken")
            upstream = opening.decide()
        except Undecided:
            self._watch_opening(opening)
        except OSError:
            self._abandon(opening)
        else:
            self._forget_opening(opening)
            try:
                self._connect(opening.ends[0], upstream)
            except OSError:
                for end in opening.ends:
                    end.close()

    def _forget_opening(self, opening: Opening) -> None:
        for end in opening.ends:
            if self._openings.pop(end.fileno(), None) is not None:
                self._epoll.unregister(end.fileno())

    def _abandon(self, opening: Opening) -> None:
        self._forget_opening(opening)
        for end in opening.ends:
            end.close()

    def _connect(self, inside: socket.socket, upstream: Upstream) -> None:
        """Begin to connect. Raise OSError where that fails at once."""
        connection = _Connection(inside, connecting(upstream.target), self._pipes, upstream.greeting)
        for end in connection.ends:
            if end.family != socket.AF_UNIX:
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._epoll.register(end.fileno(), _EVENTS)
        self._connections.update(dict.fromkeys((end.fileno() for end in connection.ends), connection))

    def _move_bytes(self, connection: _Connection, *, broken: bool) -> None:
        if connection.ends[0].fileno() not in self._connections:
            return  # dropped since
        try:
            more = not broken and connection.move()
        except OSError:
            broken = True
        if broken:
            self._drop(connection)
        elif more and not connection.waits:
            connection.waits = True
            self._waiting.append(connection)

    def _drop(self, connection: _Connection) -> None:
        for end in connection.ends:
            del self._connections[end.fileno()]
            self._epoll.unregister(end.fileno())
        connection.close()


def _room() -> int:
    """The number of connections that this process has descriptors for."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MAX_CONNECTIONS if limit < 0 else max(1, min(MAX_CONNECTIONS, (limit - _OTHERS) // _EACH))
