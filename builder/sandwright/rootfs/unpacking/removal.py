"""Removes directory trees that strangers made: any depth, any modes, no link followed, two descriptors."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from sandwright.errors import HostError

OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LOOK = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(slots=True)
class _Level:
    """A directory on the way down: its name in its parent, its identity, and its remaining subdirectories."""

    name: str
    identity: tuple[int, int]
    folders: list[str]


def open_directory(name: bytes | str, parent: int) -> tuple[int, os.stat_result]:
    """Open a directory by its name in an open one, for reading, and give its status; never a link to one.

    A directory that its owner may not enter is opened up (to mode 0700); the status is that from before.
    Raise OSError as open(2) does.
    """
    try:
        fd = os.open(name, OPEN_DIRECTORY, dir_fd=parent)
        return fd, os.fstat(fd)
    except PermissionError:
        path_fd = os.open(name, _LOOK, dir_fd=parent)
        try:
            status = os.fstat(path_fd)
            Path(f"/proc/self/fd/{path_fd}").chmod(0o700)  # the way to chmod an O_PATH descriptor
            return os.open(name, OPEN_DIRECTORY, dir_fd=parent), status
        finally:
            os.close(path_fd)


def remove(name: bytes | str, parent: int) -> None:
    """Remove the entry `name` in the open directory `parent`, with everything below it.

    Raise FileNotFoundError when there is nothing.
    """
    if stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
        remove_tree(name, parent)
    else:
        os.unlink(name, dir_fd=parent)


def remove_tree(name: bytes | str, parent: int) -> None:
    """Remove the directory `name` in the open directory `parent`, with all entries below it.

    It goes down into one directory after another and back up through `..`, so that depth costs no
    descriptors. No other process may change anything below it.
    """
    top = os.fsdecode(name)
    fd, _ = open_directory(top, parent)
    levels: list[_Level] = []
    try:
        levels.append(_unlink_files(top, fd))
        while levels:
            level = levels[-1]
            if level.folders:
                name = level.folders.pop()
                fd = _move(fd, open_directory(name, fd)[0])
                levels.append(_unlink_files(name, fd))
                continue
            levels.pop()
            if levels:
                fd = _move(fd, os.open("..", OPEN_DIRECTORY, dir_fd=fd))
                if _inode_identity(fd) != levels[-1].identity:
                    raise HostError(f"{top}: directories in it were moved while it was being removed")
                os.rmdir(level.name, dir_fd=fd)
    finally:
        os.close(fd)
    os.rmdir(top, dir_fd=parent)


def _unlink_files(name: str, fd: int) -> _Level:
    """Unlink all files but directories, and return the directories."""
    if os.fstat(fd).st_mode & 0o300 != 0o300:
        os.fchmod(fd, 0o700)
    level = _Level(name, _inode_identity(fd), [])
    with os.scandir(fd) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                level.folders.append(entry.name)
            else:
                os.unlink(entry.name, dir_fd=fd)
    return level


def _move(old: int, new: int) -> int:
    os.close(old)
    return new


def _inode_identity(fd: int) -> tuple[int, int]:
    status = os.fstat(fd)
    return status.st_dev, status.st_ino
