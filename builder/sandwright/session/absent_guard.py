"""Protected names outside the project, which mounts can't keep from being made: one stops the next run.

A run keeps a record of the names that are not there while it goes on. When one is there at its end, the
record stays, and no further run of the policy starts until somebody has removed the one or the other. A run
that is killed leaves its record, too.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from shlex import quote

from sandwright import places
from sandwright.documents import strictjson
from sandwright.session.scan import PLACEHOLDER, printable
from sandwright.signalling import identity, liveness


def check(policy: str) -> None:
    """Raise HostError when a run of this policy made such a name, and nobody has looked at it yet."""
    folder = _folder()
    try:
        files = list(Path(folder).iterdir())
    except OSError:
        return
    for each in files:
        file = str(each)
        data = _read(file)
        if data.get("policy") != policy:
            continue
        made = _made(data.get("absent"))
        if made:
            raise places.error(*lines(made, file), "nothing was run")
        if liveness(data) == "ended":
            _forget(file)


def begin(session: str, policy: str, absent: list[str]) -> str:
    """Record a run of this process, and give the file; empty where nothing has to be. Raise HostError."""
    if not absent:
        return ""
    folder = places.private(_folder())
    file = str(Path(folder, f"{session}.json"))
    data = {**identity(), "policy": policy, "absent": absent}
    places.write(file, strictjson.dumps(data))
    return file


def end(file: str) -> list[str]:
    """What to say of the names that were made; without any the record goes."""
    made = _made(_read(file).get("absent"))
    if not made:
        _forget(file)
    return lines(made, file) if made else []


def lines(made: Iterable[str], file: str) -> list[str]:
    """A line for each name, and what to do."""
    said = [
        f"{printable(path)} was made while it ran: programs of the host may run what it says" for path in made
    ]
    return [*said, f"look at it, then remove it; or keep it: rm {quote(printable(file))}"]


def _made(absent: object) -> list[str]:
    return [path for path in absent if _is_there(path)] if isinstance(absent, list) else []


def _is_there(path: str) -> bool:
    """Whether something is there, or may be; a placeholder of a run in another project is not."""
    try:
        return os.lstat(path).st_mode != PLACEHOLDER or any(Path(path).iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True


def _folder() -> str:
    return str(Path(places.cache(), "elsewhere"))


def _read(file: str) -> dict[str, object]:
    try:
        with Path(file).open("rb") as opened:
            data = strictjson.loads_record(opened.read())
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def _forget(file: str) -> None:
    Path(file).unlink(missing_ok=True)
