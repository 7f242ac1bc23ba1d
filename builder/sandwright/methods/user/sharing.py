"""Gives an account rights over a tree, and takes them again: no link is followed, nobody else's file touched.

Whoever runs this may be root, and the tree may hold what a hostile command made. Each file is opened by its
name in a directory that is open already, without following links, and is looked at before anything is
changed: what belongs neither to the tree's owner nor to the account stays as it is.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from sandwright.errors import HostError
from sandwright.methods.user import acl
from sandwright.methods.user.acl import ACCESS, DEFAULT, EXECUTE, READ, WRITE, AccessList

_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_DEEPEST = 400
"""Directories in each other that are gone through: each takes a descriptor, and a part of Python's stack."""

_CROWDED = "a file has other names elsewhere, and may be somebody else's"


@dataclass
class Left:
    """What was passed over, by reason."""

    reasons: dict[str, int]

    def add(self, reason: str) -> None:
        """One more."""
        self.reasons[reason] = self.reasons.get(reason, 0) + 1

    def describe(self) -> list[str]:
        """A line for each reason."""
        return [f"{count} left as they are: {reason}" for reason, count in sorted(self.reasons.items())]


Change = Callable[[int, os.stat_result], None]
"""What is done to one file or directory, by its descriptor."""


def share(tree: Path, uid: int, closed: Collection[str] = ()) -> list[str]:
    """Let a user read and write all of a tree but `closed` paths, and its owner all that is made there later.

    Programs stay programs, and nothing becomes one. Give what was left as it is. Raise HostError when the
    file system keeps no lists.
    """
    owner = tree.stat().st_uid

    def change(descriptor: int, status: os.stat_result) -> None:
        directory = stat.S_ISDIR(status.st_mode)
        given = READ | WRITE | (EXECUTE if directory or status.st_mode & stat.S_IXUSR else 0)
        here = _access(descriptor, status)
        _set(descriptor, ACCESS, here.granting(uid, given))
        if directory:
            first = _default(descriptor) or acl.of_mode(status.st_mode)
            _set(descriptor, DEFAULT, first.granting(uid, 7).granting(owner, 7))

    return _changed(tree, {owner, uid}, change, closed)


def unshare(tree: Path, uid: int) -> list[str]:
    """Take back what `share` gave. Give what was left as it is."""
    owner = tree.stat().st_uid

    def change(descriptor: int, status: os.stat_result) -> None:
        _set(descriptor, ACCESS, _access(descriptor, status).without(uid).without(owner))
        first = _default(descriptor) if stat.S_ISDIR(status.st_mode) else None
        if first is not None:
            left = first.without(uid)
            if set(left.users) <= {owner}:
                os.removexattr(descriptor, DEFAULT)
            else:
                _set(descriptor, DEFAULT, left)

    return _changed(tree, {owner, uid}, change)


def let_through(directory: Path, uid: int) -> None:
    """Let a user pass through a directory to what it may see below, and see nothing of itself."""
    _on_one(directory, lambda here: here.granting(uid, EXECUTE | here.users.get(uid, 0)))


def keep_out(directory: Path, uid: int) -> None:
    """Take that back."""
    _on_one(directory, lambda here: here.without(uid))


def passes(directory: Path, uid: int) -> bool:
    """Whether a user that is in no group of the directory may pass through it."""
    status = directory.stat()
    if status.st_uid == uid:
        return bool(status.st_mode & stat.S_IXUSR)
    own = read(directory).permissions(uid)
    return bool((status.st_mode if own is None else own) & EXECUTE)


def read(path: Path) -> AccessList:
    """What holds for a file or directory. Raise OSError."""
    try:
        return acl.decode(os.getxattr(path, ACCESS))
    except OSError as error:
        if error.errno not in (errno.ENODATA, errno.ENOTSUP):
            raise
        return acl.of_mode(path.stat().st_mode)


def _on_one(directory: Path, change: Callable[[AccessList], AccessList]) -> None:
    descriptor = os.open(directory, _OPEN | os.O_DIRECTORY)
    try:
        status = os.fstat(descriptor)
        _set(descriptor, ACCESS, change(_access(descriptor, status)))
    finally:
        os.close(descriptor)


def _changed(tree: Path, owners: set[int], change: Change, closed: Collection[str] = ()) -> list[str]:
    left = Left({})
    for descriptor, status in _opened(tree, left, closed):
        if status.st_uid not in owners:
            left.add("they belong to somebody else")
        elif not stat.S_ISDIR(status.st_mode) and status.st_nlink > 1:
            left.add(_CROWDED)
        else:
            change(descriptor, status)
    return left.describe()


def _opened(tree: Path, left: Left, closed: Collection[str]) -> Iterator[tuple[int, os.stat_result]]:
    """Every directory and plain file of a tree on one file system, open for as long as it is looked at."""
    device = tree.stat().st_dev
    top = len(tree.parts)
    for path, directories, files, parent in os.fwalk(tree, follow_symlinks=False):
        status = os.fstat(parent)
        directories[:] = [name for name in directories if f"{path}/{name}" not in closed]
        if directories and path.count("/") - top >= _DEEPEST:
            directories.clear()
            left.add("they lie too deep")
        if status.st_dev != device:
            directories.clear()
            left.add("they are on another file system")
            continue
        yield parent, status
        for name in (name for name in files if f"{path}/{name}" not in closed):
            yield from _file(name, parent, left)


def _file(name: str, parent: int, left: Left) -> Iterator[tuple[int, os.stat_result]]:
    try:
        descriptor = os.open(name, _OPEN, dir_fd=parent)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENXIO, errno.ENOENT):  # a link, a socket, gone
            left.add(f"they can't be opened: {error.strerror}")
        return
    try:
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode):
            yield descriptor, status
    finally:
        os.close(descriptor)


def _access(descriptor: int, status: os.stat_result) -> AccessList:
    return _get(descriptor, ACCESS) or acl.of_mode(status.st_mode)


def _default(descriptor: int) -> AccessList | None:
    return _get(descriptor, DEFAULT)


def _get(descriptor: int, name: str) -> AccessList | None:
    try:
        return acl.decode(os.getxattr(descriptor, name))
    except OSError as error:
        if error.errno == errno.ENODATA:
            return None
        raise _explained(error) from error


def _set(descriptor: int, name: str, given: AccessList) -> None:
    try:
        os.setxattr(descriptor, name, acl.encode(given))
    except OSError as error:
        raise _explained(error) from error


def _explained(error: OSError) -> HostError:
    if error.errno == errno.ENOTSUP:
        return HostError("the file system keeps no access control lists, by which a workspace is shared")
    return HostError(f"an access control list can't be changed: {error.strerror}")
