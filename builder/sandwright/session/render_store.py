"""Stores rendered artifacts in the cache: a directory for each rendering, named by its content.

Number and size are bounded: `sweep_renderings` removes the oldest. The entries that name these directories
are those of `session.render_cache`.

Directories share one copy of each native program by hard links, so a further policy costs some kilobytes.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from sandwright import user_dirs
from sandwright.errors import HostError
from sandwright.methods.shared.artifacts import write_artifacts
from sandwright.render.artifact import Artifact
from sandwright.session import state

MOST = 200
"""Entries, and directories of artifacts."""
MOST_BYTES = 64 << 20
"""Bytes of the entries, and of the directories without shared files."""

_STARTING = 600
"""Seconds in which a session that has found an entry has started: until then it is not removed."""
_HALF_MADE = 3600

_PROGRAM = b"\x7fELF"


def store(artifacts: Iterable[Artifact]) -> Path:
    """Put artifacts into a directory named by their content, and give it. An existing one is checked."""
    listed = sorted(artifacts, key=lambda each: each.name)
    names = "".join(f"{each.name} {each.mode:o} {each.digest}\n" for each in listed)
    folder = user_dirs.private(f"{user_dirs.cache()}/rendered")
    directory = Path(folder, hashlib.sha256(names.encode()).hexdigest())
    if directory.exists():
        if _is_complete(directory, listed):
            os.utime(directory)
            return directory
        with contextlib.suppress(FileNotFoundError):  # another process moved it away first
            directory.rename(directory.with_name(f".old-{os.urandom(16).hex()}"))
    part = directory.with_name(f".part-{os.urandom(16).hex()}")
    try:
        write_artifacts(part, listed)
        for each in listed:
            _share(part / each.name, each)
        part.rename(directory)
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY):  # another process was faster
            return directory
        raise HostError(f"cannot write {directory}: {error.strerror}") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return directory


def sweep_renderings(used: str) -> None:
    """Remove the oldest entries, and incomplete ones of killed processes.

    Keep `used`, and those that a session's record names: only that launcher knows the session's placeholders.
    """
    cache = Path(user_dirs.cache())
    rendered, programs = cache / "rendered", cache / "programs"
    half_made = (
        *cache.glob("*.part"),
        *rendered.glob(".part-*"),
        *rendered.glob(".old-*"),
        *programs.glob(".*"),
    )
    for each in half_made:
        _remove_after(each, _HALF_MADE)
    _bound(list(cache.glob("[0-9a-f]*.entry")), _remove_later)
    directories = list(rendered.glob("[0-9a-f]*"))
    if _beyond_limits(directories):  # few sweeps have to read every session's record
        in_use = {used, *(record.directory for record in state.read_all())}
        _bound([path for path in directories if str(path) not in in_use], _remove_later)
    _bound(list(programs.glob("[0-9a-f]*")), _remove_unshared)


def _share(path: Path, artifact: Artifact) -> None:
    """Have a program share the copy of other directories, where the file system has hard links."""
    if not artifact.content.startswith(_PROGRAM):
        return
    folder = Path(user_dirs.private(f"{user_dirs.cache()}/programs"))
    shared = folder / f"{hashlib.sha256(artifact.content).hexdigest()}-{artifact.mode:o}"
    try:
        if shared.is_symlink() or shared.read_bytes() != artifact.content:
            shared.unlink()
    except FileNotFoundError:
        pass
    other = folder / f".{os.urandom(16).hex()}"
    try:
        if not shared.exists():
            os.link(path, shared)
            return
        os.link(shared, other)
        other.rename(path)
    except OSError:  # no hard links there, or as many as a file can have: it keeps its own copy
        other.unlink(missing_ok=True)


def _is_complete(directory: Path, artifacts: Iterable[Artifact]) -> bool:
    try:
        return all((directory / each.name).read_bytes() == each.content for each in artifacts)
    except OSError:
        return False


def _bound(paths: list[Path], remove: Callable[[Path], None]) -> None:
    """Remove the oldest of some beyond MOST and MOST_BYTES."""
    for path in _beyond_limits(paths):
        remove(path)


def _beyond_limits(paths: list[Path]) -> list[Path]:
    """The oldest of some beyond MOST and MOST_BYTES."""
    size, found = 0, []
    for count, path in enumerate(sorted(paths, key=_age)):
        size += _unshared_size(path)
        if count >= MOST or size > MOST_BYTES:
            found.append(path)
    return found


def _unshared_size(path: Path) -> int:
    """Bytes of a file, or of those in a directory that no other shares."""
    size = 0
    try:
        for each in path.iterdir() if path.is_dir() else (path,):
            status = each.lstat()
            size += status.st_size if status.st_nlink == 1 else 0
    except OSError:  # another process removes it
        pass
    return size


def _age(path: Path) -> float:
    try:
        return time.time() - path.lstat().st_mtime
    except OSError:
        return 0.0


def _remove_later(path: Path) -> None:
    _remove_after(path, _STARTING)


def _remove_unshared(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):  # another process removed it first
        if path.lstat().st_nlink == 1:
            _remove_after(path, _STARTING)


def _remove_after(path: Path, seconds: float) -> None:
    """Remove a directory if it has not been used for long: a session may be starting with it."""
    if _age(path) > seconds:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
