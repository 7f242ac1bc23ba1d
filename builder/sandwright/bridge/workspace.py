"""Opens files of the workspace by descriptors: step by step, and no step leaves it.

A path is never resolved as a whole. Each of its parts is opened below the descriptor of the one before; links
are not followed, and `..` is never opened. So renames and new links of the sandbox have no effect: an open
file was in the workspace when it was opened, and is passed on as a descriptor.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from sandwright.bridge.access import ALL, WorkspaceAccess
from sandwright.bridge.grammar import Refused, quote_words

MAX_DEPTH = 128

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class OpenWorkspace:
    """A directory of the host that the sandbox works in, held open."""

    def __init__(self, root: Path, access: WorkspaceAccess = ALL) -> None:
        """`root` is an existing directory; links on the way to it are followed only here.

        `access` decides which files may be opened in it.
        """
        self.root = root.resolve(strict=True)
        self.access = access
        self._fd = os.open(self.root, _DIRECTORY)

    def close(self) -> None:
        """Close the directory."""
        os.close(self._fd)

    def relative(self, path: str) -> tuple[str, ...]:
        """The parts of an absolute path below the workspace. Raise Refused for one outside."""
        root = str(self.root).rstrip("/")
        if path.rstrip("/") == root:
            return ()
        if not path.startswith(f"{root}/"):
            raise Refused(f"{quote_words([path])} is outside of the workspace")
        return _split_path(path[len(root) + 1 :])

    @contextlib.contextmanager
    def directory(self, parts: tuple[str, ...]) -> Iterator[int]:
        """The descriptor of a directory.

        Raise Refused if it isn't one, if a link is on the way, or if the policy denies it.
        """
        self.check(parts)
        with self._open_directory(parts) as fd:
            yield fd

    @contextlib.contextmanager
    def _open_directory(self, parts: tuple[str, ...]) -> Iterator[int]:
        fd = os.dup(self._fd)
        try:
            for part in parts:
                below = _open_directory_part(fd, part)
                os.close(fd)
                fd = below
            yield fd
        finally:
            os.close(fd)

    @contextlib.contextmanager
    def file(self, parts: tuple[str, ...]) -> Iterator[int]:
        """The descriptor of a regular file, for reading.

        Raise Refused for other files, for links, and for denied paths.
        """
        if not parts:
            raise Refused("the workspace is no file")
        self.check(parts)
        with self._open_directory(parts[:-1]) as above, open_file(above, parts[-1]) as fd:
            yield fd

    def check(self, parts: tuple[str, ...]) -> None:
        """Raise Refused if the policy denies it."""
        if not self.access.reads(parts):
            raise Refused(
                f"the policy keeps the sandbox from {quote_words(['/'.join(parts) or str(self.root)])}"
            )

    def below(self, directory: tuple[str, ...], path: str) -> tuple[str, ...]:
        """The parts of a path relative to a directory. Raise Refused if it leaves the workspace."""
        return self.relative(path) if path.startswith("/") else (*directory, *_split_path(path))


@contextlib.contextmanager
def open_file(directory: int, name: str) -> Iterator[int]:
    """The descriptor of a regular file in a directory, for reading. Never waits for a pipe or device."""
    try:
        fd = os.open(name, _FILE, dir_fd=directory)
    except OSError as error:
        raise _refusal(name, error) from error
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise Refused(f"{quote_words([name])} is no regular file")
        os.set_blocking(fd, True)
        yield fd
    finally:
        os.close(fd)


def descriptor_path(fd: int) -> str:
    """A path under which a child that inherits a descriptor finds it."""
    return f"/dev/fd/{fd}"


def _open_directory_part(fd: int, part: str) -> int:
    try:
        return os.open(part, _DIRECTORY, dir_fd=fd)
    except OSError as error:
        raise _refusal(part, error) from error


def _split_path(path: str) -> tuple[str, ...]:
    if "\0" in path:
        raise Refused(f"{quote_words([path])}: no path has a NUL")
    parts = tuple(part for part in path.split("/") if part not in ("", "."))
    if ".." in parts:
        raise Refused(f"{quote_words([path])}: `..` is not followed")
    if len(parts) > MAX_DEPTH:
        raise Refused("a path that is too deep")
    return parts


def _refusal(name: str, error: OSError) -> Refused:
    if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EMLINK):
        return Refused(f"{quote_words([name])} is a link or no directory; links are not followed")
    return Refused(f"{quote_words([name])}: {error.strerror}")
