"""What an engine that builds images must offer."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO, Protocol

from sandwright.image.engines.context import DockerfileContext
from sandwright.progress import ProgressStep
from sandwright.visible import quoted

TIMEOUT = 3600.0
"""Seconds that one build may take; under emulation the largest image takes minutes."""

TAIL = 40
"""Lines of what a build said last that a message about its failure repeats."""


@dataclass(frozen=True)
class EngineImage:
    """An image in an engine. `layers` are the digests of its uncompressed layers, lowest first."""

    id: str
    platform: str
    layers: tuple[str, ...]
    size: int


class BuildEngine(Protocol):
    """A program that builds images and keeps them."""

    @property
    def name(self) -> str:
        """What a person calls it."""
        ...

    def check(self) -> str:
        """What it is, with its version. Raise HostError or ToolMissing when it can't be used, saying why."""
        ...

    def find(self, reference: str) -> EngineImage | None:
        """An image that it has; None when it has none of that name."""
        ...

    def load(self, write: Callable[[BinaryIO, str], None], reference: str) -> None:
        """Take an image from an archive, which `write` writes under the reference it is given."""
        ...

    def build(self, context: DockerfileContext, platform: str, step: ProgressStep) -> str:
        """Build without a network; give the image's id. `step` is told of each instruction.

        Nothing is named: an image that is half done leaves no trace but the engine's own cache. Raise
        BuildError with what the build said last when it fails.
        """
        ...

    def tag(self, image: str, reference: str) -> None:
        """Name an image, which takes the name from another one."""
        ...

    def remove(self, reference: str) -> None:
        """Remove a name, and the image when it was its last. No error when there is none."""
        ...

    def save(self, reference: str, target: Path) -> None:
        """Write an image to a file, as an archive in the format of `docker save`."""
        ...


@contextmanager
def streaming(write: Callable[[BinaryIO], None]) -> Iterator[BinaryIO]:
    """What `write` writes, to be read while it is written; nothing of it is kept.

    An error of the writer is raised at the end, unless the reader failed or stopped reading before.
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


LONGEST_LINE = 4096
"""Bytes, or characters, of a line of a build that are kept: the program that writes it is the image's."""


def said(lines: Sequence[str]) -> str:
    """The end of what a build said, for a message."""
    last = [line.rstrip() for line in lines if line.strip()][-TAIL:]
    return f"\n{quoted(last)}" if last else ""
