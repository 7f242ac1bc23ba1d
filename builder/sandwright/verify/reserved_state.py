"""Plants files in sandwright's own directories, for the probes that try to read and write there."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sandwright import user_dirs
from sandwright.policy.installation import installed_directories


@dataclass(frozen=True)
class ReservedState:
    """The attempted paths: files with this run's word, and directories that this user can write outside."""

    hidden: tuple[Path, ...]
    state: tuple[Path, ...]
    installation: tuple[Path, ...]


@contextlib.contextmanager
def plant_files(word: str) -> Iterator[ReservedState]:
    """Plant a file in each directory that no sandbox may see, and remove them at the end. Raise HostError."""
    files = [
        Path(user_dirs.private(directory), f".sandwright-{word}")
        for directory in user_dirs.hidden_directories()
    ]
    with contextlib.ExitStack() as stack:
        for file in files:
            stack.callback(file.unlink, missing_ok=True)
            user_dirs.write(str(file), word.encode())
        yield ReservedState(
            tuple(files),
            tuple(_writable_paths((*user_dirs.hidden_directories(), *user_dirs.readonly()))),
            tuple(_writable_paths(installed_directories())),
        )


def _writable_paths(paths: tuple[str, ...]) -> Iterator[Path]:
    """The paths that this user can write without a sandbox; others would prove nothing."""
    for path in dict.fromkeys(os.path.realpath(each) for each in paths):
        if os.path.isdir(path) and os.access(path, os.W_OK):  # noqa: PTH112 - text
            yield Path(path)
