"""Stores unpacked root file systems, one for each image digest, shared by all bundles of that image.

An entry is a directory named after the digest, and a JSON file about it. The directory appears only when it
is complete: it is unpacked and prepared under another name, and renamed. A process that works on a digest
holds a lock; the next one removes the leftovers of a killed process.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandwright.documents import strictjson
from sandwright.errors import HostError
from sandwright.locking import exclusive
from sandwright.rootfs.unpacking.removal import remove

PATIENCE = 30.0
"""Seconds in which another process writes its file."""

WAITING = 600.0
"""Seconds in which another process unpacks an image."""


@dataclass(frozen=True)
class StoredRootfs:
    """A root file system of the store, with its `record`. `fresh`: this call created it."""

    rootfs: Path
    record: Mapping[str, Any]
    fresh: bool


def stored_rootfs(store: Path, name: str, make: Callable[[Path], Mapping[str, Any]]) -> StoredRootfs:
    """The root file system called `name`, created if missing.

    `make` receives a path that does not exist, in a directory that only this user can enter. It creates a
    directory there and returns the record, which must be JSON. An error leaves the store as it was. Two
    processes that need the same name wait for each other; raise HostError where that takes too long.
    """
    rootfs, record = store / name, store / f"{name}.json"
    with explained(store):
        _private(store)
        if there := _complete(rootfs, record):
            return there
    with explained(store), locked(rootfs):
        if there := _complete(rootfs, record):  # created while we waited
            return there
        part = store / f".{name}.part"
        remove_tree(part)
        remove_tree(rootfs)
        part.mkdir(mode=0o700)
        try:
            made = make(part / "rootfs")
            write_atomically(record, encode(made))
            _on_disk(part)  # or after a loss of power the name could exist without the content
            (part / "rootfs").rename(rootfs)
        finally:
            remove_tree(part)
        return StoredRootfs(rootfs, made, fresh=True)


def _complete(rootfs: Path, record: Path) -> StoredRootfs | None:
    """The stored tree; None where it is not ours, like a link, which may lead to the machine's root."""
    try:
        if not (stat.S_ISDIR(rootfs.lstat().st_mode) and stat.S_ISREG(record.lstat().st_mode)):
            return None
        return StoredRootfs(rootfs, strictjson.loads(record.read_text(encoding="utf-8")), fresh=False)
    except (FileNotFoundError, ValueError):  # not our record
        return None


@contextlib.contextmanager
def explained(what: object) -> Iterator[None]:
    """Turn OSError into a HostError whose message names `what`."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise HostError(f"{what}: {'the disk is full' if full else error.strerror or error}") from error


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a path for the length of a `with`. Raise HostError after `WAITING`."""
    with exclusive(path, within=WAITING) as held:
        if not held:
            raise HostError(f"{path} is locked by another process, and stays so")
        yield


def write_atomically(path: Path, content: bytes) -> bool:
    """Write a temporary file and rename it to `path`. Return false if `path` holds `content` already.

    The temporary name is fixed, under a lock on the directory, so the next process overwrites leftovers.
    The directory may be a project's, where a sandbox can put a pipe in the file's place. Raise HostError
    where the lock isn't had in time.
    """
    if _has_content(path, content):
        return False
    part = path.with_name(f".{path.name}.part")
    with exclusive(path.parent, within=PATIENCE) as held:
        if not held:
            raise HostError(f"{path.parent} is locked by another process: nothing was written")
        part.unlink(missing_ok=True)
        try:
            with part.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    return True


def _has_content(path: Path, content: bytes) -> bool:
    """Whether a plain file with this content is there; a file that would block is none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP, errno.ENXIO):  # nothing, a link, a socket
            return False
        raise
    with os.fdopen(descriptor, "rb") as file:
        return stat.S_ISREG(os.fstat(descriptor).st_mode) and file.read() == content


def encode(document: Mapping[str, Any]) -> bytes:
    """JSON as this project writes it: keys sorted, two spaces, ASCII, a newline at the end."""
    return (json.dumps(document, indent=2, sort_keys=True) + "\n").encode()


def remove_tree(path: Path) -> None:
    """Remove a directory and its content, if it exists, following no link."""
    parent = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(FileNotFoundError):
            remove(path.name, parent)
    finally:
        os.close(parent)


def _on_disk(directory: Path) -> None:
    """Wait until everything that was written to the directory's file system is on its disk: syncfs(2)."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        library = ctypes.CDLL(None, use_errno=True)
        if library.syncfs(fd) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(directory))
    except AttributeError:  # no Linux
        os.sync()
    finally:
        os.close(fd)


def _private(store: Path) -> None:
    """Create the store, closed to other users: images hold setuid programs (CVE-2021-41091, -41103).

    One that others can open and that is not empty is refused: it is another user's, or came with a project.
    """
    store.mkdir(parents=True, exist_ok=True, mode=0o700)
    status = store.stat()
    if status.st_uid != os.geteuid():
        raise HostError(f"{store} belongs to another user (uid {status.st_uid})")
    if not stat.S_IMODE(status.st_mode) & 0o077:
        return
    found = sorted(path.name for path in store.iterdir())
    if found:
        raise HostError(
            f"{store} is open to other users and holds other things ({found[0]}, …): "
            "root file systems need a directory of their own"
        )
    store.chmod(0o700)
