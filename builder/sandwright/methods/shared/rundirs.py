"""The directories of runs, as launchers make them where no sandbox writes.

Each holds `owner`: a line with the method, one for each of the two processes that look after the run, with
its start (proc(5)), and one with the boot, pid namespace and machine that they are in. While one of them is
there, or can't be seen from here, the run is theirs.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from sandwright import user_dirs
from sandwright.signalling import ProcessIdentity, identity, liveness

OWNER = "owner"
_LINES = 3
"""The least number of lines in a whole file: launchers in shell don't write the last one."""
_STARTING = 10.0
"""Seconds in which a launcher has written it, or was killed."""


def abandoned_directories(method: str) -> Iterator[Path]:
    """The directories of a method's runs without a launcher."""
    for directory in _run_directories():
        lines = _owner_lines(directory)
        if len(lines) >= _LINES and lines[0] == method and _owners_ended(lines[1:]):
            yield directory


def unowned_directories() -> Iterator[Path]:
    """Run directories without a method, because the process that created or removed them was killed.

    `owner` is the first and the last thing in one, so there is nothing else in it.
    """
    for directory in _run_directories():
        with suppress(OSError, UnicodeDecodeError):
            names = [entry.name for entry in directory.iterdir()]
            owner = (directory / OWNER).read_text(encoding="ascii") if names else ""
            whole = len(owner.splitlines()) >= _LINES
            if names in ([], [OWNER]) and not whole and time.time() - directory.stat().st_mtime > _STARTING:
                yield directory


def remove_unowned(directory: Path) -> bool:
    """Remove such a directory, if it is still without a method; return whether it is gone."""
    if directory in unowned_directories():
        with suppress(OSError):
            (directory / OWNER).unlink(missing_ok=True)
            directory.rmdir()
    return not directory.exists()


def _run_directories() -> list[Path]:
    """The run directories of this user. None where the parent is not this user's alone."""
    base = Path(user_dirs.runs())
    if not base.is_dir():
        return []
    user_dirs.private(user_dirs.runtime())
    user_dirs.private(str(base))
    return sorted(path for path in base.iterdir() if path.is_dir() and not path.is_symlink())


def _owner_lines(directory: Path) -> list[str]:
    """The lines; fewer while the run is starting."""
    with suppress(OSError):
        return (directory / OWNER).read_text(encoding="utf-8", errors="replace").splitlines()
    return []


def _owners_ended(lines: list[str]) -> bool:
    """Whether both processes have surely ended."""
    processes, where = lines[:2], " ".join(lines[2:3]).split(" ", 2)
    here = identity()
    if len(where) == 3:
        here = replace(here, boot=where[0], pid_namespace=where[1], machine=where[2])
    return all(liveness(_parse_identity(line, here)) == "ended" for line in processes)


def _parse_identity(line: str, here: ProcessIdentity) -> ProcessIdentity:
    """The process of a line; number 0, which no process has, for a damaged one."""
    pid, start = (int(word) if word.isdecimal() else 0 for word in line.partition(" ")[::2])
    return replace(here, pid=pid, start=start)


@contextmanager
def record_directory(method: str, name: str) -> Iterator[None]:
    """Have the directory of a run that this process looks after, for the length of a `with`."""
    user_dirs.private(user_dirs.runtime())
    directory = Path(user_dirs.private(user_dirs.runs()), name)
    directory.mkdir(mode=0o700)
    (directory / OWNER).write_text(_owner_text(method), encoding="utf-8")
    try:
        yield
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _owner_text(method: str) -> str:
    launcher = identity()
    process = f"{launcher.pid} {launcher.start}"
    return "\n".join(
        (method, process, process, f"{launcher.boot} {launcher.pid_namespace} {launcher.machine}", "")
    )
