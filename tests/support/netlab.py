"""Two network namespaces for a test: a machine, and the outside world, with witnesses.

The machine's addresses and the world's look public, so that no rule of a proxy has to be loosened; some of
the world's are private, and answer too, so that only a refusal prevents access. No route leads out of the
two. A socket stays in the namespace in which it was made: the servers are threads of the test.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import struct
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from pathlib import Path

from support import labworker
from support.localhttp import QuietHandler

MACHINE, MACHINE_PRIVATE = "45.33.32.1", "10.99.0.1"
WORLD, OTHER, WORLD6 = "45.33.32.2", "45.33.32.3", "2a00:1234::2"
PRIVATE, METADATA, PRIVATE6 = "10.99.0.2", "169.254.169.254", "fd00:99::2"
WIRE, IDENTITY6 = "168.63.129.16", "fd00:ec2::23"
"""Services of clouds for their machines: Azure's at a public address, and one of EKS."""

NAMESERVER = "45.33.32.53"
PORTS = (80, 443, 8080)

_BLOCK = bytes(1 << 20)
_CLONE_NEWNET = 0x40000000  # linux/sched.h
_LIBC = ctypes.CDLL(None, use_errno=True)

_SETUP = {
    "world": f"""
        ip link set lo up; ip link set world up
        for address in {WORLD}/24 {OTHER}/24 {NAMESERVER}/24 {PRIVATE}/24 {METADATA}/32 {WIRE}/32; do
            ip addr add $address dev world
        done
        for address in {WORLD6}/64 {PRIVATE6}/64 {IDENTITY6}/64; do
            ip addr add $address dev world nodad
        done""",
    "machine": f"""
        ip link set lo up; ip link set machine up
        for a in {MACHINE}/24 {MACHINE_PRIVATE}/24; do ip addr add $a dev machine; done
        for a in {METADATA} {WIRE} {IDENTITY6}; do ip route add $a dev machine; done
        ip addr add 2a00:1234::1/64 dev machine nodad; ip addr add fd00:99::1/64 dev machine nodad""",
}


