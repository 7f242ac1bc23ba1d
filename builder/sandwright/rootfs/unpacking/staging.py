"""Creates a directory that appears only when it is complete.

It is created under another name beside its destination, accessible to its owner alone, and renamed at the
end. Its creator holds its lock, so the next process can recognise and remove the leftovers of a killed one.
The parent directory is locked while one is looked for or created.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

from sandwright.errors import HostError
from sandwright.locking import exclusive
from sandwright.rootfs.unpacking.removal import open_directory, remove_tree

PREFIX = ".sandwright-unpack-"
_PATIENCE = 30.0


class StagedDirectory:
    """An unfinished directory. `fd` is open; `publish` gives it its name."""

    def __init__(self, fd: int, parent: int, name: str, destination: Path) -> None:
        self.fd = fd
        self.published = False
        self._parent = parent
        self._name = name
        self._destination = destination

    def publish(self) -> None:
        """Rename it to its destination. Raise HostError when the destination exists."""
        try:
            os.rename(self._name, self._destination.name, src_dir_fd=self._parent, dst_dir_fd=self._parent)
        except (FileExistsError, NotADirectoryError) as error:
            raise _occupied(self._destination) from error
        except OSError as error:
            raise _occupied(self._destination) if error.errno == errno.ENOTEMPTY else error from error
        self.published = True

    def discard(self) -> None:
        """Remove it with its content."""
        remove_tree(self._name, self._parent)


@contextlib.contextmanager
def staged(destination: Path) -> Iterator[StagedDirectory]:
    """A new directory, mode 0700, for the length of a `with`, removed at the end unless published.

    Missing parents of `destination` are created with mode 0700. Raise HostError when `destination` exists, or
    when another process locks its parent for half a minute.
    """
    parent = _open_parent_of(destination)
    try:
        if _exists_in(destination.name, parent):
            raise _occupied(destination)
        name = f"{PREFIX}{secrets.token_hex(8)}"
        with exclusive(destination.with_name(name), within=0):
            with _locked_parent(destination.parent):
                _sweep(parent, destination.parent)
                os.mkdir(name, 0o700, dir_fd=parent)
                fd, _ = open_directory(name, parent)
                _disinherit(fd)
            stage = StagedDirectory(fd, parent, name, destination)
            try:
                yield stage
            finally:
                if not stage.published:
                    stage.discard()
                os.close(fd)
    finally:
        os.close(parent)


def _open_parent_of(destination: Path) -> int:
    if destination.name in ("", ".."):
        raise HostError(f"{destination} is no name for a new directory")
    folder = destination.parent
    for missing in reversed([path for path in (folder, *folder.parents) if not path.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


@contextlib.contextmanager
def _locked_parent(path: Path) -> Iterator[None]:
    with exclusive(path, within=_PATIENCE) as held:
        if not held:
            raise HostError(f"{path} is locked by another process")
        yield


def _sweep(parent: int, path: Path) -> None:
    """Remove the leftovers of killed processes. Others end theirs meanwhile, without the lock."""
    for name in os.listdir(parent):
        if name.startswith(PREFIX) and _is_ours(name, parent):
            with exclusive(path / name, within=0) as held:
                if held and _exists_in(name, parent):
                    remove_tree(name, parent)


def _is_ours(name: str, parent: int) -> bool:
    try:
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


def _disinherit(fd: int) -> None:
    """Remove inherited properties of new directories: group, setgid, ACLs."""
    for name in ("system.posix_acl_default", "system.posix_acl_access"):
        with contextlib.suppress(OSError):
            os.removexattr(fd, name)
    if os.fstat(fd).st_gid != os.getegid():
        os.fchown(fd, -1, os.getegid())
    os.fchmod(fd, 0o700)


def _exists_in(name: str, parent: int) -> bool:
    try:
        os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _occupied(destination: Path) -> HostError:
    return HostError(f"{destination} is there already")
