"""Starts the proxy of a session, and ends it."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import secrets
import select
import socket
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol

import sandwright
from sandwright import places, process
from sandwright.egress.decisions import ProxyDecision, decisions
from sandwright.egress.place import (
    InstalledSquid,
    SquidAccount,
    find_squid,
    free_port,
    own_addresses,
    squid_account,
    unprivileged,
)
from sandwright.egress.supervisor import ASK, SupervisorConfiguration, clear
from sandwright.errors import HostError, RenderError, UsageError
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.proxy import PORT, ProxyPlace, quote_squid, render_proxy
from sandwright.render.recipe import HOST

PREFIX = "sandwright-egress-"
_ATTEMPTS = 3
_GRACE = 5.0


class _Running(Protocol):
    stdout: IO[bytes] | None

    def poll(self) -> int | None: ...


@dataclass(frozen=True)
class Proxy:
    """A proxy that runs. See the package for what its fields are."""

    host: str
    port: int
    directory: Path
    log: Path
    environment: Mapping[str, str]
    greeting: bytes = field(repr=False)
    _supervisor: _Running = field(repr=False)

    @property
    def url(self) -> str:
        """`http://host:port`."""
        return f"http://{self.host}:{self.port}"

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._supervisor.poll() is None

    def decisions(self) -> Iterator[ProxyDecision]:
        """What it decided until now, oldest first."""
        return decisions(self.log)


@contextlib.contextmanager
def proxy(
    policy: ResolvedPolicy,
    *,
    log: Path | None = None,
    hosts_file: Path | None = None,
    nameservers: tuple[str, ...] = (),
    timeout: float = 15.0,
) -> Iterator[Proxy]:
    """Run a proxy for a policy for the length of a `with`. See the package for the contract.

    `hosts_file` and `nameservers` take the place of the machine's own, for names that only it should know.
    `timeout` is how many seconds squid may take until it answers.
    """
    if policy.network.mode != "proxy":
        raise UsageError(f"network.mode is {policy.network.mode}: there is nothing for a proxy to do")
    squid = find_squid()
    order = _Order(
        policy=policy,
        squid=squid,
        account=squid_account(squid),
        hosts_file=None if hosts_file is None else str(hosts_file),
        nameservers=nameservers,
        log=None if log is None else str(log.absolute()),
        patience=timeout,
    )
    with contextlib.ExitStack() as stack:
        supervisor, settings, directory = _started(stack, order)
        environment = {"SANDWRIGHT_EGRESS": str(directory), "SANDWRIGHT_PROXY_PORT": str(settings.port)}
        yield Proxy(
            settings.host,
            settings.port,
            directory,
            Path(settings.log),
            environment,
            settings.greeting.encode(),
            supervisor,
        )


@dataclass(frozen=True)
class _Order:
    """What was asked for, and what there is to do it with."""

    policy: ResolvedPolicy
    squid: InstalledSquid
    account: SquidAccount | None
    hosts_file: str | None
    nameservers: tuple[str, ...]
    log: str | None
    patience: float

    def place(self, directory: Path) -> ProxyPlace:
        """Where squid is told to live, with a port that is free now."""
        word = _word()
        return ProxyPlace(
            log=f"{directory}/squid/access.log",
            cache_log=f"{directory}/squid/cache.log",
            errors=f"{directory}/errors",
            listen=HOST,
            port=free_port(HOST),
            word=word,
            own=own_addresses(),
            hosts_file=self.hosts_file if word is None else f"{directory}/hosts",
            nameservers=self.nameservers,
            icmp=self.squid.icmp,
        )

    def settings(self, directory: Path, place: ProxyPlace) -> SupervisorConfiguration:
        """What the supervisor is told."""
        service = f"sandwright{uuid.uuid4().hex[:12]}"
        configuration = f"{directory}/squid.conf"
        argv = (*unprivileged(self.account), self.squid.program, "-N", "-n", service, "-f", configuration)
        inside = (HOST, PORT)
        greeting = _greeting(place)
        return SupervisorConfiguration(
            argv, service, HOST, place.port, greeting, inside, place.log, self.log, self.patience
        )


def _word() -> str | None:
    """An address of 120 random bits (RFC 4193); 30 where the kernel has no IPv6. None without our relay."""
    if sys.platform != "linux":
        return None
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6, socket.SOCK_STREAM):
        return str(ipaddress.IPv6Address((0xFD << 120) | secrets.randbits(120)))
    return str(ipaddress.IPv4Address((1 << 30) | secrets.randbits(30)))


def _greeting(place: ProxyPlace) -> str:
    """What the relay says first: the header of version 1 of the PROXY protocol."""
    if place.word is None:
        return ""
    family, here = ("TCP6", "::1") if ":" in place.word else ("TCP4", HOST)
    return f"PROXY {family} {place.word} {here} 1 {place.port}\r\n"


def _started(stack: contextlib.ExitStack, order: _Order) -> tuple[_Running, SupervisorConfiguration, Path]:
    """A supervisor whose squid answers. Somebody else may take the port that was free: then with another."""
    for attempt in range(1, _ATTEMPTS + 1):
        directory = _directory(order.account)
        place = order.place(directory)
        settings = order.settings(directory, place)
        with contextlib.ExitStack() as this:
            this.callback(clear, directory, settings.log, settings.keep_log)
            _write(directory, order, place)
            try:
                supervisor = this.enter_context(_supervisor(directory, settings))
            except HostError as fault:
                if attempt < _ATTEMPTS and "Cannot bind" in str(fault):
                    continue
                raise
            stack.push(this.pop_all())
            return supervisor, settings, directory
    raise AssertionError("the last attempt returns or raises")  # pragma: no cover


def _directory(account: SquidAccount | None) -> Path:
    """A new directory that squid can be told of; in it one that squid can write.

    Others can't pass, but for squid's account where that is another.
    """
    base = places.passable() if account else places.private(f"{places.private(places.runtime())}/egress")
    try:
        quote_squid(base)
    except RenderError as fault:
        raise HostError(f"{fault}: set XDG_RUNTIME_DIR to a directory of another name") from fault
    directory = Path(base, f"{PREFIX}{uuid.uuid4().hex}")
    own = directory / "squid"
    for path in (directory, own):
        path.mkdir(mode=0o700)
    _share(directory, account, 0o710)
    if account is not None:
        os.chown(own, account.uid, account.gid)
    os.mkfifo(directory / ASK, 0o600)
    return directory


def _share(path: Path, account: SquidAccount | None, mode: int) -> None:
    """Let squid's account, where it has one of its own, do what the group may in `mode`; nobody else."""
    path.chmod(mode & 0o700)
    if account is not None:
        os.chown(path, -1, account.gid)
        path.chmod(mode)


