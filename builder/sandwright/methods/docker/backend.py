"""Whether Docker works here (preflight), and how a container is started through its command line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sandwright.engines.client import EngineClient
from sandwright.errors import CommandFailed, ToolMissing
from sandwright.host import MachineFacts
from sandwright.methods.contract import Preflight
from sandwright.methods.shared.engine.backend import ASKING, EngineBackend
from sandwright.questions import Question

_MEMBER = "add this user to the group docker, whose members can become root; or use podman"
_START = "start it: systemctl start docker, or dockerd; or set DOCKER_HOST"


@dataclass(frozen=True)
class Docker(EngineBackend):
    """The method docker."""

    name: str = "docker"
    package = "dockerd"

    def dead(self) -> Preflight | None:
        """The fault that the daemon does not answer, or None."""
        try:
            EngineClient(self.name).ping(timeout=ASKING)
        except CommandFailed as error:
            message = (error.stderr.strip().splitlines() or [f"it did not answer within {ASKING:g} s"])[-1]
            if "permission denied" in error.stderr.lower():
                return Preflight(
                    self.name, "no-permission", f"the daemon refuses this user: {message}", _MEMBER
                )
            return Preflight(self.name, "daemon-dead", f"no daemon answers: {message}", _START)
        except ToolMissing as error:
            return Preflight(self.name, "program-missing", str(error))
        return None

    def depends(self, host: MachineFacts) -> Iterator[Question]:
        """Further questions about the daemon's socket, which identifies the daemon."""
        yield from super().depends(host)
        yield "stamp", "/var/run/docker.sock"
        yield "stamp", "/var/run/docker.pid"
