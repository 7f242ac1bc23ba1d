"""Stale sessions, which were killed: removes their records, orphaned processes and placeholders.

A session that runs may have begun a moment ago. So whether a session has ended is checked right before
something of it is removed, while its record is locked.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from sandwright.environment import SESSION
from sandwright.errors import HostError
from sandwright.locking import lock_within
from sandwright.questions import is_placeholder
from sandwright.session import state
from sandwright.session.child_guard import UnresponsiveFilesystem, run_in_child
from sandwright.session.post_run_start import Clock
from sandwright.session.scan import scan_changes
from sandwright.session.session_record import SessionRecord
from sandwright.signalling import is_same_user_process, liveness

_MARK = f"{SESSION.name}=".encode()
_LOCKING = 10.0
_LOOKING = 10.0
"""Seconds."""


class NotStaleError(HostError):
    """The session is running, or its state is unknown here, so nothing is removed."""


@contextlib.contextmanager
def locked(session: str, *, within: float = _LOCKING) -> Iterator[SessionRecord | None]:
    """Hold the lock of a session that has ended; yield its record, None if it has none.

    Raise NotStaleError for any other session, HostError where another process keeps the lock for longer
    than `within` seconds.
    """
    try:
        file = os.open(state.file_of(session), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        yield None
        return
    try:
        if not lock_within(file, within):
            raise HostError(f"the record of session {session} is locked by another process")
        record = state.read(session)
        if record is not None and (found := liveness(record.process)) != "ended":
            where = "runs" if found == "running" else "belongs to another PID namespace or machine"
            raise NotStaleError(f"session {session} {where}")
        yield record
    finally:
        os.close(file)


def records() -> list[SessionRecord]:
    """The records of sessions that have ended."""
    return [record for record in state.read_all() if liveness(record.process) == "ended"]


def forget(session: str, *, within: float = _LOOKING, notify: Callable[[str], None] = lambda _: None) -> bool:
    """Remove the record of a session of which nothing is left; give whether it is gone.

    Leftovers are found by the record alone. The record stays where a file system doesn't answer `within` some
    seconds. `notify` gets the lines of the scan that the killed run did not do, which removes links in
    repositories. Raise HostError as `locked` does.
    """
    with locked(session, within=within) as record:
        if any(each == session for each in processes().values()):
            return False
        if record is not None and has_placeholders(record, within=within):
            return False
        if record is not None:
            since = Clock(*record.clock).since()
            for line in scan_changes(record.after.scope, record.after.policy, since):
                notify(f"a run that was killed: {line}")
        state.forget(session)
    return True


def processes() -> dict[int, str]:
    """The processes of this user whose environment names a session that has ended, with that session."""
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
    """The recorded session that marks a process of ours outside of sandboxes; empty if there is none."""
    with contextlib.suppress(OSError):
        if is_same_user_process(pid):
            for variable in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                session = variable.removeprefix(_MARK).decode(errors="replace")
                if variable.startswith(_MARK) and len(session) == 16 and state.read(session) is not None:
                    return session
    return ""


def present(placeholders: Sequence[str], *, within: float = _LOOKING) -> list[str]:
    """The placeholders of a session that are still in its project.

    Raise UnresponsiveFilesystem where their file system doesn't answer `within` some seconds.
    """
    if not placeholders:
        return []
    return run_in_child(lambda _: list(filter(_is_placeholder, placeholders)), within)


def has_placeholders(record: SessionRecord, *, within: float = _LOOKING) -> bool:
    """Whether placeholders of a session are still there, or their file system doesn't answer."""
    try:
        return bool(present(record.placeholders, within=within))
    except UnresponsiveFilesystem:
        return True


def _is_placeholder(path: str) -> bool:
    with contextlib.suppress(OSError):
        return is_placeholder(path, os.lstat(path))
    return False
