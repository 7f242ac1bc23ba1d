"""Files of a work tree that Git tracks, and directories that it ignores."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

from sandwright import nested
from sandwright.errors import CommandFailed, ToolMissing
from sandwright.git.command import run_git


def tracked(directory: Path) -> frozenset[str]:
    """The paths below a directory that Git tracks, relative to it; none without Git, or a repository."""
    return frozenset(_list_files(directory, "--cached"))


def ignored_directories(directory: Path) -> frozenset[str]:
    """The directories below one in which Git ignores all, relative to it, but for those in one of them."""
    if _blocking_ignore(directory):
        return frozenset()
    found = _list_files(directory, "--others", "--ignored", "--exclude-standard", "--directory")
    paths = {path[:-1] for path in found if path.endswith("/")}
    return frozenset(path for path in paths if paths.isdisjoint(map(str, PurePosixPath(path).parents)))


def _blocking_ignore(directory: Path) -> bool:
    """Whether Git would wait at a `.gitignore`, such as a pipe; one below `nested.DEPTH` takes its limit."""
    paths = (directory / path for path in nested.find_names(str(directory), (".gitignore",)))
    return any(not path.is_file() and not path.is_dir() for path in paths)


def _list_files(directory: Path, *options: str) -> list[str]:
    try:
        listed = run_git(directory, "ls-files", "-z", *options, inherit=False)
    except (ToolMissing, CommandFailed):
        return []
    return [os.fsdecode(each) for each in listed.stdout.split(b"\0") if each]
