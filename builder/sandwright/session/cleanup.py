"""Finds what killed sessions left behind, and removes it; never what still runs, or isn't ours.

Nearly all goes by itself: sandboxes die with their launcher, and a watching process outlives both and
clears up. What is left is for when that was killed too, or the machine lost power.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from sandwright import process
from sandwright.bridge.start import place, stale, sweep
from sandwright.errors import HostError, SandwrightError
from sandwright.inputs import is_cover
from sandwright.launcher.plan import NAME
from sandwright.methods import registry
from sandwright.methods.contract import Leftover
from sandwright.methods.shared import rundirs
from sandwright.runtime.scratch import stale_directories
from sandwright.session import apart, persistent, state
from sandwright.signalling import kill, own

OURS = "session"
"""The method of leftovers that are of no method."""

_MARK = b"SANDWRIGHT_SESSION="
_GRACE = 3.0
"""Seconds in which what watches a session has cleared up."""

_COVERS_TIMEOUT = 10.0
_NOWHERE = "/nonexistent/sandwright"


def running() -> set[str]:
    """The ids of the sessions that run."""
    return {str(data["session"]) for data in state.read_all() if state.runs(data)}


def leftovers() -> list[Leftover]:
    """Everything that sessions of this user left behind."""
    alive = running()
    found = [*_processes(alive), *_covers(alive)]
    for name in registry.names():
        with contextlib.suppress(
            SandwrightError
        ):  # an engine that does not answer holds nothing that we can see
            found += registry.backend(name).leftovers(alive)
    found += [Leftover(OURS, "directory", str(path)) for path in stale_directories()]
    found += [Leftover(OURS, "run's directory", str(path)) for path in rundirs.nameless()]
    found += [Leftover(OURS, "bridge", str(path)) for path in stale(place(os.environ))]
    return [*found, *_records(alive)]


def remove(leftover: Leftover) -> None:
    """Remove one of them. Raise SandwrightError when it stays."""
    if leftover.method != OURS:
        registry.backend(leftover.method).remove(leftover)
        return
    match leftover.kind:
        case "record":
            state.forget(leftover.session)
        case "half-written record":
            Path(leftover.name).unlink(missing_ok=True)
        case "process":
            kill(pid := int(leftover.name), sure=lambda: _session(pid) == leftover.session)
        case "file":
            _uncover(leftover)
        case "directory":
            _remove_scratch()
        case "run's directory":
            if not rundirs.remove_nameless(Path(leftover.name)):
                raise HostError(f"{leftover.name} can't be removed")
        case "cache":
            persistent.remove_cache(leftover.name)
        case "bridge":
            sweep(Path(leftover.name).parent)
        case _:
            raise HostError(f"{leftover} can't be removed")


def _records(alive: set[str]) -> Iterator[Leftover]:
    for data in state.read_all():
        session = str(data["session"])
        if session not in alive:
            yield Leftover(OURS, "record", session, session)
    for path in state.half_written():
        yield Leftover(OURS, "half-written record", path)


def _processes(alive: set[str]) -> Iterator[Leftover]:
    """Those that a session's launcher started, and that outlived it for longer than it takes to clear up."""
    deadline = time.monotonic() + _GRACE
    found = _marked(alive)
    while found and time.monotonic() < deadline:
        time.sleep(0.05)
        found = _marked(alive)
    for pid, session in sorted(found.items()):
        yield Leftover(OURS, "process", str(pid), session)


def _marked(alive: set[str]) -> dict[int, str]:
    """Processes of this user whose environment names a session that was killed."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        session = _session(int(entry.name))
        if session and session not in alive:
            found[int(entry.name)] = session
    return found


def _session(pid: int) -> str:
    """The recorded session that a process of ours, in no sandbox, is marked with; empty without one."""
    with contextlib.suppress(OSError):
        if own(pid):
            for variable in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                session = variable.removeprefix(_MARK).decode(errors="replace")
                if variable.startswith(_MARK) and _recorded(session):
                    return session
    return ""


def _recorded(session: str) -> bool:
    return len(session) == 16 and (Path(state.directory()) / f"{session}.json").exists()


def _covers(alive: set[str]) -> Iterator[Leftover]:
    """Files that were put into a project for the time of a run."""
    records = state.read_all()
    used = {str(data.get("project")) for data in records if str(data["session"]) in alive}
    for data in records:
        if str(data["session"]) in alive or str(data.get("project")) in used:
            continue
        covers = data.get("covers")
        for path in _there(list(map(str, covers)) if isinstance(covers, list) else []):
            yield Leftover(OURS, "file", path, str(data["session"]))


def _uncover(leftover: Leftover) -> None:
    """Have the session's own launcher remove its covers: it knows what they hold, and who else needs them."""
    data = next((each for each in state.read_all() if each["session"] == leftover.session), {})
    directory = Path(str(data.get("directory")))
    if (directory / NAME).exists():
        process.run(directory / "launch", "--uncover", timeout=_COVERS_TIMEOUT, check=False)
    elif (watch := directory / "watch").exists():
        process.run("sh", watch, "0", _NOWHERE, "none", timeout=_COVERS_TIMEOUT, check=False)
    if _there([leftover.name]):
        raise HostError(f"{leftover.name} could not be removed, or another session needs it; it stays")


def _there(covers: list[str]) -> list[str]:
    """Those that are there; none where their file system doesn't answer."""
    with contextlib.suppress(apart.SilentError):
        return list(apart.done(lambda _: list(filter(_is_cover, covers)), _COVERS_TIMEOUT))
    return []


def _is_cover(path: str) -> bool:
    with contextlib.suppress(OSError):
        return is_cover(path, os.lstat(path))
    return False


def _remove_scratch() -> None:
    from sandwright.host import collect_host  # noqa: PLC0415
    from sandwright.progress import SILENT  # noqa: PLC0415
    from sandwright.runtime import sweep as smoke  # noqa: PLC0415

    smoke.sweep(collect_host(), SILENT)


def described(found: Iterable[Leftover]) -> list[str]:
    """A line for each."""
    return [
        f"{each.kind} {each.name}" + (f" of session {each.session}" if each.session else "") for each in found
    ]
