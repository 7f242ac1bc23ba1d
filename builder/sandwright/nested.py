"""Searches a directory, and those below it to a depth, for names.

The result decides which files are protected, and programs inside a sandbox control the searched directories.
So the search is complete or raises IncompleteSearch: a limit that ends it silently would let them hide a
name. It runs at each start. It lists directories, and opens no file.
"""

from __future__ import annotations

import errno
import os
import pwd
import sys
from collections import Counter, deque
from collections.abc import Iterable

from sandwright.errors import UsageError
from sandwright.folding import folded_name

DEPTH = 3
"""Levels of directories below the first one that are searched."""

MAX_DIRECTORIES = 100_000
MAX_ENTRIES = 5_000_000
MAX_FOUND = 10_000

_CLOSED = frozenset((".git", ".hg", ".jj", ".sl", ".svn", ".bzr"))
"""Metadata of version control: no work tree is in it."""
_ACCOUNTS = "sandwright-"
"""The prefix of the accounts of method `user`."""
_FOLDS = sys.platform == "darwin"
_OVERFLOWS = (errno.ENAMETOOLONG, errno.EMFILE, errno.ENFILE, errno.ENOMEM)


class IncompleteSearch(UsageError):
    """A directory can't be searched, or not as a whole."""


def find_names(root: str, names: Iterable[str]) -> list[str]:
    """The relative paths at which one of `names` is there, nearer ones first. Links are not followed.

    A name may have several parts. One that begins with a slash is a directory below `root` that is not
    searched. Raise IncompleteSearch for more than the limits above, and for a directory that its owner has
    closed.
    """
    return _Search(root, names).run()


class _Search:
    def __init__(self, root: str, names: Iterable[str]) -> None:
        self._root = root
        self._names: dict[str, list[str]] = {}
        self._skipped = set[str]()
        self._directories = Counter[str]()
        self._entries = Counter[str]()
        self._remaining = [MAX_DIRECTORIES, MAX_ENTRIES]
        for name in names:
            if name.startswith("/"):
                self._skipped.add(name[1:])
            else:
                self._names.setdefault(_key(name.partition("/")[0]), []).append(name)

    def run(self) -> list[str]:
        found: list[str] = []
        pending = deque([(0, "")])
        while pending:
            depth, directory = pending.popleft()
            matching, inner = self._list_entries(directory)
            for name in matching:
                found += self._existing_paths(f"{directory}{name}", self._names[_key(name)])
            if len(found) > MAX_FOUND:
                raise IncompleteSearch(f"{self._root} has more than {MAX_FOUND:,} names that programs use")
            if depth < DEPTH:
                pending += [
                    (depth + 1, f"{directory}{name}/")
                    for name in inner
                    if f"{directory}{name}" not in self._skipped
                ]
        return found

    def _list_entries(self, directory: str) -> tuple[list[str], list[str]]:
        """The names that may be wanted, and the directories that are searched next."""
        found, inner, count = [], [], 0
        path = f"{self._root}/{directory}"
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    count += 1
                    name = entry.name
                    if (name if not _FOLDS else folded_name(name)) in self._names:
                        found.append(name)
                    if entry.is_dir(follow_symlinks=False) and name not in _CLOSED:
                        inner.append(name)
            check_passable(path)
        except OSError as error:
            check_listed(path.rstrip("/"), error)
        self._count_entries(directory, count)
        return sorted(found), sorted(inner)

    def _count_entries(self, directory: str, entries: int) -> None:
        """Raise IncompleteSearch when there are too many; it names where most of them are."""
        first = directory.partition("/")[0]
        self._directories[first] += 1
        self._entries[first] += entries
        self._remaining = [self._remaining[0] - 1, self._remaining[1] - entries]
        for remaining, counts, most, what in (
            (self._remaining[0], self._directories, MAX_DIRECTORIES, "directories"),
            (self._remaining[1], self._entries, MAX_ENTRIES, "names"),
        ):
            if remaining < 0:
                path = f"{self._root}/{max(counts, key=lambda name: counts[name])}".rstrip("/")
                raise IncompleteSearch(f"{path} has too many {what} to be searched ({most:,} in all)")

    def _existing_paths(self, path: str, names: Iterable[str]) -> list[str]:
        """The names that begin with the last part of a path and exist."""
        ends = [name.partition("/")[2] for name in names]
        return [
            f"{path}/{end}" if end else path
            for end in ends
            if not end or os.path.lexists(f"{self._root}/{path}/{end}")
        ]


def check_passable(path: str) -> None:
    """Raise PermissionError for a directory whose names can be listed, and nothing more."""
    if not os.access(path, os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)


def check_listed(path: str, error: OSError) -> None:
    """Raise IncompleteSearch for a directory that is there, unless another user has closed it.

    A program inside may close a directory, for the next search, and open it again.
    """
    if isinstance(error, PermissionError) and _may_be_owned_inside(path):
        raise IncompleteSearch(f"cannot search {path}: its owner has no right to do so") from error
    if error.errno in _OVERFLOWS:
        raise IncompleteSearch(f"cannot search {path}: {error.strerror}") from error


def _may_be_owned_inside(path: str) -> bool:
    """Whether a program inside may be the owner of a directory."""
    try:
        owner = os.lstat(path).st_uid
    except OSError:
        return False  # the directory above can't be searched, which was found before
    try:
        return owner == os.geteuid() or pwd.getpwuid(owner).pw_name.startswith(_ACCOUNTS)
    except KeyError:
        return False


def _key(name: str) -> str:
    """A name as file systems compare it: those of macOS ignore case."""
    return folded_name(name) if _FOLDS else name


def reversed_components(path: str) -> list[str]:
    """The names in a path, the last one first: a stack for following it."""
    return [part for part in reversed(path.split("/")) if part not in ("", ".")]
