"""The records of running sessions: a file for each, in a directory of the user's own.

A session is identified by its process and the start time of that process, since the PID
alone may belong to another process by now.
"""

from __future__ import annotations

import os
import time
from dataclasses import fields as fields_of
from dataclasses import replace
from pathlib import Path

from sandwright import user_dirs
from sandwright.documents import strictjson
from sandwright.documents.record import decode_record, encode_record
from sandwright.session.session_record import SessionRecord
from sandwright.signalling import Liveness, ProcessIdentity, identity, liveness, started

_LONG = 60
"""Seconds."""


def directory() -> str:
    """The directory of the files. Raise HostError when it is not ours, or another user can replace it."""
    return user_dirs.private(str(Path(user_dirs.private(user_dirs.runtime()), "sessions")))


def new_id() -> str:
    """A name for a session: 16 hexadecimal digits."""
    return os.urandom(8).hex()


def write(record: SessionRecord) -> str:
    """Record a session; give the file. Raise HostError."""
    path = file_of(record.session)
    user_dirs.write(path, encode_record(record))
    return path


def file_of(session: str) -> str:
    """The file of a session's record."""
    return str(Path(directory(), f"{session}.json"))


def denials_of(session: str) -> str:
    """The file to which its launcher writes denials."""
    return str(Path(directory(), f"{session}.denials"))


def requests_of(session: str) -> str:
    """The socket at which its launcher accepts further commands (`sandwright exec`)."""
    return str(Path(directory(), f"{session}.exec"))


def terminal_of(session: str) -> str:
    """The socket of its terminal, of a detached run that has one (`sandwright attach`)."""
    return str(Path(directory(), f"{session}.attach"))


def forget(session: str) -> None:
    """Remove the record of a session, and its sockets."""
    for path in (requests_of(session), terminal_of(session)):
        Path(path).unlink(missing_ok=True)
    Path(file_of(session)).unlink(missing_ok=True)


def read_all() -> list[SessionRecord]:
    """All records, oldest first, including those of sessions that have ended."""
    found = [read(path.name.removesuffix(".json")) for path in Path(directory()).glob("*.json")]
    return sorted((each for each in found if each is not None), key=lambda each: each.began)


def read(session: str) -> SessionRecord | None:
    """The record of a session; None if there is none, or another version wrote it."""
    try:
        record = decode_record(SessionRecord, Path(file_of(session)).read_bytes())
    except (OSError, ValueError):
        return None
    return record if record.session == session else None


def half_written() -> list[str]:
    """Files that a process had begun to write as records (`user_dirs.write`) when it was killed.

    So are refusals (`denials`), recordings (`recording`) and sockets (`exec`, `attach`) that were not used
    for a minute, of sessions without a record; and damaged records, or those of other versions, whose process
    has ended.
    """
    return [str(path) for path in Path(directory()).iterdir() if _is_left(path)]


def _is_left(path: Path) -> bool:
    """A file younger than a minute may belong to a process in another PID namespace."""
    is_old = time.time() - _written(path) > _LONG
    match path.name.split("."):
        case [_, "json", writer, "part"]:
            pid, _, namespace = writer.partition("-")
            is_visible = namespace == user_dirs.writer().partition("-")[2] != "0"
            return (is_old or is_visible) and pid.isdigit() and not started(int(pid))
        case _ if not is_old:
            return False
        case [session, "denials" | "record" | "exec" | "attach"]:
            return not Path(file_of(session)).exists()
        case [session, "json"]:
            return read(session) is None and _has_ended(path)
    return False


def _has_ended(path: Path) -> bool:
    """Whether the process of an undecodable record has ended, if the record names it."""
    try:
        data = strictjson.loads_record(path.read_bytes())
    except OSError:
        return False
    except ValueError:
        return True
    known = data if isinstance(data, dict) else {}
    fields = {field.name for field in fields_of(ProcessIdentity)}
    process = replace(identity(), **{"pid": 0, **{name: known[name] for name in fields & known.keys()}})
    return liveness(process) == "ended"


def _written(path: Path) -> float:
    """The time at which a file was written; the current time if it is gone."""
    try:
        return path.lstat().st_mtime
    except OSError:
        return time.time()


def liveness_of(session: str) -> Liveness:
    """Whether a session runs, by its record as it is now; one without a record has ended."""
    record = read(session)
    return "ended" if record is None else liveness(record.process)
