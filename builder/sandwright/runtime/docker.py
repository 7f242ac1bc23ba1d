"""Docker, through its API: images are streamed to the daemon that DOCKER_HOST or the default socket names."""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandwright.errors import HostError
from sandwright.host import MachineFacts
from sandwright.runtime.contract import PREFIX, RunAs, Session, Start, StartableImage, Variant
from sandwright.runtime.dockerd import docker_client, own_daemon
from sandwright.runtime.engine import Loaded, archive_stream, settings_of, volumes
from sandwright.runtime.launch import Ended, How

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

LABEL = "sandwright.smoke"
"""The label of every container we make; its value is the name of the run's temporary directory."""

_LOOK = 0.05
_NOT_STARTED = 125
"""Exit status that stands for a container the daemon could not start, as in Docker's own command line."""


@dataclass(frozen=True)
class DockerRuntime:
    """The row of Docker."""

    name: str = "docker"
    program: str = "dockerd"

    def obstacle(self, host: MachineFacts, platform: str) -> str:
        """An emulator is missing. The daemon's machine is taken to be this one."""
        if host.os == "linux" and platform != host.platform and not host.emulator(platform):
            return f"no interpreter for {platform} is registered in binfmt_misc with the fix-binary flag"
        return ""

    def variants(self, host: MachineFacts) -> Sequence[Variant]:
        """On the daemon that answers; else, if we may, on one that is started for us alone."""
        return (Variant(), _OWN) if host.is_root and "dockerd" in host.programs else (Variant(),)

    @contextlib.contextmanager
    def session(
        self,
        variant: Variant,
        host: MachineFacts,  # noqa: ARG002
        scratch: Path,
        stop: threading.Event,
    ) -> Iterator[Session]:
        """Connect; at the end remove what was loaded. Raise HostError when no daemon answers."""
        with (
            own_daemon(scratch) if variant == _OWN else contextlib.nullcontext() as address,
            docker_client(address) as client,
        ):
            session = DockerSession(client, scratch.parent.name, stop)
            try:
                yield session
            finally:
                session.remove_images()

    def discard(self, scratch: Path, host: MachineFacts) -> None:  # noqa: ARG002
        """Remove the run's containers and their images from the daemon that answers, if one does.

        A daemon of the run's own is one of its processes.
        """
        with contextlib.suppress(HostError), docker_client() as client:
            for container in client.containers.list(
                all=True, filters={"label": f"{LABEL}={scratch.parent.name}"}
            ):
                image = container.attrs["Config"]["Image"]
                container.remove(force=True, v=True)
                if image.startswith(PREFIX):
                    client.images.remove(image, force=True)


DOCKER = DockerRuntime()

_OWN = Variant("on a daemon of its own")


@dataclass
class DockerSession:
    """Starts on a daemon. `label` marks its containers; `stop` calls every start off."""

    client: DockerClient
    label: str
    stop: threading.Event
    loaded: Loaded = field(init=False)

    def __post_init__(self) -> None:
        self.loaded = Loaded(self._load)

    def run(self, start: Start) -> Ended:
        """As the contract says."""
        from docker.errors import DockerException  # noqa: PLC0415
        from requests.exceptions import RequestException  # noqa: PLC0415

        try:
            return self._run(start)
        except (DockerException, RequestException) as error:
            raise HostError(f"docker: {error}") from error

    def _run(self, start: Start) -> Ended:
        from docker.errors import APIError  # noqa: PLC0415

        reference = self.loaded.reference(start.subject)
        started = time.monotonic()
        container = None
        try:
            container = self._create(start, reference)
            container.start()
            how, status = self._wait(container, started + start.limit)
            stdout, stderr = (container.logs(stdout=out, stderr=not out) for out in (True, False))
            return Ended(how, status, stdout, stderr.decode(errors="replace"), time.monotonic() - started)
        except APIError as error:
            seconds = time.monotonic() - started
            return Ended("exited", _NOT_STARTED, b"", error.explanation or str(error), seconds)
        finally:
            if container is not None:
                container.remove(force=True, v=True)

    def remove_images(self) -> None:
        """Remove what was loaded."""
        for reference in self.loaded.all():
            self.client.images.remove(reference, force=True)

    def _create(self, start: Start, reference: str) -> Container:
        from docker.types import LogConfig  # noqa: PLC0415

        argv, given = start.argv, start.run_as
        return self.client.containers.create(
            reference,
            name=PREFIX + uuid.uuid4().hex[:16],
            labels={LABEL: self.label},
            platform=start.subject.platform,
            network_mode="none",
            **(_confined(start) if given is None else _run_as(given)),
            # The logs are the result. A daemon may have another driver as default; the disk must not fill.
            log_config=LogConfig(type="json-file", config={"max-size": "8m", "max-file": "1"}),
            entrypoint=None if argv is None or given else [argv[0]],
            command=None if argv is None else list(argv if given else argv[1:]),
        )

    def _wait(self, container: Container, deadline: float) -> tuple[How, int | None]:
        while True:
            container.reload()
            if container.status in {"exited", "dead"}:
                return "exited", int(container.attrs["State"]["ExitCode"])
            if self.stop.wait(_LOOK):
                return "stopped", None
            if time.monotonic() > deadline:
                return "timeout", None

    def _load(self, subject: StartableImage) -> str:
        reference = f"{PREFIX}{uuid.uuid4().hex[:16]}:{subject.architecture}"
        with archive_stream(subject, reference) as archive:
            self.client.images.load(archive)
        return reference


def _confined(start: Start) -> dict[str, Any]:
    settings = settings_of(start.subject)
    return {
        "read_only": settings.read_only,
        "tmpfs": dict(settings.tmpfs),
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges"],
    }


def _run_as(given: RunAs) -> dict[str, Any]:
    return {
        "user": f"{given.user[0]}:{given.user[1]}",
        "environment": dict(given.environment),
        "volumes": volumes(given),
        "read_only": given.read_only,
    }
