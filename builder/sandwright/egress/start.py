"""Starts the proxy that was planned for a session, and ends it, in as few imports as that takes."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import re
import select
import socket
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Protocol

import sandwright
from sandwright import process, user_dirs
from sandwright.egress.inspection import (
    FOLDER,
    TRUST,
    InspectionSettings,
    await_end_of_connections,
    write_inspection,
)
from sandwright.egress.log import ProxyDecision, decisions
from sandwright.egress.proxy_plan import InspectionPlan, ProxyPlan, SquidAccount
from sandwright.egress.request_log import LOG
from sandwright.egress.squid_settings import free_port, own_addresses
from sandwright.egress.supervisor import (
    ASK,
    MAX_LOGS,
    SupervisorConfiguration,
    answers,
    clean_up,
    proxy_file_bytes,
)
from sandwright.egress.upstream import HostProxies, host_proxies
from sandwright.environment import PROXY_PORT
from sandwright.errors import HostError
from sandwright.render.proxyfacts import (
    DIRECTORY,
    HOST,
    LISTEN,
    OPENER,
    OWN,
    PORT,
    RELAY,
    SECCOMP,
    UPSTREAM,
    WORD,
    nat64,
)

PREFIX = "sandwright-egress-"
_ATTEMPTS = 3
_TAKEN = re.compile("Cannot bind|Unable to open HTTP Socket")
"""squid's messages about a port that another process has; only the last line of several is known here."""

_CODE = "import sys; sys.path.append(sys.argv[1]); from sandwright.egress.supervisor import main; main()"
_GRACE = 5.0


class _Running(Protocol):
    stdout: IO[bytes] | None

    def poll(self) -> int | None: ...


@dataclass(frozen=True)
class Proxy:
    """A running proxy. The package's docstring describes its fields."""

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
    def authorities(self) -> str | None:
        """The directory of the certificates that programs inside believe; None without `network.http`."""
        trust = self.directory / TRUST
        return str(trust) if trust.is_dir() else None

    @property
    def requests(self) -> Path | None:
        """The log of the inspecting proxy, which `RequestLog` reads; None without `network.http`."""
        return self.directory / FOLDER / LOG if self.authorities else None

    @property
    def alive(self) -> bool:
        """Whether the proxy is still running."""
        return self._supervisor.poll() is None

    @property
    def has_full_logs(self) -> bool:
        """Whether the proxy stopped because its logs reached their limit."""
        return proxy_file_bytes(self.directory) > MAX_LOGS

    def settle(self) -> None:
        """Wait until the logs contain each request of a sandbox that has ended, for about a second at most.

        A proxy writes the line after its answer, so the client may have ended by then.
        """
        answers(self.host, self.port, self.greeting)
        if self.requests:
            await_end_of_connections(self.directory / FOLDER)

    def decisions(self) -> Iterator[ProxyDecision]:
        """Its decisions so far, oldest first."""
        return decisions(self.log)


@contextlib.contextmanager
def start_proxy(plan: ProxyPlan, *, log: Path | None = None, timeout: float = 15.0) -> Iterator[Proxy]:
    """Run a planned proxy for the length of a `with`. See the package for the contract."""
    upstream = host_proxies(os.environ)
    with contextlib.ExitStack() as stack:
        supervisor, settings, directory = _start_supervisor(stack, plan, upstream, log, timeout)
        environment = {PROXY_PORT.name: str(settings.port)}
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
class _Place:
    """The environment of one proxy: directory, a port that is free now, the relay's greeting, the way out."""

    directory: Path
    port: int
    upstream: HostProxies
    word: str | None
    opener: str | None = None

    def configuration(self, plan: ProxyPlan) -> str:
        """The plan for this machine. Raise HostError where it has no place for the passed files."""
        addresses = [ipaddress.ip_network(each) for each in own_addresses()]
        addresses += [nat64(each) for each in addresses if isinstance(each, ipaddress.IPv4Network)]
        brought = {
            f"{LISTEN}:{PORT}": f"{HOST}:{self.port}",
            DIRECTORY: str(self.directory),
            OWN: "\n".join(f"acl sw_never dst {each}" for each in addresses),
            UPSTREAM: self.upstream.configuration(),
            **({RELAY: self.word} if self.word else {}),
            **({OPENER: self.opener} if self.opener else {}),
        }
        text = plan.configuration
        for name, value in brought.items():
            if name not in text:
                raise HostError(f"the proxy's configuration has no place for {name}")
            text = text.replace(name, value)
        return text


