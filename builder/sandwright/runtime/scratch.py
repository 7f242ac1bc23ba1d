"""The temporary directory of a run, and how the directory of a killed run is recognised."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from sandwright import user_dirs
from sandwright.errors import HostError
from sandwright.mountinfo import unmount_below

PREFIX = "sandwright-smoke-"
"""What every name we give to a container, an image or a directory begins with."""

RECORDS = "scratch"
"""The directory of the records, where no sandbox writes (`sandwright.user_dirs`)."""


@contextlib.contextmanager
def scratch_directory(parent: Path | None = None) -> Iterator[Path]:
    """A temporary directory for runtimes. It is removed at the end, with the mounts in it.

    It is made in `parent`, absent in the directory of temporary files. A record says which it is. Its owner
    holds a lock on that, which the kernel releases however the owner ends. Raise HostError when it can't be
    removed.
    """
    directory = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
    record = _scratch_records() / directory.name
    try:
        # Others must be able to pass: the sandbox's user looks its root up through it.
        directory.chmod(0o711)
        with record.open("xb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            lock.write(_directory_identity(directory))
            lock.flush()
            yield directory
    finally:
        unmount_below(directory)
        shutil.rmtree(directory, ignore_errors=True)
        if not directory.exists():
            forget(directory)
    if directory.exists():
        raise HostError(f"{directory} can't be removed")


def state_directory(scratch: Path) -> Path:
    """Where a runtime has its state for a directory in a scratch directory: what it says, runtimes do.

    A sandbox may share the directory of temporary files, and so it is not there.
    """
    return _scratch_records() / f"{scratch.parent.name}.{scratch.name}"


def forget(directory: Path) -> None:
    """Remove the record of a scratch directory, and the states of runtimes in it."""
    for state in _scratch_records().glob(f"{directory.name}.*"):
        shutil.rmtree(state, ignore_errors=True)
    (_scratch_records() / directory.name).unlink(missing_ok=True)


def _scratch_records() -> Path:
    user_dirs.private(user_dirs.runtime())
    return Path(user_dirs.private(f"{user_dirs.runtime()}/{RECORDS}"))


def _directory_identity(directory: Path) -> bytes:
    """Its path, and what another directory of this name has not."""
    status = directory.lstat()
    return os.fsencode(f"{status.st_dev} {status.st_ino} {directory}")


def stale_directories() -> list[Path]:
    """Our directories whose owner was killed. Processes that it started may still use them."""
    records = [record for record in sorted(_scratch_records().iterdir()) if record.is_file()]
    return [directory for record in records if (directory := _stale(record)) is not None]


def _stale(record: Path) -> Path | None:
    """The directory of a record without a lock, if it is still the same directory."""
    try:
        with record.open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            content = lock.read()
        directory = Path(os.fsdecode(content.split(b" ", 2)[2]))
        status = directory.lstat()
    except FileNotFoundError:
        record.unlink(missing_ok=True)  # the directory is gone, so the record goes too
        return None
    except (OSError, IndexError):
        return None
    ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
    return directory if ours and _directory_identity(directory) == content else None
