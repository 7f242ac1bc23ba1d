"""Removes the leftovers of a killed smoke run: its containers, processes, mounts and directories."""

from __future__ import annotations

import shutil
from pathlib import Path

from sandwright.errors import SandwrightError
from sandwright.host import MachineFacts
from sandwright.mountinfo import refuse_mounts, unmount_below
from sandwright.progress import Progress
from sandwright.runtime.registry import RUNTIMES
from sandwright.runtime.scratch import directories_of, forget, stale_directories
from sandwright.watchdog import end_all


def sweep(host: MachineFacts, progress: Progress) -> None:
    """Remove everything that killed runs of this user left in the temporary directory, and report it.

    Failures to remove a file are reported.
    """
    for directory in stale_directories():
        try:
            _sweep_directory(directory, host)
            progress.note(f"smoke: cleared up {directory}, left by a run that was killed")
        except (SandwrightError, OSError) as error:
            progress.note(f"smoke: {directory} was left by a run that was killed, and stays: {error}")


def _sweep_directory(directory: Path, host: MachineFacts) -> None:
    for session in sorted(directory.iterdir()):
        runtime = RUNTIMES.get(session.name.rpartition("-")[0])
        if runtime is not None:
            runtime.discard(session, host)
    for each in directories_of(directory):
        end_all(f"{each}/")
        unmount_below(each)
        refuse_mounts(each)
    shutil.rmtree(directory)
    forget(directory)