def _random_address() -> str | None:
    """An address of 120 random bits (RFC 4193); 30 where the kernel has no IPv6. None without our relay."""
    if sys.platform != "linux":
        return None
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6, socket.SOCK_STREAM):
        return str(ipaddress.IPv6Address((0xFD << 120) | int.from_bytes(os.urandom(15))))
    return str(ipaddress.IPv4Address((1 << 30) | (int.from_bytes(os.urandom(4)) >> 2)))


def _relay_greeting(location: _Place) -> str:
    """The greeting of the relay: a header of version 1 of the PROXY protocol."""
    if location.word is None:
        return ""
    family, here = ("TCP6", "::1") if ":" in location.word else ("TCP4", HOST)
    return f"PROXY {family} {location.word} {here} 1 {location.port}\r\n"


def _start_supervisor(
    stack: contextlib.ExitStack, plan: ProxyPlan, upstream: HostProxies, log: Path | None, patience: float
) -> tuple[_Running, SupervisorConfiguration, Path]:
    """A supervisor whose squid answers. If another process took the free port, try another port."""
    for attempt in range(1, _ATTEMPTS + 1):
        directory = _make_directory(plan.account)
        words = (_random_address() if name in plan.configuration else None for name in (RELAY, OPENER))
        location = _Place(directory, free_port(HOST), upstream, *words)
        settings = _supervisor_settings(
            plan, location, None if log is None else str(log.absolute()), patience
        )
        with contextlib.ExitStack() as this:
            this.callback(clean_up, directory, settings.log, settings.keep_log)
            try:
                supervisor = this.enter_context(_supervisor(plan, location, settings))
            except HostError as fault:
                if attempt < _ATTEMPTS and _TAKEN.search(str(fault)):
                    continue
                raise
            stack.push(this.pop_all())
            return supervisor, settings, directory
    raise AssertionError("the last attempt returns or raises")  # pragma: no cover


def _supervisor_settings(
    plan: ProxyPlan, location: _Place, log: str | None, patience: float
) -> SupervisorConfiguration:
    """The supervisor's settings."""
    service = f"sandwright{os.urandom(6).hex()}"
    command = (
        word.replace(DIRECTORY, str(location.directory)).replace(LISTEN, str(location.port))
        for word in plan.command
    )
    argv = (
        *_argv_with_ports(tuple(command), location.upstream.ports),
        "-N",
        "-n",
        service,
        "-f",
        f"{location.directory}/squid.conf",
    )
    log_path = f"{location.directory}/squid/access.log"
    return SupervisorConfiguration(
        argv,
        service,
        HOST,
        location.port,
        _relay_greeting(location),
        (HOST, PORT),
        log_path,
        log,
        patience,
        _inspection_settings(plan.inspection, location),
        MAX_LOGS,
    )


def _argv_with_ports(command: tuple[str, ...], ports: tuple[int, ...]) -> tuple[str, ...]:
    """The words that start squid, with ports that it may connect to beside the policy's."""
    at = next((index for index, word in enumerate(command) if word.startswith("connect=")), None)
    if at is None:  # its ports are not restricted
        return command
    return (*command[:at], *(f"connect={port}" for port in ports), *command[at:])


def _inspection_settings(plan: InspectionPlan | None, location: _Place) -> InspectionSettings | None:
    if plan is None or location.opener is None:
        return None
    argv, filter_argv = (
        tuple(word.replace(DIRECTORY, str(location.directory)) for word in words)
        for words in (plan.command, plan.filter_command)
    )
    return InspectionSettings(argv, plan.hosts, location.opener, plan.filtered, filter_argv)


