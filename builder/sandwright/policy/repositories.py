"""Looks for the directories in which Git keeps what a work tree, its submodules and its other work trees run.

Only names are looked at, and the pointer files that Git itself follows.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from sandwright.looks import Looks
from sandwright.policy import spelling

MAX_GIT_DIRECTORIES = 200
"""Directories of submodules and linked work trees that are looked at."""


def git_directories(roots: Iterable[str], looks: Looks) -> tuple[str, ...]:
    """Git's directories of some directories: where `.git` leads, and those it keeps inside.

    A `.git` that is a file (gitrepository-layout(5)) says where the directory is; `commondir` in it says
    where the hooks and the configuration are.
    """
    found: dict[str, None] = {}
    for root in roots:
        for directory in _git_of(Path(root) / ".git", looks):
            looks.ask("real", str(directory))
            found.setdefault(os.path.realpath(directory))
            for inner in _inner(directory, looks):
                if len(found) < MAX_GIT_DIRECTORIES:
                    found.setdefault(os.path.realpath(inner))
    return tuple(path for path in found if path == spelling.plain(path))


def _git_of(git: Path, looks: Looks) -> list[Path]:
    if _is_directory(git, looks):
        directory = git
    else:
        target = _first_line(git, looks).removeprefix("gitdir: ")
        directory = git.parent / target if target else git
    if not _is_directory(directory, looks):
        return []
    common = _first_line(directory / "commondir", looks)
    there = bool(common) and _is_directory(directory / common, looks)
    return [directory, *([directory / common] if there else [])]


def _is_directory(path: Path, looks: Looks) -> bool:
    return looks.ask("type", str(path)) == stat.S_IFDIR


def _inner(directory: Path, looks: Looks) -> list[Path]:
    """The directories of submodules and linked work trees that Git keeps in one of its directories."""
    found: list[Path] = []
    for folder in (directory / "modules", directory / "worktrees"):
        looks.ask("names", str(folder))
        for parent, names, files in os.walk(folder):
            looks.ask_all([("names", parent), ("real", parent)])
            if "HEAD" in files:
                found.append(Path(parent))
                names[:] = [name for name in names if name in ("modules", "worktrees")]
            if len(found) >= MAX_GIT_DIRECTORIES:
                break
    return found


def _first_line(path: Path, looks: Looks) -> str:
    """The only line of one of Git's pointer files, which are short; empty for anything else."""
    raw = plain_content(path, 4096, looks) or b""
    return raw.decode(errors="replace").strip() if raw.count(b"\n") <= 1 else ""


def plain_content(path: Path, limit: int, looks: Looks) -> bytes | None:
    """The bytes of a plain file; None for anything else, for what can't be read, and for more than `limit`.

    Somebody else may have put a pipe there, whose opening would wait.
    """
    looks.ask("digest", str(path))
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return None
    with os.fdopen(descriptor, "rb") as file:
        try:
            raw = file.read(limit + 1)
        except OSError:
            return None
    return raw if len(raw) <= limit else None
