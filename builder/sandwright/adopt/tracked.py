"""Asks Git which files of a project it tracks: everybody who has the repository has those."""

from __future__ import annotations

import os
from pathlib import Path

from sandwright import process
from sandwright.errors import CommandFailed, ToolMissing

_TIMEOUT = 30.0
"""Seconds."""

_OWN = ("core.fsmonitor=false", "core.hooksPath=/dev/null", "core.useReplaceRefs=false")
"""Settings in place of the repository's own, which may be a stranger's."""


def tracked(directory: Path) -> frozenset[str]:
    """The paths below a directory that Git tracks, relative to it; none without Git, or a repository."""
    words = [*(word for each in _OWN for word in ("-c", each)), "ls-files", "-z", "--cached"]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        listed = process.run("git", *words, cwd=directory, env=environ, timeout=_TIMEOUT, check=False)
    except (ToolMissing, CommandFailed, OSError):
        return frozenset()
    if listed.status != 0:
        return frozenset()
    return frozenset(os.fsdecode(each) for each in listed.stdout.split(b"\0") if each)
