"""The way to a Docker daemon; and one of our own, where nothing keeps one running (CI, no systemd)."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import docker
from docker import DockerClient
from docker.errors import DockerException

from sandwright import process
from sandwright.errors import HostError
from sandwright.runtime.scratch import unmount_below
from sandwright.setup.requirements import how_to_get

ADDRESS = "DOCKER_HOST"
"""The variable with the daemon's address."""

_ANSWER = 120
"""Seconds in which the daemon must answer a request; loading an image is one."""
_LOOK = 0.1
_END = 30.0
"""Seconds in which a daemon that is told to end must have ended."""


@contextlib.contextmanager
def docker_client(address: str | None = None) -> Iterator[DockerClient]:
    """A connected client: the one place that makes one.

    `address` is that of the daemon; None is what DOCKER_HOST says, or the default socket. Raise HostError
    when no daemon answers there.
    """
    environment = dict(os.environ) if address is None else {ADDRESS: address}
    try:
        client = docker.from_env(timeout=_ANSWER, environment=environment)
    except DockerException as error:
        raise HostError(f"no Docker daemon can be asked: {error}") from error
    try:
        try:
            client.ping()
        except (DockerException, OSError) as error:
            raise HostError(f"no Docker daemon answers at {client.api.base_url}: {error}") from error
        yield client
    finally:
        client.close()


@contextlib.contextmanager
def own_daemon(directory: Path, *, limit: float = 60.0) -> Iterator[str]:
    """Start a daemon for the length of a `with`; give its address. Only root can.

    Its images, its socket and its state lie in `directory`, and it leaves the network's configuration alone.
    Raise HostError when it does not answer within `limit` seconds; ToolMissing when there is no dockerd.
    """
    program = process.which("dockerd", hint=how_to_get("dockerd", "apt"))
    address = f"unix://{directory}/docker.sock"
    with (directory / "log").open("w+b") as log:
        with process.start(program, *_options(directory, address), stdout=log, stderr=log) as running:
            try:
                _await(address, lambda: running.poll() is not None, log, limit)
                yield address
            finally:
                running.terminate()
                deadline = time.monotonic() + _END
                while running.poll() is None and time.monotonic() < deadline:
                    time.sleep(_LOOK)
        unmount_below(directory)


def _options(directory: Path, address: str) -> list[str]:
    """Everything below `directory`, and a containerd namespace of its own, should it share a containerd."""
    paths = {"data-root": "data", "exec-root": "exec", "pidfile": "pid"}
    words = [word for name, path in paths.items() for word in (f"--{name}", str(directory / path))]
    own = f"sandwright-{hashlib.sha256(os.fsencode(directory)).hexdigest()[:16]}"  # it takes few
    namespaces = ["--containerd-namespace", own, "--containerd-plugins-namespace", f"{own}-plugins"]
    return [*words, *namespaces, "--host", address, "--bridge", "none", "--iptables=false"]


def answers(address: str | None) -> bool:
    """Whether a daemon answers at an address; None is the default one."""
    try:
        with docker_client(address):
            return True
    except HostError:
        return False


def _await(address: str, ended: Callable[[], bool], log: IO[bytes], limit: float) -> None:
    deadline = time.monotonic() + limit
    while not answers(address):
        late = time.monotonic() > deadline
        if late or ended():
            log.seek(0)
            lines = log.read()[-2000:].decode(errors="replace").strip().splitlines() or ["it said nothing"]
            what = f"does not answer within {limit:g} s" if late else "ended at once"
            raise HostError(f"a Docker daemon was started and {what}: {lines[-1]}")
        time.sleep(_LOOK)
