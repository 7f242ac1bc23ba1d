"""Docker, through its API.

Build contexts are streamed to the daemon's classic builder, because the SDK does not support BuildKit
sessions. The Dockerfile works with both builders.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import docker
from docker import DockerClient
from docker.errors import APIError, DockerException, ImageNotFound
from docker.models.containers import Container
from docker.types import LogConfig
from requests.exceptions import RequestException
from urllib3.exceptions import HTTPError

from sandwright.engines.contract import (
    BUILD_TIMEOUT,
    LONGEST_LINE,
    TAIL,
    ContainerSpec,
    EngineBuildContext,
    EngineImage,
    WriteArchive,
    streaming,
    tail,
)
from sandwright.errors import BuildError, HostError
from sandwright.outputs import disk_errors
from sandwright.progress import ProgressStep
from sandwright.watchdog import Ended, How

OLDEST = (1, 40)
"""Minimum API version: Docker 19.03, the first release in which `COPY --from` keeps owners."""

ADDRESS = "DOCKER_HOST"
"""The variable with the daemon's address."""

_ANSWER = 120
"""Seconds in which the daemon must answer a request; loading an image is one."""

_OLD = "; Docker before 23.0 cannot read zstd layers: build with --compression gzip, or select --runtime"

_LOOK = 0.05
_NOT_STARTED = 125
"""Exit status that stands for a container the daemon could not start, as in Docker's own command line."""

_STEP = re.compile(r"Step \d+/\d+ : ")


