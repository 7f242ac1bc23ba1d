"""Sessions that ended without clearing up: their records, and the processes and placeholders that they left.

A session that has ended never runs again, and one that runs may have begun a moment ago: so whether it has
ended is asked where something of it is removed, while the record is locked, and never before.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from sandwright.errors import HostError
from sandwright.locking import lock_within
from sandwright.questions import is_cover
from sandwright.session import child_guard, state
from sandwright.signalling import liveness, own

_MARK = b"SANDWRIGHT_SESSION="
_LOCKING = 10.0
_LOOKING = 10.0
"""Seconds."""


class NotStaleError(HostError):
    """The session runs, or can't be seen from here: nothing of it is removed."""


@contextlib.contextmanager
def locked(session: str, *, within: float = _LOCKING) -> Iterator[dict[str, object]]:
    """Hold the lock of a session that has ended; give its record, empty where it has none.

    Raise NotStaleError for any other session, HostError where another process keeps the lock for longer
    than `within` seconds.
    """
    try:
        file = os.open(state.file_of(session), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        yield {}
        return
    try:
        if not lock_within(file, within):
            raise HostError(f"the record of session {session} is locked by another process")
        data = state.read(session)
        if data and (found := liveness(data)) != "ended":
            where = "runs" if found == "running" else "is of another pid namespace or machine"
            raise NotStaleError(f"session {session} {where}")
        yield data
    finally:
        os.close(file)


def records() -> list[dict[str, object]]:
    """The records of sessions that have ended."""
    return [data for data in state.read_all() if liveness(data) == "ended"]


def forget(session: str, *, within: float = _LOOKING) -> bool:
    """Remove the record of a session of which nothing is left; give whether it is gone.

    What is left is found by the record alone. It stays too where a file system doesn't answer `within` some
    seconds. Raise HostError as `locked` does.
    """
    with locked(session, within=within) as data:
        if any(each == session for each in processes().values()):
            return False
        try:
            if placeholders(data, within=within):
                return False
        except child_guard.UnresponsiveFilesystem:
            return False
        state.forget(session)
    return True


def processes() -> dict[int, str]:
    """Processes of this user whose environment names a session that has ended, with that session."""
    found: dict[int, str] = {}
    ended: dict[str, bool] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        session = marked_with(int(entry.name))
        if session and session not in ended:
            ended[session] = state.liveness_of(session) == "ended"
        if session and ended[session]:
            found[int(entry.name)] = session
    return found


def marked_with(pid: int) -> str:
    """The recorded session that a process of ours, in no sandbox, is marked with; empty without one."""
    with contextlib.suppress(OSError):
        if own(pid):
            for variable in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                session = variable.removeprefix(_MARK).decode(errors="replace")
                if variable.startswith(_MARK) and len(session) == 16 and state.read(session):
                    return session
    return ""


def placeholders(data: dict[str, object], *, within: float = _LOOKING) -> list[str]:
    """The files that a session put into its project and that are still there.

    Raise child_guard.UnresponsiveFilesystem where their file system doesn't answer `within` some seconds.
    """
    covers = data.get("covers")
    return present(list(map(str, covers)) if isinstance(covers, list) else [], within=within)


def present(covers: list[str], *, within: float = _LOOKING) -> list[str]:
    """Those of some placeholders that are there. Raise child_guard.UnresponsiveFilesystem."""
    return child_guard.run_in_child(lambda _: list(filter(_is_placeholder, covers)), within) if covers else []


def _is_placeholder(path: str) -> bool:
    with contextlib.suppress(OSError):
        return is_cover(path, os.lstat(path))
    return False
