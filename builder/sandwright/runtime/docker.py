"""Docker: images are streamed to the daemon that DOCKER_HOST or the default socket names."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandwright.errors import HostError
from sandwright.host import MachineFacts
from sandwright.lazy import load
from sandwright.runtime.contract import Session, Variant
from sandwright.runtime.engine import LABEL, EngineSession
from sandwright.runtime.scratch import PREFIX, hidden_directory, state_directory

# The SDK takes longer to import than most starts by another runtime.
_CONNECT = "sandwright.engines.docker:connect_docker"
_DAEMON = "sandwright.engines.daemon:own_daemon"
_LONGEST = 107 - len("/exec/containerd/containerd-debug.sock")
"""Bytes of the path of a directory in which a daemon has its sockets (unix(7))."""


@dataclass(frozen=True)
class DockerRuntime:
    """The runtime Docker."""

    name: str = "docker"
    program: str = "dockerd"

    def obstacle(self, host: MachineFacts, platform: str) -> str:
        """A missing emulator. The daemon is assumed to run on this machine."""
        if host.os == "linux" and platform != host.platform and not host.emulator(platform):
            return f"no interpreter for {platform} is registered in binfmt_misc with the fix-binary flag"
        return ""

    def variants(self, host: MachineFacts) -> Sequence[Variant]:
        """One variant: on the daemon that answers, or else, if we may, on one of our own."""
        return (Variant(), _OWN) if host.is_root and "dockerd" in host.programs else (Variant(),)

    @contextlib.contextmanager
    def session(
        self,
        variant: Variant,
        host: MachineFacts,  # noqa: ARG002
        scratch: Path,
        stop: threading.Event,
    ) -> Iterator[Session]:
        """Connect; at the end, remove the loaded images. Raise HostError when no daemon answers."""
        with (
            _own_daemon(scratch) if variant == _OWN else contextlib.nullcontext() as address,
            load(_CONNECT)(address) as engine,
        ):
            session = EngineSession(engine, scratch.parent.name, stop)
            try:
                yield session
            finally:
                session.remove_images()

    def discard(self, scratch: Path, host: MachineFacts) -> None:  # noqa: ARG002
        """Remove the run's containers and their images from the daemon that answers, if one does.

        A daemon of the run's own is one of its processes.
        """
        with contextlib.suppress(HostError), load(_CONNECT)() as engine:
            engine.remove_labelled(f"{LABEL}={scratch.parent.name}", images=f"localhost/{PREFIX}")


DOCKER = DockerRuntime()


def _own_daemon(scratch: Path) -> contextlib.AbstractContextManager[str]:
    """A daemon of this session's own, where no sandbox writes."""
    state = state_directory(scratch)
    if len(os.fsencode(state)) > _LONGEST:
        advice = "set XDG_RUNTIME_DIR to a shorter path"
        raise HostError(f"{state} is too long for the sockets of a Docker daemon; {advice}")
    state.mkdir(mode=0o700)
    daemon: contextlib.AbstractContextManager[str] = load(_DAEMON)(
        hidden_directory(scratch.parent, scratch.name), state
    )
    return daemon


_OWN = Variant("on a separate daemon")