@contextlib.contextmanager
def connect_docker(address: str | None = None, *, cache: bool = True) -> Iterator[DockerEngine]:
    """Connect to a daemon. This is the one place that makes a client of the SDK.

    `address` is that of the daemon; None means DOCKER_HOST, or the default socket. Without `cache`
    every instruction of a build is carried out, also where the daemon has its result. Raise HostError when no
    daemon answers there.
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
        yield DockerEngine(client, cache=cache)
    finally:
        client.close()


def answers(address: str | None) -> bool:
    """Whether a daemon answers at an address; None is the default one."""
    try:
        with connect_docker(address):
            return True
    except HostError:
        return False


class DockerEngine:
    """A daemon that answers."""

    name = "docker"

    def __init__(self, client: DockerClient, *, cache: bool = True) -> None:
        """As `connect_docker`."""
        self._client = client
        self._cache = cache

    def check(self) -> str:
        """See the contract. Also raise HostError for a daemon that is too old or belongs to Podman."""
        with _our_errors():
            version = self._client.version()
        parts = [str(part.get("Name", "")) for part in version.get("Components") or ()]
        if any("podman" in part.lower() for part in parts):
            raise HostError(
                "DOCKER_HOST leads to Podman, which is no Docker; build with --engine podman, or unset it"
            )
        number = str(version.get("ApiVersion", ""))
        if not _recent(number):
            oldest = ".".join(map(str, OLDEST))
            raise HostError(
                f"Docker {version.get('Version', '')} has API {number or 'of no version'}; images "
                f"need {oldest} (Docker 19.03)"
            )
        return f"Docker {version.get('Version', '')}, API {number}"

    def inspect_image(self, reference: str) -> EngineImage | None:
        """As the contract says."""
        with _our_errors():
            try:
                found: Mapping[str, Any] = self._client.api.inspect_image(reference)  # type: ignore[no-untyped-call]
            except ImageNotFound:
                return None
        layers = tuple((found.get("RootFS") or {}).get("Layers") or ())
        return EngineImage(found["Id"], f"{found['Os']}/{found['Architecture']}", layers, int(found["Size"]))

    def load(self, write: WriteArchive, reference: str) -> str:
        """As the contract says."""
        with streaming(lambda sink: write(sink, reference)) as archive, _our_errors():
            for event in self._client.api.load_image(archive):  # type: ignore[no-untyped-call]
                if "error" in event:
                    hint = _OLD if "invalid tar header" in event["error"] else ""
                    raise BuildError(f"docker: cannot load {reference}: {event['error']}{hint}")
        return reference

    def build(self, context: EngineBuildContext, platform: str, step: ProgressStep) -> str:
        """As the contract says. When this is interrupted the daemon removes the parts that it has begun."""
        lines: deque[str] = deque(maxlen=TAIL)
        with streaming(context.write_archive) as archive, _our_errors():
            events = self._client.api.build(
                fileobj=archive,
                custom_context=True,
                decode=True,
                rm=True,
                forcerm=True,
                nocache=not self._cache,
                network_mode="none",
                platform=platform,
                timeout=int(BUILD_TIMEOUT),
            )
            with contextlib.closing(events):
                image = _follow_build(events, lines, step)
        if image is None:
            raise BuildError(f"docker build ended without an image{tail(lines)}")
        return image

    def tag(self, image: str, reference: str) -> None:
        """As the contract says."""
        name, _, tag = reference.rpartition(":")
        with _our_errors():
            self._client.api.tag(image, name, tag, force=True)

    def remove_image(self, reference: str) -> None:
        """As the contract says."""
        with _our_errors(), contextlib.suppress(ImageNotFound):
            self._client.api.remove_image(reference, force=True)

    def save(self, reference: str, target: Path) -> None:
        """As the contract says."""
        with disk_errors(target), target.open("wb") as file, _our_errors():
            for chunk in self._client.api.get_image(reference):
                file.write(chunk)

    def runner(self, scratch: Path) -> DockerEngine:  # noqa: ARG002
        """As the contract says: this one."""
        return self

    def run(
        self,
        container: ContainerSpec,
        *,
        limit: float,
        stop: threading.Event,
        env: Mapping[str, str],  # noqa: ARG002 - there is no client
    ) -> Ended:
        """As the contract says."""
        try:
            return self._run_container(container, limit, stop)
        except (DockerException, RequestException) as error:
            raise HostError(f"docker: {error}") from error

    def _run_container(self, spec: ContainerSpec, limit: float, stop: threading.Event) -> Ended:
        started = time.monotonic()
        container = None
        try:
            container = self._create_container(spec)
            container.start()
            how, status = _wait_for_exit(container, started + limit, stop)
            stdout, stderr = (container.logs(stdout=out, stderr=not out) for out in (True, False))
            return Ended(how, status, stdout, stderr.decode(errors="replace"), time.monotonic() - started)
        except APIError as error:
            seconds = time.monotonic() - started
            return Ended("exited", _NOT_STARTED, b"", error.explanation or str(error), seconds)
        finally:
            if container is not None:
                container.remove(force=True, v=True)

    def _create_container(self, spec: ContainerSpec) -> Container:
        rights: dict[str, Any] = {"cap_drop": ["ALL"], "security_opt": ["no-new-privileges"]}
        return self._client.containers.create(
            spec.image,
            name=spec.name,
            labels=dict(spec.labels),
            platform=spec.platform,
            network_mode="none",
            user=spec.user or None,
            environment=dict(spec.environment),
            volumes=list(spec.volumes),
            tmpfs=dict(spec.tmpfs),
            read_only=spec.read_only,
            **(rights if spec.confined else {}),
            # The logs are the result. A daemon may have another driver as default; the disk must not fill.
            log_config=LogConfig(type="json-file", config={"max-size": "8m", "max-file": "1"}),
            entrypoint=None if spec.entrypoint is None else list(spec.entrypoint),
            command=None if spec.command is None else list(spec.command),
        )

    def remove_labelled(self, label: str, *, images: str) -> None:
        """Remove the containers with a label, and their images if their names begin with `images`."""
        for container in self._client.containers.list(all=True, filters={"label": label}):
            image = container.attrs["Config"]["Image"]
            container.remove(force=True, v=True)
            if image.startswith(images):
                self._client.images.remove(image, force=True)


def _wait_for_exit(container: Container, deadline: float, stop: threading.Event) -> tuple[How, int | None]:
    while True:
        container.reload()
        if container.status in {"exited", "dead"}:
            return "exited", int(container.attrs["State"]["ExitCode"])
        if stop.wait(_LOOK):
            return "stopped", None
        if time.monotonic() > deadline:
            return "timeout", None


def _follow_build(events: Iterator[Mapping[str, Any]], lines: deque[str], step: ProgressStep) -> str | None:
    """Read the daemon's events; give the image's id. Raise BuildError for an error, or when time is up."""
    image, deadline = None, time.monotonic() + BUILD_TIMEOUT
    for event in events:
        if time.monotonic() > deadline:
            raise BuildError(f"docker build ran out of time ({BUILD_TIMEOUT:g} s){tail(lines)}")
        if "error" in event:
            detail = event.get("errorDetail") or {}
            raise BuildError(f"docker build: {detail.get('message') or event['error']}{tail(lines)}")
        image = (event.get("aux") or {}).get("ID", image)
        text = str(event.get("stream", ""))
        lines.extend(line[:LONGEST_LINE] for line in text.splitlines())
        if _STEP.match(text):
            step.advance(1)
    return image


def _recent(number: str) -> bool:
    match = re.fullmatch(r"(\d+)\.(\d+)", number)
    return match is not None and (int(match[1]), int(match[2])) >= OLDEST


@contextlib.contextmanager
def _our_errors() -> Iterator[None]:
    """Turn the SDK's errors into ours: the daemon is gone, or refuses."""
    try:
        yield
    except ImageNotFound:
        raise
    except APIError as error:
        raise BuildError(f"docker: {error.explanation or error}") from error
    except (RequestException, HTTPError, DockerException, ConnectionError) as error:
        raise HostError(f"the Docker daemon went away: {error}") from error
