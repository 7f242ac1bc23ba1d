"""A Docker daemon for as long as it is needed, where nothing keeps one running (CI, no systemd)."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from sandwright import process
from sandwright.errors import HostError
from sandwright.progress import SILENT, Progress
from sandwright.setup import how_to_get
from sandwright.smoke.preflight import scratch_directory
from sandwright.smoke.runtimes.docker import docker_client

_ADDRESS = "DOCKER_HOST"
_LOOK = 0.1
_END = 30.0
"""Seconds in which a daemon that is told to end must have ended."""


@contextlib.contextmanager
def docker_daemon(*, limit: float = 60.0, progress: Progress = SILENT) -> Iterator[str]:
    """See to it that a daemon answers, for the length of a `with`; give its address, empty for the default.

    The daemon that answers already is taken. Else one is started, with its images, its socket and its state
    in a temporary directory, without touching the network's configuration, and DOCKER_HOST of this process
    names it until the end. Then it is stopped, and all of it removed. Raise HostError when we are not root,
    or when it does not answer within `limit` seconds; ToolMissing when there is no dockerd.
    """
    if _answers():
        yield os.environ.get(_ADDRESS, "")
        return
    if os.geteuid() != 0:
        raise HostError("no Docker daemon answers, and only root can start one")
    program = process.which("dockerd", hint=how_to_get("dockerd", "apt"))
    with scratch_directory() as directory, (directory / "log").open("w+b") as log:
        address = f"unix://{directory}/docker.sock"
        with process.start(program, *_options(directory, address), stdout=log, stderr=log) as running:
            try:
                with _address(address), progress.step("start a Docker daemon"):
                    _await(lambda: running.poll() is not None, log, limit)
                    yield address
            finally:
                running.terminate()
                deadline = time.monotonic() + _END
                while running.poll() is None and time.monotonic() < deadline:
                    time.sleep(_LOOK)
        _unmount(directory)


def _options(directory: Path, address: str) -> list[str]:
    """Everything below `directory`, and a containerd namespace of its own, should it share a containerd."""
    paths = {"data-root": "data", "exec-root": "exec", "pidfile": "pid"}
    words = [word for name, path in paths.items() for word in (f"--{name}", str(directory / path))]
    own = directory.name
    namespaces = ["--containerd-namespace", own, "--containerd-plugins-namespace", f"{own}-plugins"]
    return [*words, *namespaces, "--host", address, "--bridge", "none", "--iptables=false"]


def _answers() -> bool:
    try:
        with docker_client():
            return True
    except HostError:
        return False


def _await(ended: Callable[[], bool], log: IO[bytes], limit: float) -> None:
    deadline = time.monotonic() + limit
    while not _answers():
        late = time.monotonic() > deadline
        if late or ended():
            log.seek(0)
            lines = log.read()[-2000:].decode(errors="replace").strip().splitlines() or ["it said nothing"]
            what = f"does not answer within {limit:g} s" if late else "ended at once"
            raise HostError(f"a Docker daemon was started and {what}: {lines[-1]}")
        time.sleep(_LOOK)


@contextlib.contextmanager
def _address(address: str) -> Iterator[None]:
    before = os.environ.get(_ADDRESS)
    os.environ[_ADDRESS] = address
    try:
        yield
    finally:
        del os.environ[_ADDRESS]
        if before is not None:
            os.environ[_ADDRESS] = before


def _unmount(directory: Path) -> None:
    """Unmount what a daemon that was killed has left below `directory`, innermost first."""
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for point in reversed([point for point in points if point.startswith(f"{directory}/")]):
        process.run("umount", "--lazy", point, check=False)