def _make_directory(account: SquidAccount | None) -> Path:
    """A new directory whose name squid's configuration can hold; in it one that squid can write.

    Others can't pass, but for squid's account where that is another.
    """
    base = (
        user_dirs.accounts_directory()
        if account
        else user_dirs.private(f"{user_dirs.private(user_dirs.runtime())}/egress")
    )
    if not WORD.fullmatch(base):
        raise HostError(
            f"{base!r} cannot be a word of squid's configuration: "
            "set XDG_RUNTIME_DIR to a directory of another name"
        )
    directory = Path(base, f"{PREFIX}{os.urandom(16).hex()}")
    squid_directory = directory / "squid"
    for path in (directory, squid_directory, directory / FOLDER):
        path.mkdir(mode=0o700)
    _share_with_squid(account, directory, 0o710)
    if account is not None:
        os.chown(squid_directory, account.uid, account.gid)
    os.mkfifo(directory / ASK, 0o600)
    return directory


def _share_with_squid(account: SquidAccount | None, path: Path, mode: int) -> None:
    """Give squid's account, where it has one, the group's rights in `mode`; no other user."""
    path.chmod(mode & 0o700)
    if account is not None:
        os.chown(path, -1, account.gid)
        path.chmod(mode)


def _write_configuration(plan: ProxyPlan, location: _Place) -> None:
    """Write the configuration, which squid's account can read."""
    (location.directory / "errors").mkdir(mode=0o700)
    _share_with_squid(plan.account, location.directory / "errors", 0o750)
    files = {name: text.encode() for name, text in plan.pages.items()}
    files["squid.conf"] = location.configuration(plan).encode()
    if location.word is not None:
        # squid asks for the name of each address that connections say they come from: not a server of names.
        hosts = f"{location.opener} opener.sandwright.invalid\n".encode() if location.opener else b""
        with contextlib.suppress(FileNotFoundError):
            hosts += Path(plan.hosts_file or "/etc/hosts").read_bytes()
        files["hosts"] = hosts + f"\n{location.word} relay.sandwright.invalid\n".encode()
        files["greeting"] = (
            f"{location.port}\n{_relay_greeting(location)}".encode()
        )  # for launchers that say it themselves
    files[SECCOMP] = bytes.fromhex(plan.seccomp)
    if plan.inspection is not None:
        write_inspection(plan.inspection, location.directory, partial(_share_with_squid, plan.account))
    for name, content in files.items():
        path = location.directory / name
        path.touch(mode=0o600)
        path.write_bytes(content)
        _share_with_squid(plan.account, path, 0o640)


@contextlib.contextmanager
def _supervisor(plan: ProxyPlan, location: _Place, settings: SupervisorConfiguration) -> Iterator[_Running]:
    """A supervisor that said `ready`. It ends with this, or when the kernel closes our end of its pipe.

    It is started first, since an interpreter takes longer to start than the configuration to write.
    """
    read, write = os.pipe()
    with contextlib.ExitStack() as stack:
        lifeline = stack.enter_context(os.fdopen(write, "wb", buffering=0))
        with os.fdopen(read, "rb") as theirs:
            package = Path(sandwright.__file__).parent.parent
            words = (sys.executable, "-I", "-S", "-X", "utf8", "-c", _CODE, package, location.directory)
            started = process.start(*words, stdin=theirs, env={"PATH": os.defpath}, cwd="/")
            supervisor = stack.enter_context(started)
        stack.callback(_end_supervisor, supervisor, lifeline)
        _write_configuration(plan, location)
        lifeline.write(settings.to_json())
        answer = _supervisor_answer(supervisor, settings.patience + _GRACE)
        if answer != "ready":
            raise HostError(f"cannot start the proxy: {answer}")
        yield supervisor


def _supervisor_answer(supervisor: _Running, patience: float) -> str:
    """The one line that the supervisor writes."""
    assert supervisor.stdout is not None
    ready, _, _ = select.select([supervisor.stdout], [], [], patience)
    if not ready:
        return "its supervisor says nothing"
    return supervisor.stdout.readline().decode(errors="replace").strip()


def _end_supervisor(supervisor: _Running, lifeline: IO[bytes]) -> None:
    """Let the supervisor clean up; if it takes too long, do it here."""
    lifeline.close()
    process.ended_within(supervisor.poll, _GRACE)
