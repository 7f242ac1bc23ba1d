"""Runs Git in a repository that may be a stranger's, for commands that only read.

They start no program that the repository's configuration or attributes name (filters, fsmonitor, text
conversion, hooks), and fetch no object that a partial clone lacks: `core.sshCommand` names the program that
would.
"""

from __future__ import annotations

import os
from pathlib import Path

from sandwright import process
from sandwright.errors import CommandFailed
from sandwright.git.layout import blocking_file

_OFFLINE = {"GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none", "LC_ALL": "C"}
_SETTINGS = ("core.fsmonitor=false", "core.hooksPath=/dev/null")
_LIMIT = 60.0


def run_git(directory: Path, *words: str, inherit: bool = True) -> process.Result:
    """Run a command of Git in a directory. Without `inherit` it gets none of our variables `GIT_*`.

    Raise ToolMissing without Git; CommandFailed when the command fails, or would wait at a file.
    """
    variables = {name: each for name, each in os.environ.items() if inherit or not name.startswith("GIT_")}
    settings = (word for each in _SETTINGS for word in ("-c", each))
    argv = ("git", "--no-replace-objects", *settings, "-C", str(directory), *words)
    if blocking := blocking_file(directory):
        raise CommandFailed(argv, 128, f"{blocking} is no regular file, and Git would wait at it")
    return process.run(*argv, env={**variables, **_OFFLINE, "PATH": process.search_path()}, timeout=_LIMIT)
