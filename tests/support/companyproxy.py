"""A company's proxy as a witness: it accepts CONNECT and plain requests, and records them."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field


@dataclass
class CompanyProxy:
    """A company's proxy, and the requests to it. `asked` are their first lines, `logins` their
    Proxy-Authorization.

    `hosts` are the names that it resolves; others get 502. `login` is the required one, if any; `namespace`
    enters the network in which it connects.
    """

    hosts: Mapping[str, str]
    login: str = ""
    namespace: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext
    port: int = 0
    asked: list[str] = field(default_factory=list)
    logins: list[str] = field(default_factory=list)

    def serve(self, client: socket.socket) -> None:
        """Answer one connection."""
        with client:
            head = b""
            while b"\r\n\r\n" not in head and (block := client.recv(4096)):
                head += block
            if not head:
                return
            lines = head.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
            named = (line.partition(":")[2].strip() for line in lines if "authorization" in line.lower())
            login = next(named, "")
            self.asked.append(lines[0])
            self.logins.append(login)
            if self.login and login != self.login:
                client.sendall(
                    b"HTTP/1.1 407 Proxy Authentication Required\r\n"
                    b'Proxy-Authenticate: Basic realm="company"\r\nContent-Length: 0\r\n\r\n'
                )
                return
            self._forward(client, head, lines[0].split()[1])

    def _forward(self, client: socket.socket, head: bytes, target: str) -> None:
        tunnel = head.startswith(b"CONNECT ")
        host, _, port = (target if tunnel else target.split("/")[2]).partition(":")
        if host not in self.hosts:
            client.sendall(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
            return
        with self.namespace():
            server = socket.create_connection((self.hosts[host], int(port or 80)), timeout=10)
        with server:
            if tunnel:
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                server.sendall(head)
            back = threading.Thread(target=_copy, args=(server, client), daemon=True)
            back.start()
            _copy(client, server)
            back.join(10)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while block := source.recv(65536):
            target.sendall(block)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def company_proxy(
    hosts: Mapping[str, str],
    *,
    login: str = "",
    namespace: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
    address: str = "127.0.0.1",
) -> Iterator[CompanyProxy]:
    """A proxy that serves for the length of a `with`, in the network namespace of the caller."""
    found = CompanyProxy(hosts, login, namespace)
    with socket.create_server((address, 0)) as listener:
        found.port = listener.getsockname()[1]

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    threading.Thread(target=handle, args=(client,), daemon=True).start()

        def handle(client: socket.socket) -> None:
            with contextlib.suppress(OSError):
                found.serve(client)

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield found
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(10)
