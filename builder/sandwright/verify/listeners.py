"""Listeners on the host, of every kind that a sandbox could reach.

Each records the words that it receives.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from sandwright.verify.canary import CanaryListener

_LONGEST_WORD = 256


@dataclass(frozen=True)
class CanaryListeners:
    """The host's listeners.

    `loopback` and `datagrams` are ports on 127.0.0.1. `address` and `port` are a way in from outside: an
    address of this host that is not its loopback's, empty where it has none. `path` is a Unix socket in a
    readable directory, `later` another there that didn't exist when artifacts were rendered,
    `written` one like that in a writable directory, `abstract` the name of one without a path.
    """

    loopback: int
    datagrams: int
    address: str
    port: int
    path: Path
    later: Path
    written: Path
    abstract: str
    _all: tuple[CanaryListener, ...]
    _stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def heard(self, word: str) -> bool:
        """Whether any listener was sent `word`."""
        return any(canary.heard(word) for canary in self._all)

    def at(self, port: int) -> CanaryListener | None:
        """A further listener on a port of the loopback; None if another process listens there."""
        try:
            listener = self._stack.enter_context(socket.create_server(("127.0.0.1", port)))
        except OSError:
            return None
        canary = CanaryListener(listener)
        self._stack.enter_context(_hearing(canary))
        return canary

    def visitor(self, port: int, word: str) -> Visitor:
        """A client that sends a word to a port of the loopback until it gets an answer."""
        found = Visitor(port, self.address, word)
        self._stack.enter_context(_hearing(found))
        return found


class Visitor:
    """A client that tries to reach a port of the host's loopback.

    `answer` is the received answer, `elsewhere` whether the same port of another address was open then.
    """

    def __init__(self, port: int, address: str, word: str) -> None:
        """`address` is another one of this host's, empty for none."""
        self._port, self._address, self._word = port, address, word
        self._over = threading.Event()
        self.answer = b""
        self.elsewhere = False

    def listen(self) -> None:
        """Try until there is an answer."""
        while not self.answer and not self._over.wait(0.02):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port), 5) as end:
                self.elsewhere = self.elsewhere or self._is_open_elsewhere()
                end.settimeout(5)
                end.sendall(self._word.encode())
                self.answer = end.recv(_LONGEST_WORD)

    def stop(self) -> None:
        """End `listen`, wherever it runs."""
        self._over.set()

    def _is_open_elsewhere(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection((self._address, self._port), 5):
            return bool(self._address)
        return False


class _Datagrams(CanaryListener):
    """A listener for datagrams."""

    def listen(self) -> None:
        """Receive datagrams, until the socket is shut down."""
        while True:
            try:
                word = self._listener.recv(_LONGEST_WORD)
            except OSError:
                return
            if not word:
                return
            self._heard.add(word)


@contextlib.contextmanager
def canary_listeners(directory: Path, written: Path, word: str) -> Iterator[CanaryListeners]:
    """Listen for the length of a `with`.

    Unix sockets lie in `directory` and in `written`, and `word` is part of a name.
    """
    with contextlib.ExitStack() as stack:
        path = directory / "socket"
        abstract = f"sandwright-{word}"
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        address = _own_address()
        wide = stack.enter_context(socket.create_server((address or "127.0.0.1", 0)))
        udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        udp.bind(("127.0.0.1", 0))
        local = [stack.enter_context(_unix(name)) for name in (str(path), f"\0{abstract}")]
        unknown = [directory.parent / f"unknown{number}" for number in (1, 2)]  # as the kernel knows them
        local += [stack.enter_context(_unix(str(name))) for name in unknown]
        later, other = unknown[0].rename(directory / "later"), unknown[1].rename(written / "host-socket")
        listeners = (*(CanaryListener(each) for each in (tcp, wide, *local)), _Datagrams(udp))
        for canary in listeners:
            stack.enter_context(_hearing(canary))
        yield CanaryListeners(
            loopback=tcp.getsockname()[1],
            datagrams=udp.getsockname()[1],
            address=address,
            port=wide.getsockname()[1],
            path=path,
            later=later,
            written=other,
            abstract=abstract,
            _all=listeners,
            _stack=stack,
        )


def _unix(name: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(name)
    listener.listen()
    return listener


def _own_address() -> str:
    """An address of this host that others can reach: the source of its connections. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect(("192.0.2.1", 9))  # RFC 5737: documentation, never answered
        except OSError:
            return ""
        address: str = asking.getsockname()[0]
        return "" if address.startswith("127.") else address


@contextlib.contextmanager
def _hearing(canary: CanaryListener | Visitor) -> Iterator[None]:
    thread = threading.Thread(target=canary.listen, daemon=True)
    thread.start()
    try:
        yield
    finally:
        canary.stop()
        thread.join(timeout=5)