@dataclass
class World:
    """The outside network. `reached` are our addresses with a connection, one entry per connection."""

    reached: list[str] = field(default_factory=list)
    names: dict[str, list[str]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    namespace: Namespace | None = None

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Enter the outside network, to start a server, for the length of a `with`."""
        assert self.namespace is not None
        with self.namespace.inside():
            yield


class Namespace:
    """A network namespace, open as long as this object."""

    def __init__(self) -> None:
        """Make one."""
        before = _current()
        _check(_LIBC.unshare(_CLONE_NEWNET))
        self.descriptor = _current()
        _check(_LIBC.setns(before, _CLONE_NEWNET))
        os.close(before)

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Enter it with this thread, and with the programs that it starts."""
        before = _current()
        _check(_LIBC.setns(self.descriptor, _CLONE_NEWNET))
        try:
            yield
        finally:
            _check(_LIBC.setns(before, _CLONE_NEWNET))
            os.close(before)

    def close(self) -> None:
        """Close it."""
        os.close(self.descriptor)


@contextlib.contextmanager
def lab(ports: Sequence[int] = PORTS) -> Iterator[World]:
    """Enter the machine; the world beside it serves HTTP at these ports."""
    machine, world = Namespace(), Namespace()
    with contextlib.ExitStack() as stack:
        stack.callback(machine.close)
        stack.callback(world.close)
        with machine.inside():
            place = f"/proc/{os.getpid()}/fd/{world.descriptor}"
            labworker.run("ip", "link", "add", "machine", "type", "veth", "peer", "name", "world")
            labworker.run("ip", "link", "set", "world", "netns", place)
            labworker.run("sh", "-ec", _SETUP["machine"])
        found = World(namespace=world)
        with world.inside():
            labworker.run("sh", "-ec", _SETUP["world"])
            for port in ports:
                stack.enter_context(_web(found, "::", port))
            stack.enter_context(_names(found))
        stack.enter_context(machine.inside())
        yield found


@contextlib.contextmanager
def listener(address: str, port: int = 0) -> Iterator[tuple[int, list[str]]]:
    """A server in this namespace: its port, and the addresses of its clients."""
    found = World()
    with _web(found, address, port) as port_:
        yield port_, found.reached


@contextlib.contextmanager
def _web(world: World, address: str, port: int) -> Iterator[int]:
    """A web server that echoes each request."""

    class Handler(QuietHandler):
        protocol_version = "HTTP/1.1"
        timeout = 2  # seconds for a request: a TLS client waits for an answer, and may send no line break

        def setup(self) -> None:
            world.reached.append(self.request.getsockname()[0].removeprefix("::ffff:"))
            super().setup()

        def do_GET(self) -> None:
            if self.path.startswith("/bytes/"):
                self._bytes(int(self.path.split("/")[2]))
            else:
                body = f"{self.requestline}\n{self.headers}".encode()
                self._head(len(body))
                self.wfile.write(body)

        def _head(self, size: int) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(size))
            self.end_headers()

        def _bytes(self, size: int) -> None:
            self._head(size)
            self.connection.settimeout(None)  # a slow reader still reads
            while size > 0:
                self.wfile.write(_BLOCK[:size])
                size -= len(_BLOCK)

        do_POST = do_OPTIONS = do_GET  # noqa: N815 - the library's names

    class Server(ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """Clients that disconnect are no fault."""

    with Server((address, port), Handler) as server, _serving(server.serve_forever, server.shutdown):
        yield server.server_address[1]


@contextlib.contextmanager
def _names(world: World) -> Iterator[None]:
    """A name server. `names` maps a name to its addresses; a list with `|` gives the part before it once, and
    then the part after it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((NAMESERVER, 53))

        def serve() -> None:
            while True:
                question, client = server.recvfrom(4096)
                if not question:
                    return
                server.sendto(_reply(world, question), client)

        def stop() -> None:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own, contextlib.suppress(OSError):
                server.shutdown(socket.SHUT_RD)
                own.close()

        with _serving(serve, stop):
            yield


_FAMILIES = {1: socket.AF_INET, 28: socket.AF_INET6}


def _reply(world: World, question: bytes) -> bytes:
    labels, at = [], 12
    while question[at]:
        labels.append(question[at + 1 : at + 1 + question[at]].decode())
        at += 1 + question[at]
    name, kind = ".".join(labels).lower(), struct.unpack("!H", question[at + 1 : at + 3])[0]
    world.asked.append(name)
    addresses = world.names.get(name)
    given = [] if addresses is None or kind not in _FAMILIES else list(addresses)
    if "|" in given:
        given = given[: given.index("|")]
        if kind == 1:
            world.names[name] = world.names[name][len(given) + 1 :]
    given = [each for each in given if (":" in each) == (kind == 28)]
    head = question[:2] + struct.pack("!HHHHH", 0x8580 | (3 if addresses is None else 0), 1, len(given), 0, 0)
    packed = [socket.inet_pton(_FAMILIES[kind], each) for each in given]
    records = (struct.pack("!HHHIH", 0xC00C, kind, 1, 1, len(each)) + each for each in packed)
    return head + question[12 : at + 5] + b"".join(records)


@contextlib.contextmanager
def _serving(serve: Callable[[], None], stop: Callable[[], None]) -> Iterator[None]:
    def quiet() -> None:
        with contextlib.suppress(OSError):
            serve()

    thread = threading.Thread(target=quiet, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop()
        thread.join(5)


@contextlib.contextmanager
def placed_hosts_file(names: Mapping[str, str]) -> Iterator[Path]:
    """A hosts file in a directory where squid can read it as another user."""
    with tempfile.TemporaryDirectory(prefix="sandwright-names-") as folder:
        Path(folder).chmod(0o755)
        path = Path(folder, "hosts")
        path.write_text(hosts_file(names))
        path.chmod(0o644)
        yield path


def hosts_file(names: Mapping[str, str]) -> str:
    """The text of a hosts file: names, blank between several, by address."""
    return "".join(f"{address} {several}\n" for address, several in names.items())


def _current() -> int:
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
