"""Servers and clients on both sides of a sandbox's loopback, for the tests of ports between them."""

from __future__ import annotations

import contextlib
import functools
import random
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from support.waiting import until

WAIT = 60
REQUEST = b"GET / HTTP/1.0\r\n\r\n"


@dataclass(frozen=True)
class PortsPlace:
    """An environment to start sandboxes. `launch` gives the launcher of a policy with this `network`."""

    launch: Callable[[str], Path]
    environment: Mapping[str, str]
    directory: Path
    user: int | None = None

    def _words(self, network: str, script: str) -> list[str]:
        return [str(self.launch(network)), "busybox", "sh", "-c", script]

    @contextlib.contextmanager
    def running(self, network: str, script: str) -> Iterator[subprocess.Popen[bytes]]:
        """A script of busybox's shell inside, up to its first line of output."""
        with subprocess.Popen(
            self._words(network, f"echo up; {script}"), env=self.environment, cwd=self.directory,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, user=self.user, group=self.user,
        ) as running:  # fmt: skip
            try:
                assert running.stdout is not None
                assert running.stdout.readline() == b"up\n"
                yield running
            finally:
                running.terminate()
                running.wait(WAIT)

    def run(self, network: str, script: str) -> subprocess.CompletedProcess[str]:
        """The same script, to its end."""
        return subprocess.run(
            self._words(network, script), env=self.environment, cwd=self.directory, text=True, check=False,
            stdin=subprocess.DEVNULL, capture_output=True, timeout=2 * WAIT, user=self.user, group=self.user,
        )  # fmt: skip


def free_port() -> int:
    """An unused port, below those that the kernel gives to other sockets (ip(7))."""
    for port in random.sample(range(16384, 32768), 100):
        with socket.socket(socket.AF_INET6) as any_, contextlib.suppress(OSError):
            any_.bind(("::", port))
            return port
    raise OSError("no free port was found")


def ask(address: str, port: int, sent: bytes = REQUEST) -> bytes:
    """The answer of a server; empty if there is none, or if it breaks off first."""
    said = b""
    with contextlib.suppress(OSError), socket.create_connection((address, port), timeout=WAIT) as end:
        end.sendall(sent)
        end.shutdown(socket.SHUT_WR)
        while block := end.recv(1 << 16):
            said += block
    return said


def other_address() -> str:
    """An address of this machine other than its loopback's; empty if it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        with contextlib.suppress(OSError):
            asking.connect(("192.0.2.1", 9))  # no packet is sent
        address: str = asking.getsockname()[0]
        return "" if address.startswith(("127.", "0.")) else address


def busybox_server(port: int) -> str:
    """Words of a shell that start a server, which answers everything with 404."""
    return f"busybox httpd -f -p 127.0.0.1:{port} -h / & "


def busybox_client(port: int) -> str:
    """Words of a shell that print the output of a server on the host."""
    return f"echo word | busybox nc -w 20 127.0.0.1 {port}; "


@contextlib.contextmanager
def host_server(said: bytes) -> Iterator[tuple[int, list[bytes]]]:
    """A server on the host's loopback: its port, and its requests. It sends `said` to every client."""
    told: list[bytes] = []

    def serve() -> None:
        while True:
            try:
                end, _ = listener.accept()
            except OSError:
                return
            with end, contextlib.suppress(OSError):
                end.settimeout(WAIT)
                told.append(end.recv(1 << 16))
                end.sendall(said)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield listener.getsockname()[1], told
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(WAIT)


def _answers(address: str, port: int) -> bool:
    return b" 404 " in ask(address, port)


def only_the_listed_is_reached(place: PortsPlace) -> None:
    """A server inside is reached on its port of the host's loopback, on no other port or address."""
    listed, unlisted = free_port(), free_port()
    servers = busybox_server(listed) + busybox_server(unlisted)
    with place.running(f"mode: none, expose: [{listed}]", servers + "wait"):
        for address in ("127.0.0.1", "::1"):
            until(functools.partial(_answers, address, listed), address)
        assert ask("127.0.0.1", unlisted) == b""
        other = other_address()
        assert not other or ask(other, listed) == b""
    with socket.create_server(("127.0.0.1", listed)):
        pass  # no process has it any more


def only_the_listed_of_the_host_is_reached(place: PortsPlace) -> None:
    """A server on the host is reached inside on its port, at once, and no other port of the host is."""
    with host_server(b"listed\n") as (listed, told), host_server(b"unlisted\n") as (unlisted, others):
        found = place.run(
            f"mode: none, localhost: [{listed}]",
            f"{busybox_client(listed)}{busybox_client(unlisted).replace('-w 20', '-w 2')}:",
        )
        assert (found.returncode, found.stdout) == (0, "listed\n"), found.stderr
        assert (told, others) == ([b"word\n"], [])
        assert ask("127.0.0.1", unlisted) == b"unlisted\n"
