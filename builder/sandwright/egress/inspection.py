"""Starts the inspecting proxy of one run: its certificates, its sockets, haproxy itself, and its secrets.

Everything that haproxy listens on is a socket of the supervisor's, which it inherits: under its filter it
can make no Unix socket, and with Landlock it connects to the relay only. Secrets and placeholders come
through its control socket, whose path only this user can reach, and are in its memory alone.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import select
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sandwright import process
from sandwright.documents.record import encode_record
from sandwright.egress.certificates import new_authority
from sandwright.egress.opening import Opened, OpenedHosts
from sandwright.egress.proxy_plan import AUTHORITIES, FILTER, OUT, InspectionPlan
from sandwright.egress.request_log import LOG
from sandwright.errors import HostError
from sandwright.lazy import load
from sandwright.mcp.rules import Entrance, FilteredHost, FilterSettings
from sandwright.render.proxyfacts import DIRECTORY, FILTER_CONNECTIONS
from sandwright.sockets import socket_name

FOLDER = "http"
TRUST = "trust"
"""Directories below that of a proxy: the files that haproxy reads, and the CA certificates that the sandbox
trusts."""

CONTROL = "control.sock"
MAPS = ("secrets.map", "placeholders.map")


class _Started(Protocol):
    @property
    def pid(self) -> int: ...
    def poll(self) -> int | None: ...


@dataclass(frozen=True)
class InspectionSettings:
    """The settings with which the supervisor starts haproxy.

    `opener` identifies its connections (`opening.OpenedHosts`).

    `filtered` are the hosts with rules about MCP tools; `filter_argv` is the command of the message filter.
    """

    argv: tuple[str, ...]
    hosts: tuple[tuple[str, int], ...]
    opener: str
    filtered: tuple[FilteredHost, ...] = ()
    filter_argv: tuple[str, ...] = ()

    @property
    def sockets(self) -> int:
        """The number of haproxy's listening sockets: one per host, and one more for each that is filtered."""
        return len(self.hosts) + len(self.filtered)

    def opened(self, directory: Path) -> OpenedHosts:
        """The hosts, with their sockets below a proxy's directory."""
        paths = [str(directory / FOLDER / f"in-{number}.sock") for number in range(1, self.sockets + 1)]
        inner = {each.index: path for each, path in zip(self.filtered, paths[len(self.hosts) :], strict=True)}
        hosts = (Opened(*host, paths[at], inner.get(at, "")) for at, host in enumerate(self.hosts))
        return OpenedHosts(tuple(hosts), self.opener)


def write_inspection(plan: InspectionPlan, directory: Path, share: Callable[[Path, int], None]) -> None:
    """Make the files of one start below a proxy's directory.

    `share` gives haproxy's account the group's rights in a mode, where it has an account of its own.
    """
    folder, trust = directory / FOLDER, directory / TRUST
    trust.mkdir(mode=0o755)
    trust.chmod(0o755)
    share(folder, 0o750)
    files: dict[str, bytes] = {
        "haproxy.cfg": plan.configuration.replace(DIRECTORY, str(directory)).encode(),
        **{name: bytes.fromhex(text) for name, text in plan.filters.items()},
        **{name: text.encode() for name, text in plan.programs.items()},
        AUTHORITIES: plan.authorities.encode(),
        **dict.fromkeys(MAPS, b""),
    }
    with new_authority(directory, (host for host, _ in plan.hosts)) as authority:
        for number, (host, _) in enumerate(plan.hosts, start=1):
            files[f"{number}.pem"] = authority.certify(host).encode()
        believed = trust / AUTHORITIES
        believed.write_text(plan.authorities + authority.certificate)
        believed.chmod(0o644)
        store = trust / "authorities.jks"
        java_store = load("sandwright.render.authorities:java_store")  # its imports are for such hosts only
        store.write_bytes(java_store(believed.read_text()))
        store.chmod(0o644)
    for name, content in files.items():
        path = folder / name
        path.touch(mode=0o600)
        path.write_bytes(content)
        share(path, 0o640)


@contextlib.contextmanager
def running_inspection(
    directory: Path, settings: InspectionSettings, out_port: int, patience: float
) -> Iterator[tuple[_Started, ...]]:
    """Start haproxy, and its filter of messages if it has one; yield when both answer.

    Raise HostError if one fails.
    """
    folder = directory / FOLDER
    with contextlib.ExitStack() as stack:
        names = {f"SW_IN_{number}": f"in-{number}.sock" for number in range(1, settings.sockets + 1)}
        listeners = {name: stack.enter_context(_unix_listener(folder / file)) for name, file in names.items()}
        listeners["SW_CONTROL"] = stack.enter_context(_unix_listener(folder / CONTROL))
        environment = {name: str(listener.fileno()) for name, listener in listeners.items()}
        log = stack.enter_context((folder / LOG).open("wb"))
        errors = stack.enter_context((folder / "haproxy.err").open("wb"))
        filter_port, filters = stack.enter_context(_running_filter(directory, settings, out_port, patience))
        ports = {OUT: str(out_port), FILTER: str(filter_port)}
        words = (
            functools.reduce(lambda word, name: word.replace(name, ports[name]), ports, each)
            for each in settings.argv
        )
        haproxy = stack.enter_context(
            process.start(
                *words,
                stdout=log,
                stderr=errors,
                env={**environment, "SW_OUT": ports[OUT], "SW_FILTER": ports[FILTER], "PATH": os.defpath},
                cwd="/",
                pass_fds=tuple(listener.fileno() for listener in listeners.values()),
            )
        )
        for listener in listeners.values():
            listener.close()
        _await_answer(folder, haproxy, patience)
        for number in range(1, len(settings.hosts) + 1):
            (folder / f"{number}.pem").unlink()
        yield haproxy, *filters


