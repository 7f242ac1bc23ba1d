"""What runs: a file for each session in a directory of the user's own.

A session is known by the process that runs it and the time at which that process started, as the number
alone may be somebody else's by now.
"""

from __future__ import annotations

import os
import time

from sandwright import places, smalljson
from sandwright.signalling import started

_LONG = 60
"""Seconds."""

BOOT = "/proc/sys/kernel/random/boot_id"


def directory() -> str:
    """Where the files are. Raise HostError when it is not ours."""
    return places.private(os.path.join(places.runtime(), "sessions"))


def new_id() -> str:
    """A name for a session: 16 hexadecimal digits."""
    return os.urandom(8).hex()


def write(session: str, data: dict[str, object]) -> str:
    """Record a session of this process; give the file. Raise HostError."""
    path = os.path.join(directory(), f"{session}.json")
    own = {"session": session, **identity()}
    places.write(path, smalljson.dumps({**own, **data}))
    return path


def identity() -> dict[str, object]:
    """What a record says of this process, by which `runs` knows it."""
    return {"pid": os.getpid(), "start": started(os.getpid()), "boot": boot()}


def forget(session: str) -> None:
    """Remove the record of a session."""
    try:
        os.unlink(os.path.join(directory(), f"{session}.json"))
    except FileNotFoundError:
        pass


def read_all() -> list[dict[str, object]]:
    """The records that are there, also of sessions that are over, oldest first."""
    found: list[dict[str, object]] = []
    folder = directory()
    for name in os.listdir(folder):
        if not name.endswith(".json"):
            continue
        try:
            with open(os.path.join(folder, name), "rb") as file:
                data = smalljson.loads(file.read())
        except (OSError, ValueError):
            continue
        if isinstance(data, dict) and data.get("session") == name.removesuffix(".json"):
            found.append(data)
    return sorted(found, key=lambda data: str(data.get("began")))


def half_written() -> list[str]:
    """Files that a process had begun to write as records (`places.write`) when it was killed.

    So are refusals (`denials`) and what was recorded (`recording`) that nobody has read for a minute.
    """
    folder = directory()
    return [path for name in os.listdir(folder) if _is_left(path := os.path.join(folder, name))]


def _is_left(path: str) -> bool:
    match os.path.basename(path).split("."):
        case [_, "denials" | "record"]:
            return time.time() - _written(path) > _LONG
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
    pid = data.get("pid")
    return isinstance(pid, int) and data.get("boot") == boot() and 0 != started(pid) == data.get("start")


def boot() -> str:
    """Which boot of this machine this is; empty where nobody tells."""
    try:
        with open(BOOT, "rb") as file:
            return file.read().strip().decode()
    except OSError:
        return ""
