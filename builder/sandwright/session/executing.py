"""Further commands in a running session: `sandwright exec`.

Nothing enters the session's namespaces from outside. Its launcher's `--exec` passes the command to the
session's first process, which forks it inside all restrictions (docs/launcher.md).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from sandwright import user_dirs
from sandwright.errors import UsageError
from sandwright.methods.registry import properties
from sandwright.session import state
from sandwright.session.command_session import restore_signals
from sandwright.session.detached import find_running
from sandwright.session.render_cache import digest
from sandwright.session.session_record import SessionRecord


def become_exec(address: str, argv: Sequence[str], *, workdir: str = "") -> None:
    """Become the launcher that runs a command in the session of a name or an ID.

    `workdir` is a directory inside. By default it is the current one if that is in the session's project,
    else that of the session's command. Raise UsageError if no such session runs or its method can't do it,
    HostError if the session accepts no command.
    """
    if not argv:
        raise UsageError("give a command to run, behind --")
    record = find_running(address)
    if why := properties(record.method).exec_unsupported:
        raise UsageError(f"session {address} accepts no further commands: under {record.method}, {why}")
    socket, launch = state.requests_of(record.session), str(Path(record.directory, "launch"))
    if not Path(socket).exists():
        remote = ", or its engine is another machine's or user's" * properties(record.method).engine
        raise user_dirs.error(f"session {address} accepts no commands: it is starting or ending{remote}")
    _check_launch_digest(launch, record)
    restore_signals()
    words = [launch, "--exec", socket, workdir or _shared_directory(record), *argv]
    try:
        os.execv(launch, words)  # noqa: S606 - the purpose of this function
    except OSError as error:
        raise user_dirs.error(f"cannot start {launch}: {error.strerror}") from error


def _check_launch_digest(launch: str, record: SessionRecord) -> None:
    """Raise HostError if it is not the program that the session was started with."""
    try:
        changed = digest(launch) != record.artifacts.get("launch")
    except OSError:
        changed = True
    if changed:
        raise user_dirs.error(f"{launch} has changed since the session was started")


def _shared_directory(record: SessionRecord) -> str:
    """The current directory where the session's project holds it, else nothing."""
    try:
        current = Path.cwd()
    except OSError:
        return ""
    return str(current) if current.is_relative_to(os.path.realpath(record.project)) else ""
