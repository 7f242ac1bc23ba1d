"""Writes the result of a fetch into the sandbox's repository: packs, changed refs, FETCH_HEAD.

Every file is created in a directory that was opened step by step (`sandwright.bridge.workspace`), and renamed
within that directory, so that nothing is written through a link, or outside.
"""

from __future__ import annotations

import contextlib
import io
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from sandwright.bridge.arg_types import is_ref
from sandwright.bridge.grammar import Refused, quote_words
from sandwright.bridge.repository import RepositoryLocation
from sandwright.bridge.workspace import OpenWorkspace

DELIVERED = ("refs/remotes/", "refs/tags/")
"""The refs that are written: those that follow a remote's. Only the sandbox itself moves its branches."""

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def deliver_packs(workspace: OpenWorkspace, location: RepositoryLocation, packs: Iterable[Path]) -> None:
    """Copy packs with their indexes into a repository."""
    with (
        workspace.directory((*location.common, "objects")) as objects,
        _open_subdirectory(objects, "pack") as target,
    ):
        for pack in packs:
            for path in (pack, pack.with_suffix(".idx")):
                with path.open("rb") as content:
                    _write_atomically(target, path.name, content, 0o444)


def deliver_refs(
    workspace: OpenWorkspace,
    location: RepositoryLocation,
    before: Mapping[str, str],
    after: Mapping[str, str],
) -> None:
    """Write the refs below DELIVERED that are new or have another commit now."""
    changed = {name: value for name, value in after.items() if before.get(name) != value}
    with workspace.directory(location.common) as common:
        for name, value in changed.items():
            if name.startswith(DELIVERED) and is_ref(name):
                _write_ref(common, name.split("/"), value)


def deliver_fetch_head(workspace: OpenWorkspace, location: RepositoryLocation, content: bytes) -> None:
    """Write FETCH_HEAD."""
    with workspace.directory(location.git) as git:
        _write_atomically(git, "FETCH_HEAD", io.BytesIO(content), 0o644)


def _write_ref(common: int, parts: list[str], value: str) -> None:
    """Write a ref as git does: the new file is the lock."""
    with contextlib.ExitStack() as stack:
        fd = common
        for part in parts[:-1]:
            fd = stack.enter_context(_open_subdirectory(fd, part))
        lock = f"{parts[-1]}.lock"
        try:
            _create_file(fd, lock, io.BytesIO(f"{value}\n".encode()), 0o644)
        except FileExistsError:
            raise Refused(f"{quote_words(['/'.join(parts)])} is locked by another git") from None
        os.rename(lock, parts[-1], src_dir_fd=fd, dst_dir_fd=fd)


@contextlib.contextmanager
def _open_subdirectory(fd: int, name: str) -> Iterator[int]:
    """Open a directory below another one, and create it if needed."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o755, dir_fd=fd)
    try:
        below = os.open(name, _DIRECTORY, dir_fd=fd)
    except OSError as error:
        raise Refused(f"{quote_words([name])} in the repository is no directory: {error.strerror}") from error
    try:
        yield below
    finally:
        os.close(below)


def _write_atomically(directory: int, name: str, content: BinaryIO, mode: int) -> None:
    temporary = f"tmp_sandwright_{secrets.token_hex(8)}"
    _create_file(directory, temporary, content, mode)
    os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)


def _create_file(directory: int, name: str, content: BinaryIO, mode: int) -> None:
    fd = os.open(name, _NEW, mode, dir_fd=directory)
    with os.fdopen(fd, "wb") as file:
        shutil.copyfileobj(content, file, 1 << 20)
