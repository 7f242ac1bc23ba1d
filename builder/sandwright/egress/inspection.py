"""Starts the inspecting proxy of one run: its certificates, its sockets, haproxy itself, and its secrets.

Everything that haproxy listens on is a socket of the supervisor's, which it inherits: under its filter it
can make no Unix socket, and with Landlock it connects to the relay only. Secrets and placeholders come
through its control socket, whose path only this user can reach, and are in its memory alone.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sandwright import process
from sandwright.egress.certificates import new_authority
from sandwright.egress.opening import Opened, OpenedHosts
from sandwright.egress.proxy_plan import AUTHORITIES, OUT, InspectionPlan
from sandwright.egress.request_log import LOG
from sandwright.errors import HostError
from sandwright.lazy import load
from sandwright.render.proxyfacts import DIRECTORY

FOLDER = "http"
TRUST = "trust"
"""Directories below that of a proxy: what haproxy reads, and what the sandbox believes."""

CONTROL = "control.sock"
MAPS = ("secrets.map", "placeholders.map")


class _Started(Protocol):
    @property
    def pid(self) -> int: ...
    def poll(self) -> int | None: ...


@dataclass(frozen=True)
class InspectionSettings:
    """What the supervisor needs to start it. `opener` is what its connections say (`opening.OpenedHosts`)."""

    argv: tuple[str, ...]
    hosts: tuple[tuple[str, int], ...]
    opener: str

    def opened(self, directory: Path) -> OpenedHosts:
        """The hosts, with their sockets below a proxy's directory."""
        sockets = (str(directory / FOLDER / f"in-{number}.sock") for number in range(1, len(self.hosts) + 1))
        return OpenedHosts(
            tuple(Opened(*host, path) for host, path in zip(self.hosts, sockets, strict=True)), self.opener
        )


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
        "mask.lua": plan.mask.encode(),
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
) -> Iterator[_Started]:
    """Haproxy, once it answers. Raise HostError when it does not start."""
    folder = directory / FOLDER
    with contextlib.ExitStack() as stack:
        names = {f"SW_IN_{number}": f"in-{number}.sock" for number in range(1, len(settings.hosts) + 1)}
        listeners = {name: stack.enter_context(_unix_listener(folder / file)) for name, file in names.items()}
        listeners["SW_CONTROL"] = stack.enter_context(_unix_listener(folder / CONTROL))
        environment = {name: str(listener.fileno()) for name, listener in listeners.items()}
        log = stack.enter_context((folder / LOG).open("wb"))
        errors = stack.enter_context((folder / "haproxy.err").open("wb"))
        words = (word.replace(OUT, str(out_port)) for word in settings.argv)
        haproxy = stack.enter_context(
            process.start(
                *words,
                stdout=log,
                stderr=errors,
                env={**environment, "SW_OUT": str(out_port), "PATH": os.defpath},
                cwd="/",
                pass_fds=tuple(listener.fileno() for listener in listeners.values()),
            )
        )
        for listener in listeners.values():
            listener.close()
        _await_answer(folder, haproxy, patience)
        for number in range(1, len(settings.hosts) + 1):
            (folder / f"{number}.pem").unlink()
        yield haproxy


def _unix_listener(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
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


def set_values(folder: Path, file: str, values: Mapping[str, str]) -> None:
    """Replace the content of one of `MAPS` in a running proxy, all at once; it is in its memory only.

    Raise HostError when it does not take it, or a value has a line feed.
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
    """The answer of a running proxy to a command. Raise OSError where it is gone."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(5)
        connection.connect(str(folder / CONTROL))
        connection.sendall(command.encode())
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while data := connection.recv(65536):
            answer += data
        return answer.decode(errors="replace")