def _write(directory: Path, order: _Order, place: ProxyPlace) -> None:
    """The configuration, which squid reads as whoever it is."""
    (directory / "errors").mkdir(mode=0o700)
    _share(directory / "errors", order.account, 0o750)
    files = {artifact.name: artifact.content for artifact in render_proxy(order.policy, place)}
    if place.word is not None:
        # squid asks for the name of each address that connections say they come from: not a server of names.
        hosts = b""
        with contextlib.suppress(FileNotFoundError):
            hosts = Path(order.hosts_file or "/etc/hosts").read_bytes()
        files["hosts"] = hosts + f"\n{place.word} relay.sandwright.invalid\n".encode()
    for name, content in files.items():
        path = directory / name
        path.touch(mode=0o600)
        path.write_bytes(content)
        _share(path, order.account, 0o640)


@contextlib.contextmanager
def _supervisor(directory: Path, settings: SupervisorConfiguration) -> Iterator[_Running]:
    """A supervisor that said `ready`. It ends with this, or when the kernel closes our end of its pipe."""
    read, write = os.pipe()
    with contextlib.ExitStack() as stack:
        lifeline = stack.enter_context(os.fdopen(write, "wb", buffering=0))
        with os.fdopen(read, "rb") as theirs:
            argv = (sys.executable, "-P", "-s", "-m", "sandwright.egress.supervisor", directory)
            started = process.start(*argv, stdin=theirs, env=_environment(), cwd="/")
            supervisor = stack.enter_context(started)
        stack.callback(_end, supervisor, lifeline)
        lifeline.write(settings.to_json())
        said = _answer(supervisor, settings.patience + _GRACE)
        if said != "ready":
            raise HostError(f"the proxy can't be started: {said}")
        yield supervisor


def _environment() -> dict[str, str]:
    """What the supervisor needs to find its code and squid; nothing of the session's."""
    package = Path(sandwright.__file__).parent.parent
    return {"PATH": process.search_path(), "PYTHONPATH": str(package)}


def _answer(supervisor: _Running, patience: float) -> str:
    """The one line that the supervisor says."""
    assert supervisor.stdout is not None
    ready, _, _ = select.select([supervisor.stdout], [], [], patience)
    if not ready:
        return "its supervisor says nothing"
    return supervisor.stdout.readline().decode(errors="replace").strip()


def _end(supervisor: _Running, lifeline: IO[bytes]) -> None:
    """Let the supervisor clear up; what it does not do in time is done without it."""
    lifeline.close()
    until = time.monotonic() + _GRACE
    while supervisor.poll() is None and time.monotonic() < until:
        time.sleep(0.005)
