"""Starts of images on a Docker daemon."""

from __future__ import annotations

import threading
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

from docker import DockerClient
from docker.errors import APIError, DockerException
from docker.models.containers import Container
from docker.types import LogConfig
from requests.exceptions import RequestException

from sandwright.errors import HostError
from sandwright.runtime.contract import RunAs, Start, StartableImage
from sandwright.runtime.docker import LABEL
from sandwright.runtime.engine import Loaded, archive_stream, settings_of, volumes
from sandwright.runtime.launch import Ended, How
from sandwright.runtime.scratch import PREFIX

_LOOK = 0.05
_NOT_STARTED = 125
"""Exit status that stands for a container the daemon could not start, as in Docker's own command line."""


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
        try:
            return self._run(start)
        except (DockerException, RequestException) as error:
            raise HostError(f"docker: {error}") from error

    def _run(self, start: Start) -> Ended:
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
