"""Names in a repository (gitrepository-layout(5)), and files at which Git would wait."""

from __future__ import annotations

import itertools
import os
import stat
from collections.abc import Iterator
from pathlib import Path

GITFILE = "gitdir: "
"""The prefix of the line in a `.git` that is a file, before the path of the repository."""

REPOSITORY = ("HEAD", "commondir", "objects", "refs")
"""The names that make a directory a repository."""

_READ = (
    "HEAD", "commondir", "config", "config.worktree", "index", "info/attributes", "info/exclude",
    "info/grafts", "objects/info/alternates", "packed-refs", "shallow",
)  # fmt: skip
"""The files of a repository that Git reads for any command."""

_MOST_REFS = 10_000


def blocking_file(directory: Path) -> str:
    """A file of a directory's repository at which Git would block, such as a pipe; empty if there is none."""
    for each in (directory.absolute(), *directory.absolute().parents):
        git = each / ".git"
        if git.is_dir():
            read = itertools.chain((git / name for name in _READ), _refs(git))
            return next((str(path) for path in read if _blocks(path)), "")
        if os.path.lexists(git):
            return str(git) if _blocks(git) else ""
    return ""


def _refs(git: Path) -> Iterator[Path]:
    """The files of refs, to a number: which of them Git reads depends on the command."""
    walked = (Path(folder, name) for folder, _, names in os.walk(git / "refs") for name in names)
    return itertools.islice(walked, _MOST_REFS)


def _blocks(path: Path) -> bool:
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)
