"""The directories of workspaces: one each, below a home that only the variable HOME can move.

A workspace is locked by flock(2) on its directory. Sandboxes see only the tree in it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sandwright import digests, user_dirs
from sandwright.documents import strictjson
from sandwright.errors import HostError, UsageError
from sandwright.rootfs.unpacking.removal import OPEN_DIRECTORY
from sandwright.rootfs.unpacking.removal import remove as remove_entry
from sandwright.visible import one_line
from sandwright.workspace.below import DEEPEST, closing, try_open

DEFAULT = "default"
"""The name of the workspace of `run --review`."""

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}", re.ASCII)
_ABOUT = "workspace.json"
_VERSION = 1


@dataclass(frozen=True)
class Workspace:
    """A copy of a project: the canonical path of the project, the workspace's name, and its directory."""

    project: str
    name: str
    directory: str

    @property
    def tree(self) -> str:
        """The copy, which runs write."""
        return f"{self.directory}/tree"

    @property
    def base(self) -> str:
        """The file that records the copied paths (`workspace.base`)."""
        return f"{self.directory}/base"

    @property
    def undo(self) -> str:
        """The directory of the journals of applies, one for each number."""
        return f"{self.directory}/undo"

    @property
    def parts(self) -> str:
        """The directory of files that are being copied. It is on the file system of the tree."""
        return f"{self.directory}/parts"


@dataclass(frozen=True)
class Listed:
    """An existing workspace: the bytes of its files, and the seconds since its last use."""

    project: str
    name: str
    bytes: int
    age: float


def workspace_of(project: str, name: str) -> Workspace:
    """The workspace of a project, which need not exist. Raise UsageError for an invalid name."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{one_line(name)!r} is no name of a workspace: that has up to 64 lower-case letters, digits, "
            "'.', '_' and '-', and begins with a letter or digit"
        )
    folder = digests.sha256(os.fsencode(project))[:16]
    return Workspace(project, name, f"{user_dirs.workspaces()}/{folder}/{name}")


def exists(workspace: Workspace) -> bool:
    """Whether it exists."""
    return os.path.lexists(f"{workspace.directory}/{_ABOUT}")


def make(workspace: Workspace) -> None:
    """Make its directory, if it does not exist. Raise HostError, also if it belongs to another project."""
    user_dirs.private(str(Path(workspace.directory).parent))
    user_dirs.private(workspace.directory)
    about = Path(workspace.directory, _ABOUT)
    if not about.exists():
        record = {"version": _VERSION, "project": workspace.project, "name": workspace.name}
        user_dirs.write(str(about), strictjson.dumps(record))
    elif _project_of(workspace.directory) != workspace.project:
        raise HostError(f"{workspace.directory} is not the workspace of {workspace.project}")


def open_tree(workspace: Workspace) -> int:
    """The copy, open, with any mode that a program gave it. The caller closes it. Raise OSError."""
    mode = stat.S_IMODE(Path(workspace.tree).lstat().st_mode)
    if mode & stat.S_IRWXU != stat.S_IRWXU:
        Path(workspace.tree).chmod(mode | stat.S_IRWXU)
    return os.open(workspace.tree, OPEN_DIRECTORY)


def list_workspaces() -> list[Listed]:
    """All workspaces of this user, by project and name."""
    found = []
    root = Path(user_dirs.workspaces())
    for directory in sorted(root.glob("*/*")) if root.is_dir() else ():
        project = _project_of(str(directory))
        if project is not None:
            age = max(0.0, time.time() - directory.lstat().st_mtime)
            found.append(Listed(project, directory.name, _size(directory), age))
    return sorted(found, key=lambda each: (each.project, each.name))


def _project_of(directory: str) -> str | None:
    """The project of a workspace's directory; None if there is no record of it."""
    try:
        record = strictjson.loads_record(Path(directory, _ABOUT).read_bytes())
    except (OSError, ValueError):
        return None
    project = record.get("project") if isinstance(record, dict) else None
    return project if isinstance(project, str) else None


def _size(directory: Path) -> int:
    """The bytes on disk of all files below a directory; unreadable ones count as 0."""
    with closing(os.open(directory, OPEN_DIRECTORY)) as root:
        return _size_below(root, 0)


def _size_below(directory: int, depth: int) -> int:
    total = 0
    with os.scandir(directory) as entries:
        for entry in entries:
            status = entry.stat(follow_symlinks=False)
            total += status.st_blocks * 512
            if not stat.S_ISDIR(status.st_mode) or depth >= DEEPEST:
                continue
            if (inner := try_open(directory, entry.name, OPEN_DIRECTORY)) >= 0:
                with closing(inner):
                    total += _size_below(inner, depth + 1)
    return total


def remove(workspace: Workspace) -> None:
    """Remove it with its content, if it exists. Raise HostError if some of it stays.

    The caller holds its lock.
    """
    parent = Path(workspace.directory).parent
    try:
        with closing(os.open(parent, OPEN_DIRECTORY)) as above, contextlib.suppress(FileNotFoundError):
            Path(workspace.directory, _ABOUT).unlink(missing_ok=True)
            remove_entry(workspace.name, above)
        with contextlib.suppress(OSError):  # the project has another workspace
            parent.rmdir()
    except FileNotFoundError:
        pass
    except OSError as error:
        raise HostError(f"cannot remove {workspace.directory}: {error.strerror}") from error


@contextlib.contextmanager
def locked(workspace: Workspace, *, exclusive: bool) -> Iterator[None]:
    """Hold the lock of a workspace, which is created if needed.

    Raise UsageError if another process holds it.
    """
    how = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
    while True:
        make(workspace)
        lock = os.open(workspace.directory, OPEN_DIRECTORY)
        try:
            fcntl.flock(lock, how | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise UsageError(
                f"the workspace {workspace.name} of {workspace.project} is in use: a run goes on in it"
            ) from None
        if _is_still_there(workspace, lock):
            break
        os.close(lock)  # its last holder removed it meanwhile
    try:
        yield
    finally:
        os.close(lock)


def _is_still_there(workspace: Workspace, lock: int) -> bool:
    try:
        return os.path.samestat(os.lstat(workspace.directory), os.fstat(lock))
    except FileNotFoundError:
        return False
