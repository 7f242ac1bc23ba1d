"""The directories of runs, as launchers make them where no sandbox writes.

Each holds `owner`: a line with the method, and one for each process that looks after the run, with its start
(proc(5)). While one of them is there, the run is theirs.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sandwright import places
from sandwright.signalling import started

OWNER = "owner"
_LINES = 3
"""How many it has when it is whole."""
_STARTING = 10.0
"""Seconds in which a launcher has written it, or was killed."""


def abandoned(method: str) -> Iterator[Path]:
    """The directories of a method's runs that nobody looks after any more."""
    for directory in _directories():
        lines = _owner(directory)
        if len(lines) == _LINES and lines[0] == method and not any(map(_there, lines[1:])):
            yield directory


def nameless() -> Iterator[Path]:
    """Directories that say of no method: who made or removed them was killed at that.

    `owner` is the first and the last thing in one, so there is nothing else in it.
    """
    for directory in _directories():
        with suppress(OSError, UnicodeDecodeError):
            names = [entry.name for entry in directory.iterdir()]
            owner = (directory / OWNER).read_text(encoding="ascii") if names else ""
            whole = len(owner.splitlines()) >= _LINES
            if names in ([], [OWNER]) and not whole and time.time() - directory.stat().st_mtime > _STARTING:
                yield directory


def remove_nameless(directory: Path) -> bool:
    """Remove one, if it still is; give whether it has gone."""
    if directory in nameless():
        with suppress(OSError):
            (directory / OWNER).unlink(missing_ok=True)
            directory.rmdir()
    return not directory.exists()


def _directories() -> list[Path]:
    """Those of this user. None where the place is not this user's alone."""
    base = Path(places.runs())
    if not base.is_dir():
        return []
    places.private(places.runtime())
    places.private(str(base))
    return sorted(path for path in base.iterdir() if path.is_dir() and not path.is_symlink())


def _owner(directory: Path) -> list[str]:
    """The lines; fewer while the run is starting."""
    with suppress(OSError, UnicodeDecodeError):
        return (directory / OWNER).read_text(encoding="ascii").splitlines()
    return []


def _there(line: str) -> bool:
    """Whether a process is still the one that was there."""
    pid, _, start = line.partition(" ")
    if not pid.isdecimal():
        return False
    found = started(int(pid))
    return found != 0 and (start == "-" or str(found) == start)


@contextmanager
def recorded(method: str, name: str) -> Iterator[None]:
    """Have the directory of a run that this process looks after, for the length of a `with`."""
    places.private(places.runtime())
    directory = Path(places.private(places.runs()), name)
    directory.mkdir(mode=0o700)
    process = f"{os.getpid()} {started(os.getpid())}"
    (directory / OWNER).write_text("\n".join((method, process, process, "")), encoding="ascii")
    try:
        yield
    finally:
        shutil.rmtree(directory, ignore_errors=True)
