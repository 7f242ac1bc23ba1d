"""Removes links that a run left in Git's directories, where Git on the host would write through them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable

from sandwright.folding import folded_name

_OPEN = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_NAMES = frozenset(
    ("commondir", "config", "config.worktree", "gitdir", "hooks", "info", "modules", "worktrees")
)
"""Entries of a Git directory that can name programs: Git would write through a link to one of them."""


def remove_link(
    path: str, seen: os.stat_result, repository: str, protected: Iterable[str] = ()
) -> str | None:
    """Remove a link in a repository, if it is still the one that was seen; give its target, None if it stays.

    One to a plain name in the same directory stays: editors and Mercurial use such links as locks. So does
    one from a repository to the same name in a protected one.
    """
    directory = -1
    above, _, name = path.rpartition("/")
    try:
        directory = _open_directory(above)
        found = os.lstat(name, dir_fd=directory)
        target = os.readlink(name, dir_fd=directory)
        same = (found.st_dev, found.st_ino) == (seen.st_dev, seen.st_ino) and stat.S_ISLNK(found.st_mode)
        if not same or _is_harmless(target) or _is_shared(path, repository, protected):
            return None
        os.unlink(name, dir_fd=directory)
    except OSError:
        return None
    finally:
        if directory >= 0:
            os.close(directory)
    return target


def _is_harmless(target: str) -> bool:
    return "/" not in target and target != ".." and folded_name(target) not in _NAMES


def _is_shared(path: str, repository: str, protected: Iterable[str]) -> bool:
    """Whether a link makes repositories share a file, as git-new-workdir does.

    Through the link, Git writes into the other repository. A program inside cannot replace the path to that
    one, because it is protected. A repository from the same run does not count.
    """
    name = path.removeprefix(repository)
    return os.path.realpath(path) in {f"{each}{name}" for each in protected}


def _open_directory(path: str) -> int:
    """Open a directory and follow no link on the way. Raise OSError where there is one."""
    opened = os.open("/", _OPEN)
    for part in filter(None, path.split("/")):
        above = opened
        try:
            opened = os.open(part, _OPEN, dir_fd=above)
        finally:
            os.close(above)
    return opened
