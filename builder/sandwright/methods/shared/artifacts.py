"""Puts rendered artifacts into a directory that no other user can write."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from sandwright.render.artifact import Artifact


def write_artifacts(directory: Path, artifacts: Iterable[Artifact]) -> None:
    """Write artifacts into a directory that does not exist, with their modes. Raise OSError."""
    directory.mkdir(mode=0o755)
    for artifact in artifacts:
        path = directory / artifact.name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            os.fchmod(file.fileno(), artifact.mode)
            file.write(artifact.content)
