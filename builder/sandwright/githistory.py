"""What Git's history holds: the commit of a work tree, and files of other commits.

Only commands that read objects are used: they start no program that a repository's configuration or
attributes name (filters, fsmonitor, text conversion, hooks).
"""

from __future__ import annotations

import hashlib
import itertools
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from sandwright import process
from sandwright.errors import CommandFailed, ToolMissing, UsageError

OFFLINE = {"GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none"}
"""For each Git in a stranger's repository: an object that a partial clone lacks is not fetched, as the
configuration names the program that does it (`core.sshCommand`)."""

LARGEST = 1 << 20
"""Bytes of a file of another commit: what a policy or a filter may have. Packed, any size takes little."""

_LIMIT = 60.0
_MOST_REFS = 10_000
_READ = (
    "HEAD", "commondir", "config", "config.worktree", "index", "info/attributes", "info/exclude",
    "info/grafts", "objects/info/alternates", "packed-refs", "shallow",
)  # fmt: skip
"""What Git reads of a repository whatever it is asked for (gitrepository-layout(5))."""


def blocking_file(directory: Path) -> str:
    """A file of the repository that a directory is in at which Git would wait, such as a pipe; "" without."""
    for each in (directory.absolute(), *directory.absolute().parents):
        git = each / ".git"
        if git.is_dir():
            read = itertools.chain((git / name for name in _READ), _refs(git))
            return next((str(path) for path in read if _blocks(path)), "")
        if os.path.lexists(git):
            return str(git) if _blocks(git) else ""
    return ""


def _refs(git: Path) -> Iterator[Path]:
    """The files of refs, to a number: which of them Git reads depends on what it is asked for."""
    walked = (Path(folder, name) for folder, _, names in os.walk(git / "refs") for name in names)
    return itertools.islice(walked, _MOST_REFS)


def _blocks(path: Path) -> bool:
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def head(directory: Path) -> str:
    """The commit that is checked out in a work tree; empty where there is none, or no Git."""
    try:
        return _git(directory, "rev-parse", "--verify", "--quiet", "HEAD^{commit}").text.strip()
    except (CommandFailed, ToolMissing):
        return ""


def top(directory: Path) -> Path:
    """The top of the work tree that a directory is in. Raise UsageError where there is none."""
    try:
        found = _git(directory, "rev-parse", "--show-toplevel").stdout.removesuffix(b"\n")
    except CommandFailed as error:
        raise UsageError(f"{directory} is in no work tree of Git") from error
    return Path(os.fsdecode(found))


def is_committed(file: Path, content: bytes) -> bool:
    """Whether the commit that is checked out has a file with this content. Line ends are not converted."""
    try:
        found = _git(file.parent, "rev-parse", "--verify", "--quiet", f"HEAD:./{file.name}").text.strip()
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
        if int(_git(directory, "cat-file", "-s", f"{revision}:{path}").text) > LARGEST:
            raise UsageError(f"{revision}:{path} is larger than {LARGEST} bytes")
        return _git(directory, "cat-file", "blob", f"{revision}:{path}").stdout
    except CommandFailed as error:
        why = error.stderr.strip().splitlines()
        raise UsageError(f"{revision}:{path} can't be read: {why[-1] if why else 'no such file'}") from error


def _git(directory: Path, *words: str) -> process.Result:
    environment = {**os.environ, **OFFLINE, "LC_ALL": "C", "PATH": process.search_path()}
    argv = ("git", "--no-replace-objects", "-c", "core.fsmonitor=false", "-C", str(directory), *words)
    if blocking := blocking_file(directory):
        raise CommandFailed(argv, 128, f"{blocking} is no regular file, and Git would wait at it")
    return process.run(*argv, env=environment, timeout=_LIMIT)
