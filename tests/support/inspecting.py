"""A running inspecting proxy in the lab, and clients that send it any bytes."""

from __future__ import annotations

import contextlib
import functools
import re
import socket
import ssl
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandwright.api import Policy
from sandwright.egress import Proxy, proxy
from sandwright.egress.inspection import set_values
from sandwright.policy.facts import CERTIFICATES, HostFacts
from sandwright.policy.resolved import ResolvedPolicy
from support.canary import Arrived, Canary, canary
from support.netlab import WORLD, World, hosts_file

PORT = 8443
API, OPEN, PART, NPM, GIT = "api.example", "open.example", "part.example", "npm.example", "git.example"
TOOLS = "tools.example"
TUNNEL = "other.example"
"""A host of `network.allow`, at the same address as the opened ones."""

SECRET, PLACEHOLDER = "sk-real-0123456789abcdef-real", "sk-fake-0123456789abcdef-fake"

POLICY = f"""
schema: 1
method: bwrap
network:
  mode: proxy
  allow: ['{TUNNEL}:{PORT}', '*.{API}']
  http:
    - host: '{API}:{PORT}'
      methods: [GET, HEAD, POST]
      paths: ['/repos/acme/*', '/stream/**', '/bytes/*', '/elsewhere', '/parts', '/raw']
    - {{host: '{OPEN}:{PORT}'}}
    - {{host: '{PART}:{PORT}', paths: ['/ws/*']}}
    - {{host: '{NPM}:{PORT}', methods: [GET], paths: ['/@acme%2f*']}}
    - {{host: '{GIT}:{PORT}', git: read, repos: ['acme/*']}}
    - {{host: '{TOOLS}:{PORT}', mcp: {{tools: [search, fetch, 'get_*']}}}}
    - {{host: '{TOOLS}:{PORT}', paths: ['/*/tools', '/**/more'], mcp: {{tools: [search]}}}}
    - {{host: '{TOOLS}:{PORT}', methods: [GET, POST], paths: ['/**', '/@x%2f*']}}
credentials:
  http:
    - {{host: '{API}:{PORT}', header: x-api-key, from: 'env:API_KEY'}}
    - {{host: '{TOOLS}:{PORT}', header: x-api-key, from: 'env:API_KEY'}}
"""
HOSTS = (API, OPEN, PART, NPM, GIT, TOOLS)


def policy_with(text: str, authority: str) -> ResolvedPolicy:
    """A policy on a host that trusts one authority."""
    facts = HostFacts(
        os="linux", home="/home/ada", project="/home/ada/p", texts={CERTIFICATES: f"# tests\n{authority}"}
    )
    return Policy.from_text(text).resolve(facts)


@dataclass(frozen=True)
class Reply:
    """The answer on a connection, until its end or a silence."""

    raw: bytes

    @property
    def status(self) -> int:
        """The status of the first answer; 0 for a connection that was closed without one."""
        found = re.match(rb"HTTP/1\.[01] (\d{3})", self.raw)
        return int(found[1]) if found else 0


