"""The command that writes the definition of a new image: `sandwright init-image`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sandwright.cli import console
from sandwright.image.definition import FILE
from sandwright.image.template import NewImage
from sandwright.resources import data_path


def init_image(
    *,
    name: str,
    base: str = "bookworm",
    package: Sequence[str] | None = None,
    language: Sequence[str] | None = None,
    username: str = "agent",
    description: str = "",
    images: str = "images",
) -> None:
    """Write the definition of a new image, and print the commands that lock and build it."""
    new = NewImage(name, base, package or (), language or (), username, description)
    definition = new.write(Path(images), bases=data_path("images"))
    console.line(f"{definition.folder / FILE} is written")
    console.line("next:")
    if definition.parent is None:
        console.line(f"  sandwright lock-images {name} --images {images}")
    console.line(f"  sandwright build-images {name} --images {images}")
