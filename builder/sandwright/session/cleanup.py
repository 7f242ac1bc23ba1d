"""`sandwright cleanup`: removes leftovers of killed sessions, but none of running sessions or other users.

Usually nothing is left: sandboxes die with their launcher, and the monitor outlives both and cleans up.
Leftovers exist only if the monitor was killed, too, or the machine lost power.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from sandwright import process
from sandwright.bridge.directory import bridges_directory, stale, sweep_bridges
from sandwright.errors import HostError, SandwrightError
from sandwright.host import collect_host
from sandwright.launcher.plan import NAME
from sandwright.methods import registry
from sandwright.methods.contract import Leftover
from sandwright.methods.shared import rundirs
from sandwright.progress import SILENT
from sandwright.runtime import sweep as smoke
from sandwright.runtime.scratch import stale_directories
from sandwright.session import persistent, state
from sandwright.session import stale as stale_sessions
from sandwright.session.child_guard import UnresponsiveFilesystem
from sandwright.session.stale import NotStaleError
from sandwright.signalling import kill, liveness

OURS = "session"
"""The name in place of a method, for leftovers that belong to no method."""

_GRACE = 3.0
"""Seconds in which the monitor of a session has cleaned up."""

_UNCOVER_TIMEOUT = 10.0
_NOWHERE = "/nonexistent/sandwright"


def leftovers() -> list[Leftover]:
    """Find everything that sessions of this user have left behind.

    A session that begins meanwhile may be listed, too: `remove_leftover` checks again.
    """
    found = [*_processes()]
    going_on = {each.session for each in state.read_all() if liveness(each.process) != "ended"}
    for name in registry.names():
        with contextlib.suppress(
            SandwrightError
        ):  # an engine that does not answer holds nothing that we can see
            found += registry.backend(name).leftovers(going_on)
    found += _stale_placeholders()  # last: a container that goes on could create their paths
    found += [Leftover(OURS, "directory", str(path)) for path in stale_directories()]
    found += [Leftover(OURS, "run's directory", str(path)) for path in rundirs.unowned_directories()]
    found += [Leftover(OURS, "bridge", str(path)) for path in stale(bridges_directory(os.environ))]
    found += _stale_records()
    return [each for each in found if not each.session or state.liveness_of(each.session) == "ended"]


def foreign_sessions() -> list[str]:
    """The sessions of other PID namespaces and machines: leftovers look the same as running ones."""
    return [each.session for each in state.read_all() if liveness(each.process) == "elsewhere"]


def remove_leftover(leftover: Leftover, notify: Callable[[str], None] = lambda _: None) -> bool:
    """Remove a leftover; give False if its session runs after all.

    `notify` gets messages about files that a killed run left in its project. Raise SandwrightError if it
    cannot be removed.
    """
    try:
        if leftover.kind == "record":
            return _forget_record(leftover.session, notify)
        with contextlib.ExitStack() as stack:
            if leftover.session:
                stack.enter_context(stale_sessions.locked(leftover.session))
            if leftover.method == OURS:
                return _remove_leftover(leftover)
            registry.backend(leftover.method).remove(leftover)
            return True
    except NotStaleError:
        return False


def _remove_leftover(leftover: Leftover) -> bool:
    match leftover.kind:
        case "half-written record":
            Path(leftover.name).unlink(missing_ok=True)
        case "process":
            kill(pid := int(leftover.name), sure=lambda: stale_sessions.marked_with(pid) == leftover.session)
        case "file":
            _uncover(leftover)
        case "directory":
            _remove_scratch()
        case "run's directory":
            if not rundirs.remove_unowned(Path(leftover.name)):
                raise HostError(f"cannot remove {leftover.name}")
        case "cache" | "home directory":
            return persistent.remove_cache(leftover.name)
        case "bridge":
            sweep_bridges(Path(leftover.name).parent)
        case _:
            raise HostError(f"cannot remove {leftover}")
    return True


def _stale_records() -> Iterator[Leftover]:
    for record in stale_sessions.records():
        yield Leftover(OURS, "record", record.session, record.session)
    for path in state.half_written():
        yield Leftover(OURS, "half-written record", path)


def _forget_record(session: str, notify: Callable[[str], None]) -> bool:
    """Remove a record. Raise HostError if leftovers still exist that are found only by this record."""
    if not stale_sessions.forget(session, notify=notify):
        raise HostError(f"the record of session {session} stays, because something that it left behind stays")
    return True


def _processes() -> Iterator[Leftover]:
    """The processes of a session that outlived its launcher for longer than the cleanup takes."""
    deadline = time.monotonic() + _GRACE
    found = stale_sessions.processes()
    while found and time.monotonic() < deadline:
        time.sleep(0.05)
        now = stale_sessions.processes()
        found = {pid: session for pid, session in now.items() if pid in found}
    for pid, session in sorted(found.items()):
        yield Leftover(OURS, "process", str(pid), session)


def _stale_placeholders() -> Iterator[Leftover]:
    """Files that were put into a project for the time of a run."""
    for record in stale_sessions.records():
        if not _is_used(record.project):
            with contextlib.suppress(UnresponsiveFilesystem):
                for path in stale_sessions.present(record.placeholders):
                    yield Leftover(OURS, "file", path, record.session)


def _is_used(project: str) -> bool:
    """Whether a session may go on in a project."""
    return any(liveness(each.process) != "ended" for each in state.read_all() if each.project == project)


def _uncover(leftover: Leftover) -> None:
    """Have the session's own launcher remove its placeholders.

    It knows their content, and which sessions need them. Like every launcher, it locks the project first.
    """
    record = state.read(leftover.session)
    if record is not None and _is_used(record.project):
        raise NotStaleError(f"a session began in {record.project}")
    directory = Path(_NOWHERE if record is None else record.directory)
    if (directory / NAME).exists():
        process.run(directory / "launch", "--uncover", timeout=_UNCOVER_TIMEOUT, check=False)
    elif (watch := directory / "watch").exists():
        process.run("sh", watch, "0", _NOWHERE, "none", timeout=_UNCOVER_TIMEOUT, check=False)
    try:
        stays = bool(stale_sessions.present([leftover.name]))
    except UnresponsiveFilesystem:
        stays = True
    if stays:
        raise HostError(f"{leftover.name} could not be removed, or another session needs it; it stays")


def _remove_scratch() -> None:
    smoke.sweep(collect_host(), SILENT)


def leftover_lines(found: Iterable[Leftover]) -> list[str]:
    """A line for each leftover."""
    return [
        f"{each.kind} {each.name}" + (f" of session {each.session}" if each.session else "") for each in found
    ]