@dataclass(frozen=True)
class Inspected:
    """A proxy with its opened hosts, and the upstream behind it."""

    policy: ResolvedPolicy
    proxy: Proxy
    canary: Canary

    @property
    def folder(self) -> Path:
        """The directory of the inspecting proxy's files."""
        return self.proxy.directory / "http"

    @functools.cached_property
    def entrance(self) -> tuple[int, bytes]:
        """The relay's port for launchers, and their greeting."""
        port, greeting = (self.proxy.directory / "greeting").read_bytes().split(b"\n", 1)
        return int(port), greeting

    @functools.cached_property
    def trust(self) -> str:
        """The certificates that a sandbox trusts."""
        return (self.proxy.directory / "trust" / "authorities.pem").read_text().split("\n", 1)[1]

    def connection(self, first: bytes = b"", *, timeout: float = 5.0) -> socket.socket:
        """A connection as programs of a sandbox have it, with the first bytes sent on it."""
        port, greeting = self.entrance
        made = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        made.sendall(greeting + first)
        return made

    def tunnel(
        self,
        host: str = API,
        *,
        sni: str | None = None,
        alpn: Sequence[str] = ("http/1.1",),
        request: bytes | None = None,
        context: ssl.SSLContext | None = None,
    ) -> ssl.SSLSocket:
        """A TLS connection with an opened host. Raise ConnectionRefusedError without a tunnel."""
        plain = self.connection(request or f"CONNECT {host}:{PORT} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        with contextlib.ExitStack() as stack:
            stack.callback(plain.close)
            said = head(plain)
            if b" 200 " not in said.split(b"\r\n")[0]:
                raise ConnectionRefusedError(said.decode("latin-1"))
            settings = context or self._shared(tuple(alpn))
            found = settings.wrap_socket(plain, server_hostname=host if sni is None else sni or None)
            stack.pop_all()
            return found

    def believing(self, alpn: Sequence[str] = ()) -> ssl.SSLContext:
        """Settings of a TLS client that trusts the authority of this run."""
        context = ssl.create_default_context(cadata=self.trust)
        if alpn:
            context.set_alpn_protocols(list(alpn))
        return context

    @functools.cached_property
    def _shared(self) -> Callable[[tuple[str, ...]], ssl.SSLContext]:
        """`believing`, once per protocol set: it reads all authorities of this machine."""
        return functools.cache(self.believing)

    def ask(self, sent: bytes, host: str = API, *, patience: float = 5.0) -> Reply:
        """Send bytes to an opened host, and read to the end, or until some seconds of silence."""
        with self.tunnel(host) as connection:
            with contextlib.suppress(OSError):  # a refusal may close it before the whole request arrives
                connection.sendall(sent)
            return Reply(rest(connection, patience))

    @contextlib.contextmanager
    def arriving(self) -> Iterator[list[Arrived]]:
        """The requests that arrive at the upstream during a `with`: complete after it."""
        found: list[Arrived] = []
        before = len(self.canary.arrived)
        yield found
        found += self.canary.arrived[before:]


def head(connection: socket.socket) -> bytes:
    """The head of an answer, and no byte after it."""
    said = b""
    while not said.endswith(b"\r\n\r\n") and (byte := connection.recv(1)):
        said += byte
    return said


def rest(connection: socket.socket, patience: float) -> bytes:
    """All bytes until the end, or until some seconds of silence."""
    connection.settimeout(patience)
    said = []
    with contextlib.suppress(OSError):
        while block := connection.recv(65536):
            said.append(block)
    return b"".join(said)


@contextlib.contextmanager
def inspected(world: World, text: str = POLICY, *, secrets: bool = True) -> Iterator[Inspected]:
    """A proxy with an upstream for all hosts of a policy, for the length of a `with`."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sandwright-inspected-")))
        folder.chmod(0o755)
        with world.inside():
            upstream = stack.enter_context(canary(folder, [*HOSTS, TUNNEL], WORLD, PORT))
        names = folder / "hosts"
        names.write_text(hosts_file({WORLD: " ".join((*HOSTS, TUNNEL))}))
        names.chmod(0o644)
        policy = policy_with(text, upstream.authority)
        running = stack.enter_context(proxy(policy, hosts_file=names, nameservers=("45.33.32.53",)))
        found = Inspected(policy, running, upstream)
        for file, value in (("secrets.map", SECRET), ("placeholders.map", PLACEHOLDER)) if secrets else ():
            set_values(found.folder, file, {f"{host}:{PORT}:x-api-key": value for host in (API, TOOLS)})
        yield found


TARGET = "/repos/acme/x"


def request(
    target: str = TARGET,
    *headers: str,
    method: str = "GET",
    host: str | None = f"{API}:{PORT}",
    version: str = "HTTP/1.1",
    body: bytes = b"",
) -> bytes:
    """A request in a client's form, with the given parts, for a connection that ends with it."""
    lines = [f"{method} {target} {version}", *([f"Host: {host}"] if host is not None else [])]
    lines += [*headers, "Connection: close"]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body
