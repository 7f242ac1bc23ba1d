"""A Docker daemon of our own, where nothing keeps one running (CI, no systemd)."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from sandwright import process
from sandwright.engines.docker import answers
from sandwright.errors import HostError
from sandwright.mountinfo import unmount_below
from sandwright.setup.requirements import how_to_get

_LOOK = 0.1
_END = 30.0
"""Seconds in which a daemon must end after SIGTERM."""

_ADDRESS_POOL = "base=198.19.0.0/16,size=24"
"""Not Docker's own addresses, for which a dockerd that was killed leaves rules in iptables; see RFC 2544."""


@contextlib.contextmanager
def own_daemon(directory: Path, state: Path | None = None, *, limit: float = 60.0) -> Iterator[str]:
    """Start a daemon for the length of a `with`; give its address. Only root can.

    Its images lie in `directory`, its sockets and its state in `state`, absent in `directory` as well. It
    leaves the network's configuration alone. The path of `state` must be short, as sockets are below. Raise
    HostError when it does not answer within `limit` seconds; ToolMissing when there is no dockerd.
    """
    program = process.which("dockerd", hint=how_to_get("dockerd", "apt"))
    state = state or directory
    address = f"unix://{state}/docker.sock"
    with (
        (directory / "log").open("w+b") as log,
        process.start(program, *_options(directory, state, address), stdout=log, stderr=log) as running,
    ):
        try:
            _await_daemon(address, lambda: running.poll() is not None, log, limit)
            yield address
        finally:
            running.terminate()
            process.ended_within(running.poll, _END)
            for each in {directory, state}:
                unmount_below(each)


def _options(directory: Path, state: Path, address: str) -> list[str]:
    """Everything below the directories; a separate containerd namespace, should it share a containerd."""
    paths = {"data-root": directory / "data", "exec-root": state / "exec", "pidfile": state / "pid"}
    words = [word for name, path in paths.items() for word in (f"--{name}", str(path))]
    bridge_name = f"sandwright-{hashlib.sha256(os.fsencode(directory)).hexdigest()[:16]}"  # it takes few
    namespaces = [
        "--containerd-namespace",
        bridge_name,
        "--containerd-plugins-namespace",
        f"{bridge_name}-plugins",
    ]
    network = ["--bridge", "none", "--iptables=false", "--default-address-pool", _ADDRESS_POOL]
    return [*words, *namespaces, "--host", address, *network]


def _await_daemon(address: str, ended: Callable[[], bool], log: IO[bytes], limit: float) -> None:
    deadline = time.monotonic() + limit
    while not answers(address):
        late = time.monotonic() > deadline
        if late or ended():
            log.seek(0)
            lines = log.read()[-2000:].decode(errors="replace").strip().splitlines() or ["it said nothing"]
            what = f"does not answer within {limit:g} s" if late else "ended at once"
            raise HostError(f"a Docker daemon was started and {what}: {lines[-1]}")
        time.sleep(_LOOK)
