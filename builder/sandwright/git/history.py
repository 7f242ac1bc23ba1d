"""The commit of a work tree, and files of other commits."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from sandwright.errors import CommandFailed, ToolMissing, UsageError
from sandwright.git.command import run_git

LARGEST = 1 << 20
"""The size limit of a file of another commit: a policy or a filter. Packed, any size takes little."""


def head_commit(directory: Path) -> str:
    """The commit that is checked out in a work tree; empty where there is none, or no Git."""
    try:
        return run_git(directory, "rev-parse", "--verify", "--quiet", "HEAD^{commit}").text.strip()
    except (CommandFailed, ToolMissing):
        return ""


def top_directory(directory: Path) -> Path:
    """The top of the work tree that a directory is in. Raise UsageError where there is none."""
    try:
        found = run_git(directory, "rev-parse", "--show-toplevel").stdout.removesuffix(b"\n")
    except CommandFailed as error:
        raise UsageError(f"{directory} is in no work tree of Git") from error
    return Path(os.fsdecode(found))


def is_committed(file: Path, content: bytes) -> bool:
    """Whether the commit that is checked out has a file with this content. Line ends are not converted."""
    try:
        found = run_git(file.parent, "rev-parse", "--verify", "--quiet", f"HEAD:./{file.name}").text.strip()
    except (CommandFailed, ToolMissing):
        return False
    digest = hashlib.sha1 if len(found) == 40 else hashlib.sha256
    return digest(b"blob %d\0" % len(content) + content).hexdigest() == found


def file_at(directory: Path, revision: str, path: str) -> bytes:
    """A file of a revision, `path` from the directory on when it begins with `./`, else from the top.

    Raise UsageError when there is no such revision or file, and for one that is too large; ToolMissing
    without Git.
    """
    if revision.startswith("-"):
        raise UsageError(f"{revision} is no revision")
    try:
        if int(run_git(directory, "cat-file", "-s", f"{revision}:{path}").text) > LARGEST:
            raise UsageError(f"{revision}:{path} is larger than {LARGEST} bytes")
        return run_git(directory, "cat-file", "blob", f"{revision}:{path}").stdout
    except CommandFailed as error:
        why = error.stderr.strip().splitlines()
        raise UsageError(f"cannot read {revision}:{path}: {why[-1] if why else 'no such file'}") from error
