"""Asks Git which files of a project it tracks, which everybody has, and which directories it ignores."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

from sandwright import nested, process
from sandwright.errors import CommandFailed, ToolMissing
from sandwright.githistory import OFFLINE, blocking_file

_TIMEOUT = 30.0
"""Seconds."""

_OWN = ("core.fsmonitor=false", "core.hooksPath=/dev/null", "core.useReplaceRefs=false")
"""Settings in place of the repository's own, which may be a stranger's."""


def tracked(directory: Path) -> frozenset[str]:
    """The paths below a directory that Git tracks, relative to it; none without Git, or a repository."""
    return frozenset(_listed(directory, "--cached"))


def ignored_directories(directory: Path) -> frozenset[str]:
    """The directories below one in which Git ignores all, relative to it, but for those in one of them."""
    found = _listed(directory, "--others", "--ignored", "--exclude-standard", "--directory")
    paths = {path[:-1] for path in found if path.endswith("/")}
    return frozenset(path for path in paths if paths.isdisjoint(map(str, PurePosixPath(path).parents)))


def _blocking_ignore(directory: Path) -> bool:
    """Whether Git would wait at a `.gitignore`, such as a pipe; one below `nested.DEPTH` takes its limit."""
    paths = (directory / path for path in nested.find(str(directory), (".gitignore",)))
    return any(not path.is_file() and not path.is_dir() for path in paths)


def _listed(directory: Path, *options: str) -> list[str]:
    words = [*(word for each in _OWN for word in ("-c", each)), "ls-files", "-z", *options]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environ |= OFFLINE | {"PATH": process.search_path()}
    if blocking_file(directory) or ("--exclude-standard" in options and _blocking_ignore(directory)):
        return []
    try:
        listed = process.run("git", *words, cwd=directory, env=environ, timeout=_TIMEOUT, check=False)
    except (ToolMissing, CommandFailed, OSError):
        return []
    return [os.fsdecode(each) for each in listed.stdout.split(b"\0") if each] if listed.status == 0 else []
