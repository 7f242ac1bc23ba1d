"""The directories of runs, as launchers make them where no sandbox writes.

Each holds `owner`: a line with the method, and one for each process that looks after the run, with its start
(proc(5)). While one of them is there, the run is theirs.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sandwright import places
from sandwright.signalling import started

OWNER = "owner"
_LINES = 3
"""How many it has when it is whole."""


def abandoned(method: str) -> Iterator[Path]:
    """The directories of a method's runs that nobody looks after any more."""
    for directory in _directories():
        lines = _owner(directory)
        if len(lines) == _LINES and lines[0] == method and not any(map(_there, lines[1:])):
            yield directory


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
