"""Docker, through its API: the context is streamed to the daemon, whose classic builder builds it.

The SDK speaks no BuildKit, whose API is a session of its own; the Dockerfile is good for both.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from docker import DockerClient
from docker.errors import APIError, DockerException, ImageNotFound
from requests.exceptions import RequestException
from urllib3.exceptions import HTTPError

from sandwright.errors import BuildError, HostError
from sandwright.image.engines.context import DockerfileContext
from sandwright.image.engines.contract import LONGEST_LINE, TAIL, TIMEOUT, EngineImage, said, streaming
from sandwright.image.layout import on_disk
from sandwright.progress import ProgressStep

OLDEST = (1, 40)
"""The oldest API that will do: Docker 19.03, whose `COPY --from` is the first to keep owners."""

_STEP = re.compile(r"Step \d+/\d+ : ")


class DockerBuilder:
    """A daemon that answers."""

    name = "docker"

    def __init__(self, client: DockerClient, *, cache: bool = True) -> None:
        """Without `cache` every instruction is carried out, also where the daemon has its result."""
        self._client = client
        self._cache = cache

    def check(self) -> str:
        """Raise HostError for a daemon that is too old, or is Podman's."""
        with _asked():
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

    def find(self, reference: str) -> EngineImage | None:
        """As the contract says."""
        with _asked():
            try:
                found: Mapping[str, Any] = self._client.api.inspect_image(reference)  # type: ignore[no-untyped-call]
            except ImageNotFound:
                return None
        layers = tuple((found.get("RootFS") or {}).get("Layers") or ())
        return EngineImage(found["Id"], f"{found['Os']}/{found['Architecture']}", layers, int(found["Size"]))

    def load(self, write: Callable[[BinaryIO, str], None], reference: str) -> None:
        """As the contract says."""
        with streaming(lambda sink: write(sink, reference)) as archive, _asked():
            for _ in self._client.api.load_image(archive):  # type: ignore[no-untyped-call]
                pass

    def build(self, context: DockerfileContext, platform: str, step: ProgressStep) -> str:
        """As the contract says. When this is interrupted the daemon removes what it has begun."""
        lines: deque[str] = deque(maxlen=TAIL)
        with streaming(context.write_archive) as archive, _asked():
            events = self._client.api.build(
                fileobj=archive,
                custom_context=True,
                decode=True,
                rm=True,
                forcerm=True,
                nocache=not self._cache,
                network_mode="none",
                platform=platform,
                timeout=int(TIMEOUT),
            )
            with contextlib.closing(events):
                image = _follow(events, lines, step)
        if image is None:
            raise BuildError(f"docker build ended without an image{said(lines)}")
        return image

    def tag(self, image: str, reference: str) -> None:
        """As the contract says."""
        name, _, tag = reference.rpartition(":")
        with _asked():
            self._client.api.tag(image, name, tag, force=True)

    def remove(self, reference: str) -> None:
        """As the contract says."""
        with _asked(), contextlib.suppress(ImageNotFound):
            self._client.api.remove_image(reference)

    def save(self, reference: str, target: Path) -> None:
        """As the contract says."""
        with on_disk(target), target.open("wb") as file, _asked():
            for chunk in self._client.api.get_image(reference):
                file.write(chunk)


def _follow(events: Iterator[Mapping[str, Any]], lines: deque[str], step: ProgressStep) -> str | None:
    """Read what the daemon tells; give the image's id. Raise BuildError for an error, or when time is up."""
    image, deadline = None, time.monotonic() + TIMEOUT
    for event in events:
        if time.monotonic() > deadline:
            raise BuildError(f"docker build ran out of time ({TIMEOUT:g} s){said(lines)}")
        if "error" in event:
            detail = event.get("errorDetail") or {}
            raise BuildError(f"docker build: {detail.get('message') or event['error']}{said(lines)}")
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
def _asked() -> Iterator[None]:
    """Turn what the SDK raises into errors of ours: the daemon is gone, or says no."""
    try:
        yield
    except ImageNotFound:
        raise
    except APIError as error:
        raise BuildError(f"docker: {error.explanation or error}") from error
    except (RequestException, HTTPError, DockerException, ConnectionError) as error:
        raise HostError(f"the Docker daemon went away: {error}") from error