@contextlib.contextmanager
def _running_filter(
    directory: Path, settings: InspectionSettings, out_port: int, patience: float
) -> Iterator[tuple[int, tuple[_Started, ...]]]:
    """The port of the filter of MCP messages, and its process, once it is ready. Raise HostError.

    The port is 0 without one. It stays ours after the filter's death, since haproxy sends its greeting to any
    process that listens there.
    """
    if not settings.filtered:
        yield 0, ()
        return
    opened = settings.opened(directory)
    entrances = tuple(
        Entrance(
            each,
            opened.greeting(each.index).decode(),
            opened.greeting(each.index, filtered=True).decode(),
        )
        for each in settings.filtered
    )
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=FILTER_CONNECTIONS))
        port: int = listener.getsockname()[1]
        settings_file = stack.enter_context(os.fdopen(os.memfd_create("settings"), "w+b"))
        settings_file.write(encode_record(FilterSettings(entrances, out_port)))
        settings_file.seek(0)
        errors = stack.enter_context((directory / FOLDER / "filter.err").open("wb"))
        words = [word.replace(OUT, str(out_port)) for word in settings.filter_argv]
        number = listener.fileno()
        started = process.start(
            *words,
            str(number),
            stdin=settings_file,
            stderr=errors,
            env={"PATH": os.defpath},
            cwd="/",
            pass_fds=(number,),
        )
        running = stack.enter_context(started)
        assert running.stdout is not None
        if not select.select([running.stdout], [], [], patience)[0] or not running.stdout.readline():
            why = (directory / FOLDER / "filter.err").read_text(errors="replace").strip().splitlines()[-1:]
            raise HostError(f"the filter of messages was not started: {' '.join(why) or 'it said nothing'}")
        yield port, (running,)


def _unix_listener(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with socket_name(str(path)) as name:
        listener.bind(name)
    path.chmod(0o600)
    listener.listen(128)
    return listener


def _await_answer(folder: Path, haproxy: _Started, patience: float) -> None:
    until = time.monotonic() + patience
    while True:
        with contextlib.suppress(OSError, HostError):
            if "Version:" in control(folder, "show info\n"):
                return
        if haproxy.poll() is not None or time.monotonic() > until:
            messages = (folder / "haproxy.err").read_text(errors="replace").strip().splitlines()
            why = [line for line in messages if "ALERT" in line] or messages[-1:] or ["it said nothing"]
            raise HostError(f"haproxy was not started: {why[0]}")
        time.sleep(0.003)


def await_end_of_connections(folder: Path) -> None:
    """Wait until a running proxy has no connection, for a second at most.

    The connection that asks does not count.
    """
    until = time.monotonic() + 1
    with contextlib.suppress(OSError):
        while "\nCurrConns: 0\n" not in control(folder, "show info\n") and time.monotonic() < until:
            time.sleep(0.003)


def set_values(folder: Path, file: str, values: Mapping[str, str]) -> None:
    """Replace the content of one of `MAPS` in a running proxy, all at once. It is in the proxy's memory only.

    Raise HostError if the proxy rejects it, or a value has a line feed.
    """
    if any("\n" in value for value in values.values()):
        raise HostError("a value for the proxy has a line feed")
    path, lines = folder / file, "".join(f"{key} {value}\n" for key, value in values.items())
    version = re.fullmatch(r"New version created: ([0-9]+)", control(folder, f"prepare map {path}\n").strip())
    if version is None:
        raise HostError("the proxy does not take a secret")
    added = [f"add map @{version[1]} {path} <<\n{lines}\n"] if values else []
    for command in (*added, f"commit map @{version[1]} {path}\n"):
        if control(folder, command).strip():
            raise HostError("the proxy does not take a secret")


def control(folder: Path, command: str) -> str:
    """Send a command to a running proxy and give its answer. Raise OSError if the proxy has ended."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(5)
        with socket_name(str(folder / CONTROL)) as name:
            connection.connect(name)
        connection.sendall(command.encode())
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while data := connection.recv(65536):
            answer += data
        return answer.decode(errors="replace")
