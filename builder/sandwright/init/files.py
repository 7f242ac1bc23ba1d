"""Creates missing files in a project, without following links."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def keep_from_git(directory: Path) -> None:
    """Have Git ignore a directory, unless it already has a .gitignore, or is a link. Raise OSError."""
    with contextlib.suppress(FileExistsError, NotADirectoryError):
        folder = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            create(".gitignore", "*\n", folder)
        finally:
            os.close(folder)


def create(path: str | Path, text: str, folder: int | None = None) -> None:
    """Create a file that does not exist yet, in an open directory: whole, or not at all."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o666, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode())
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path, dir_fd=folder)
        raise
