"""What runs: a file for each session in a directory of the user's own.

A session is known by the process that runs it and the time at which that process started, as the number
alone may be somebody else's by now.
"""

from __future__ import annotations

import os
import time

from sandwright import places, smalljson
from sandwright.signalling import identity, liveness, started

TYPE_CHECKING = False  # `typing` takes longer to import than all of this
if TYPE_CHECKING:
    from sandwright.signalling import Liveness

_LONG = 60
"""Seconds."""


def directory() -> str:
    """Where the files are. Raise HostError when it is not ours."""
    return places.private(os.path.join(places.runtime(), "sessions"))


def new_id() -> str:
    """A name for a session: 16 hexadecimal digits."""
    return os.urandom(8).hex()


def write(session: str, data: dict[str, object]) -> str:
    """Record a session of this process; give the file. Raise HostError."""
    path = file_of(session)
    own = {"session": session, **identity()}
    places.write(path, smalljson.dumps({**own, **data}))
    return path


def file_of(session: str) -> str:
    """The file of a session's record."""
    return os.path.join(directory(), f"{session}.json")


def forget(session: str) -> None:
    """Remove the record of a session."""
    try:
        os.unlink(file_of(session))
    except FileNotFoundError:
        pass


def read_all() -> list[dict[str, object]]:
    """The records that are there, also of sessions that are over, oldest first."""
    found: list[dict[str, object]] = []
    for name in os.listdir(directory()):
        if name.endswith(".json") and (data := read(name.removesuffix(".json"))):
            found.append(data)
    return sorted(found, key=lambda data: str(data.get("began")))


def read(session: str) -> dict[str, object]:
    """The record of a session; empty where there is none."""
    try:
        with open(file_of(session), "rb") as file:
            data = smalljson.loads(file.read())
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) and data.get("session") == session else {}


def half_written() -> list[str]:
    """Files that a process had begun to write as records (`places.write`) when it was killed.

    So are refusals (`denials`) and what was recorded (`recording`) that nobody has read for a minute, of
    sessions without a record.
    """
    folder = directory()
    return [path for name in os.listdir(folder) if _is_left(path := os.path.join(folder, name))]


def _is_left(path: str) -> bool:
    """What is younger than a minute may be of a process that can't be seen from here."""
    if time.time() - _written(path) <= _LONG:
        return False
    match os.path.basename(path).split("."):
        case [session, "denials" | "record"]:
            return not os.path.exists(file_of(session))
        case [_, "json", pid, "part"]:
            return pid.isdigit() and not started(int(pid))
    return False


def _written(path: str) -> float:
    """When a file was written; now when it is gone."""
    try:
        return os.lstat(path).st_mtime
    except OSError:
        return time.time()


def runs(data: dict[str, object]) -> bool:
    """Whether the process of a record is still that process."""
    return liveness(data) == "running"


def liveness_of(session: str) -> Liveness:
    """Whether a session runs, by its record as it is now; one without a record has ended."""
    data = read(session)
    return liveness(data) if data else "ended"
