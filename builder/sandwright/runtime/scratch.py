"""The temporary directory of a run, and how the directory of a killed run is recognised."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Collection, Iterator
from pathlib import Path

from sandwright import user_dirs
from sandwright.errors import HostError
from sandwright.mountinfo import mounted_below, unmount_below

PREFIX = "sandwright-smoke-"
"""The prefix of every name that we give to a container, an image or a directory."""

_OLD = 7 * 24 * 3600.0

RECORDS = "scratch"
"""The directory of the records, where no sandbox writes (`sandwright.user_dirs`)."""


@contextlib.contextmanager
def scratch_directory(parent: Path | None = None) -> Iterator[Path]:
    """A temporary directory that sandboxes see. It is removed at the end, with the mounts in it.

    It is made in `parent`, absent in `user_dirs.visible_scratch`. Files that the host executes or obeys are
    in its `hidden_directory`. A record names the directory. Its owner holds a lock on the record, which the
    kernel releases however the owner ends. Raise HostError when it can't be made or removed.
    """
    directory = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent or user_dirs.visible_scratch()))
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
        remaining = [each for each in directories_of(directory) if not _remove_with_mounts(each)]
        if not remaining:
            forget(directory)
    if remaining:
        raise HostError(f"cannot remove {remaining[0]}")


def hidden_directory(scratch: Path, *names: str) -> Path:
    """A directory that no sandbox sees and that goes with a scratch directory; made if it is not there.

    It is for launchers, bundles, stores of engines and settings: files that programs of the host execute or
    obey.
    """
    made = Path(user_dirs.private(str(_hidden(scratch))))
    for name in names:
        made = Path(user_dirs.private(str(made / name)))
    return made


def _hidden(scratch: Path) -> Path:
    return Path(user_dirs.scratch(), scratch.name)


def directories_of(scratch: Path) -> list[Path]:
    """A scratch directory, its hidden directory, and the states of runtimes in it."""
    return [scratch, _hidden(scratch), *_scratch_records().glob(f"{_state_prefix(scratch)}*")]


def _remove_with_mounts(directory: Path) -> bool:
    unmount_below(directory)
    if not mounted_below(directory):
        shutil.rmtree(directory, ignore_errors=True)
    return not directory.exists()


def state_directory(scratch: Path) -> Path:
    """The directory of a runtime's state and sockets for a directory in a scratch directory.

    Hidden from sandboxes as well, with a shorter path: that of a socket may have 107 bytes.
    """
    return _scratch_records() / f"{_state_prefix(scratch.parent)}{scratch.name}"


def link_bus(directory: Path) -> None:
    """Put a link to the user's bus, if there is one, into a directory that replaces `$XDG_RUNTIME_DIR`.

    Without root, crun asks systemd for a cgroup over that bus. Podman passes it that variable, and not
    `$DBUS_SESSION_BUS_ADDRESS`; where it finds no bus, it asks that of the system, which refuses.
    """
    bus = Path(os.environ.get("XDG_RUNTIME_DIR", ""), "bus")
    if bus.is_absolute() and bus.is_socket():
        (directory / "bus").symlink_to(bus)


def _state_prefix(scratch: Path) -> str:
    return f"{scratch.name.removeprefix(PREFIX)}."


def forget(directory: Path) -> None:
    """Remove the record of a scratch directory, its hidden directory, and the states of runtimes in it."""
    for each in directories_of(directory)[1:]:
        _remove_with_mounts(each)
    (_scratch_records() / directory.name).unlink(missing_ok=True)


def _scratch_records() -> Path:
    user_dirs.private(user_dirs.runtime())
    return Path(user_dirs.private(f"{user_dirs.runtime()}/{RECORDS}"))


def _directory_identity(directory: Path) -> bytes:
    """Its path, and the numbers that no other directory of this name has."""
    status = directory.lstat()
    return os.fsencode(f"{status.st_dev} {status.st_ino} {directory}")


def stale_directories() -> list[Path]:
    """Our directories whose owner was killed. Processes that it started may still use them."""
    records = [record for record in sorted(_scratch_records().iterdir()) if record.is_file()]
    stale = [directory for record in records if (directory := _stale(record)) is not None]
    recorded = {record.name for record in records}
    return [
        *stale,
        *(each for each in sorted(Path(user_dirs.scratch()).iterdir()) if _is_old(each, recorded)),
    ]


def _is_old(hidden: Path, recorded: Collection[str]) -> bool:
    """Whether a hidden directory has no record, as those of a machine that lost power, and is a week old."""
    with contextlib.suppress(FileNotFoundError):
        return hidden.name not in recorded and time.time() - hidden.lstat().st_mtime > _OLD
    return False


def _stale(record: Path) -> Path | None:
    """The directory of a record without a lock, if it is still the same directory."""
    try:
        with record.open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            content = lock.read()
        directory = Path(os.fsdecode(content.split(b" ", 2)[2]))
        status = directory.lstat()
    except FileNotFoundError:
        forget(Path(record.name))  # the directory is gone, so its record goes too
        return None
    except (OSError, IndexError):
        return None
    ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
    return directory if ours and _directory_identity(directory) == content else None
