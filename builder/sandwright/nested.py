"""Looks for names in a directory and in those below it, to a depth and a number of entries.

It is asked at each start, so it lists directories and looks at nothing else.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Container, Iterable

from sandwright.folding import folded_name

DEPTH = 3
"""Directories below the first in which names are looked for."""

MOST_ENTRIES = 10_000
MOST_DIRECTORIES = 1_000
MOST_FOUND = 200

LAST = frozenset(
    (".cache", ".nox", ".tox", ".venv", "__pycache__", "node_modules", "site-packages", "target", "venv")
)
"""Directories that programs fill by the thousand; they are listed when all others were."""

_CLOSED = frozenset((".git", ".hg", ".jj", ".sl", ".svn", ".bzr"))
"""Metadata of version control: no work tree is in it."""
_FOLDS = sys.platform == "darwin"


def find_names(root: str, names: Iterable[str]) -> list[str]:
    """The relative paths at which one of `names` is there, nearer ones first.

    A name may have several parts. Links are found and not followed. Of more than the limits above, the first.
    """
    return _search(root, names)[0]


def ends_early(root: str, names: Iterable[str]) -> bool:
    """Whether the limits end that search before it has listed all directories but those of LAST."""
    return _search(root, names)[1]


def _search(root: str, names: Iterable[str]) -> tuple[list[str], bool]:
    remaining: dict[str, list[str]] = {}
    for name in names:
        remaining.setdefault(_key(name.partition("/")[0]), []).append(name)
    found: list[str] = []
    first, last = [(0, "")], list[tuple[int, str]]()
    entries = directories = 0
    while (first or last) and len(found) < MOST_FOUND:
        queue = first or last
        depth, directory = queue.pop(0)
        names_here, inner, count = _list_names(f"{root}/{directory}", remaining)
        entries += count
        directories += 1
        if entries > MOST_ENTRIES or directories > MOST_DIRECTORIES:
            return found[:MOST_FOUND], queue is not last
        for name in names_here:
            found += _there(root, f"{directory}{name}", remaining[_key(name)])
        if depth < DEPTH:
            for name in inner:
                (last if name in LAST else queue).append((depth + 1, f"{directory}{name}/"))
    return found[:MOST_FOUND], len(found) > MOST_FOUND or bool(first)


def _list_names(path: str, names: Container[str]) -> tuple[list[str], list[str], int]:
    """Wanted names in a directory, directories to be looked into, and the number of its entries."""
    found, inner, count = [], [], 0
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                count += 1
                name = entry.name
                if (name if not _FOLDS else folded_name(name)) in names:
                    found.append(name)
                if entry.is_dir(follow_symlinks=False) and name not in _CLOSED:
                    inner.append(name)
    except OSError:
        pass
    return sorted(found), sorted(inner), count


def _there(root: str, path: str, names: Iterable[str]) -> list[str]:
    """Which of the names that begin with the last part of a path are there."""
    ends = [name.partition("/")[2] for name in names]
    return [path if not end else f"{path}/{end}" for end in ends if _leads_to(f"{root}/{path}", end)]


def _leads_to(path: str, end: str) -> bool:
    return not end or os.path.lexists(f"{path}/{end}")


def _key(name: str) -> str:
    """A name as file systems compare it: those of macOS ignore case."""
    return folded_name(name) if _FOLDS else name


def reversed_components(path: str) -> list[str]:
    """The names in a path, the last one first: a stack for following it."""
    return [part for part in reversed(path.split("/")) if part not in ("", ".")]
