"""The interface of an engine that builds, keeps and runs images."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, BinaryIO, Protocol

from sandwright.progress import ProgressStep
from sandwright.visible import quoted
from sandwright.watchdog import Ended

BUILD_TIMEOUT = 3600.0
"""Seconds that one build may take; under emulation the largest image takes minutes."""

TAIL = 40
"""Lines of a build's output that a message about its failure repeats."""

LONGEST_LINE = 4096
"""Bytes, or characters, of a line of a build that are kept: the program that writes it is the image's."""

WriteArchive = Callable[[BinaryIO, str], None]
"""Writes an image as an archive in the format of `docker save`, under a reference."""


@dataclass(frozen=True)
class EngineImage:
    """An image in an engine. `layers` are the digests of its uncompressed layers, lowest first."""

    id: str
    platform: str
    layers: tuple[str, ...]
    size: int


class EngineBuildContext(Protocol):
    """A Dockerfile and the files that it copies. `epoch` is the time of the image, in seconds."""

    @property
    def epoch(self) -> int:
        """SOURCE_DATE_EPOCH."""
        ...

    def write_directory(self, directory: Path) -> None:
        """Write it below a new directory."""
        ...

    def write_archive(self, sink: BinaryIO) -> None:
        """Write it as a tar archive."""
        ...


@dataclass(frozen=True)
class ContainerSpec:
    """A container without a network, removed when it ends.

    `entrypoint` replaces the image's, `command` the arguments behind it; None leaves the image's own.
    `volumes` are as `--volume` takes them, `tmpfs` is mount point → options. `confined`: without
    capabilities, and with no-new-privileges.
    """

    name: str
    image: str
    platform: str
    entrypoint: tuple[str, ...] | None = None
    command: tuple[str, ...] | None = None
    user: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    volumes: tuple[str, ...] = ()
    tmpfs: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    read_only: bool = False
    confined: bool = False


class Engine(Protocol):
    """A program that builds images, keeps them and runs containers of them."""

    @property
    def name(self) -> str:
        """`docker`, `podman` or `buildah`."""
        ...

    def check(self) -> str:
        """The engine with its version. Raise HostError or ToolMissing when it can't be used."""
        ...

    def inspect_image(self, reference: str) -> EngineImage | None:
        """An image of the engine; None where there is none of that name."""
        ...

    def load(self, write: WriteArchive, reference: str) -> str:
        """Load an archive; give the name by which the engine has the image."""
        ...

    def build(self, context: EngineBuildContext, platform: str, step: ProgressStep) -> str:
        """Build without a network; give the image's id. `step` advances with each instruction.

        Nothing is named: an image that is half done leaves no trace but the engine's own cache. Raise
        BuildError with the end of the build's output when it fails.
        """
        ...

    def tag(self, image: str, reference: str) -> None:
        """Name an image, which takes the name from another one."""
        ...

    def remove_image(self, reference: str) -> None:
        """Remove a name, and the image when it was its last. No error when there is none."""
        ...

    def save(self, reference: str, target: Path) -> None:
        """Write an image to a file, as an archive in the format of `docker save`."""
        ...

    def runner(self, scratch: Path) -> Engine:
        """The engine that runs this one's images, from a directory of ours. Raise ToolMissing without it."""
        ...

    def run(
        self, container: ContainerSpec, *, limit: float, stop: threading.Event, env: Mapping[str, str]
    ) -> Ended:
        """Run a container to its end, for at most `limit` seconds, or until `stop`; then remove it.

        `env` is the environment of the engine's client, if it has one. An engine that can't start the
        container gives the status 125. Raise SandwrightError when the engine fails, or can't remove the
        container.
        """
        ...


@contextmanager
def streaming(write: Callable[[BinaryIO], None]) -> Iterator[BinaryIO]:
    """A pipe from which `write`'s output is read while it is written, without a copy on disk.

    An error of the writer is raised at the end, in place of the reader's, which follows from it. A reader may
    stop early.
    """
    read_end, write_end = os.pipe()
    failed: list[BaseException] = []

    def work(sink: IO[bytes]) -> None:
        try:
            with sink:
                write(sink)  # type: ignore[arg-type]  # a file object
        except BrokenPipeError:
            pass
        except BaseException as error:  # noqa: BLE001 - carried to the thread that reads
            failed.append(error)

    writer = threading.Thread(target=work, args=(os.fdopen(write_end, "wb"),), daemon=True)
    writer.start()
    with os.fdopen(read_end, "rb") as source:
        try:
            yield source
        finally:
            source.close()
            writer.join()
            if failed:
                raise failed[0]


def tail(lines: Sequence[str]) -> str:
    """The end of a build's output, for a message."""
    last = [line.rstrip() for line in lines if line.strip()][-TAIL:]
    return f"\n{quoted(last)}" if last else ""
