"""Gives an account rights over a tree, and revokes them: it follows no link and touches no other user's file.

The caller may be root, and the tree may hold files of a hostile command. Each file is opened by its name in a
directory that is open already, without following links, and is checked before any change: files that belong
neither to the tree's owner nor to the account stay unchanged.
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

_CROWDED = "a file has other names elsewhere, and may be another user's"


@dataclass
class Left:
    """The skipped files, by reason."""

    reasons: dict[str, int]

    def add(self, reason: str) -> None:
        """Count one more skipped file."""
        self.reasons[reason] = self.reasons.get(reason, 0) + 1

    def describe(self) -> list[str]:
        """A line for each reason."""
        return [f"{count} left as they are: {reason}" for reason, count in sorted(self.reasons.items())]


Change = Callable[[int, os.stat_result], None]
"""The change to one file or directory, by its descriptor."""


def share(tree: Path, uid: int, closed: Collection[str] = ()) -> list[str]:
    """Let a user read and write a tree except `closed` paths, and its owner all files created there later.

    Executable files stay executable, and no other file becomes executable. Return the skipped files. Raise
    HostError when the file system keeps no lists.
    """
    owner = tree.stat().st_uid

    def change(descriptor: int, status: os.stat_result) -> None:
        directory = stat.S_ISDIR(status.st_mode)
        rights = READ | WRITE | (EXECUTE if directory or status.st_mode & stat.S_IXUSR else 0)
        here = _access_list(descriptor, status)
        _write_acl(descriptor, ACCESS, here.granting(uid, rights))
        if directory:
            first = _default_list(descriptor) or acl.of_mode(status.st_mode)
            _write_acl(descriptor, DEFAULT, first.granting(uid, 7).granting(owner, 7))

    return _changed(tree, {owner, uid}, change, closed)


def unshare(tree: Path, uid: int) -> list[str]:
    """Revoke the rights that `share` granted. Return the skipped files."""
    owner = tree.stat().st_uid

    def change(descriptor: int, status: os.stat_result) -> None:
        _write_acl(descriptor, ACCESS, _access_list(descriptor, status).without(uid).without(owner))
        first = _default_list(descriptor) if stat.S_ISDIR(status.st_mode) else None
        if first is not None:
            remaining = first.without(uid)
            if set(remaining.users) <= {owner}:
                os.removexattr(descriptor, DEFAULT)
            else:
                _write_acl(descriptor, DEFAULT, remaining)

    return _changed(tree, {owner, uid}, change)


def let_through(directory: Path, uid: int) -> None:
    """Let a user pass through a directory to the visible paths below, but not read the directory."""
    _on_one(directory, lambda here: here.granting(uid, EXECUTE | here.users.get(uid, 0)))


def keep_out(directory: Path, uid: int) -> None:
    """Revoke the right that `let_through` granted."""
    _on_one(directory, lambda here: here.without(uid))


def can_traverse(directory: Path, uid: int) -> bool:
    """Whether a user that is in no group of the directory may pass through it."""
    status = directory.stat()
    if status.st_uid == uid:
        return bool(status.st_mode & stat.S_IXUSR)
    permissions = read_acl(directory).permissions(uid)
    return bool((status.st_mode if permissions is None else permissions) & EXECUTE)


def read_acl(path: Path) -> AccessList:
    """The access list of a file or directory. Raise OSError."""
    try:
        return acl.decode_acl(os.getxattr(path, ACCESS))
    except OSError as error:
        if error.errno not in (errno.ENODATA, errno.ENOTSUP):
            raise
        return acl.of_mode(path.stat().st_mode)


def _on_one(directory: Path, change: Callable[[AccessList], AccessList]) -> None:
    descriptor = os.open(directory, _OPEN | os.O_DIRECTORY)
    try:
        status = os.fstat(descriptor)
        _write_acl(descriptor, ACCESS, change(_access_list(descriptor, status)))
    finally:
        os.close(descriptor)


def _changed(tree: Path, owners: set[int], change: Change, closed: Collection[str] = ()) -> list[str]:
    skipped = Left({})
    for descriptor, status in _open_tree(tree, skipped, closed):
        if status.st_uid not in owners:
            skipped.add("they belong to another user")
        elif not stat.S_ISDIR(status.st_mode) and status.st_nlink > 1:
            skipped.add(_CROWDED)
        else:
            change(descriptor, status)
    return skipped.describe()


def _open_tree(tree: Path, skipped: Left, closed: Collection[str]) -> Iterator[tuple[int, os.stat_result]]:
    """Every directory and plain file of a tree on one file system, open for as long as it is looked at."""
    device = tree.stat().st_dev
    top = len(tree.parts)
    for path, directories, files, parent in os.fwalk(tree, follow_symlinks=False):
        status = os.fstat(parent)
        directories[:] = [name for name in directories if f"{path}/{name}" not in closed]
        if directories and path.count("/") - top >= _DEEPEST:
            directories.clear()
            skipped.add("they lie too deep")
        if status.st_dev != device:
            directories.clear()
            skipped.add("they are on another file system")
            continue
        yield parent, status
        for name in (name for name in files if f"{path}/{name}" not in closed):
            yield from _open_file(name, parent, skipped)


def _open_file(name: str, parent: int, skipped: Left) -> Iterator[tuple[int, os.stat_result]]:
    try:
        descriptor = os.open(name, _OPEN, dir_fd=parent)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENXIO, errno.ENOENT):  # a link, a socket, gone
            skipped.add(f"they cannot be opened: {error.strerror}")
        return
    try:
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode):
            yield descriptor, status
    finally:
        os.close(descriptor)


def _access_list(descriptor: int, status: os.stat_result) -> AccessList:
    return _read_acl(descriptor, ACCESS) or acl.of_mode(status.st_mode)


def _default_list(descriptor: int) -> AccessList | None:
    return _read_acl(descriptor, DEFAULT)


def _read_acl(descriptor: int, name: str) -> AccessList | None:
    try:
        return acl.decode_acl(os.getxattr(descriptor, name))
    except OSError as error:
        if error.errno == errno.ENODATA:
            return None
        raise _explain_acl_error(error) from error


def _write_acl(descriptor: int, name: str, access: AccessList) -> None:
    try:
        os.setxattr(descriptor, name, acl.encode_acl(access))
    except OSError as error:
        raise _explain_acl_error(error) from error


def _explain_acl_error(error: OSError) -> HostError:
    if error.errno == errno.ENOTSUP:
        return HostError("the file system keeps no access control lists, by which a workspace is shared")
    return HostError(f"cannot change an access control list: {error.strerror}")
