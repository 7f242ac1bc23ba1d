"""A run that is killed while it writes its session record."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from session.conftest import Project

pytestmark = pytest.mark.needs("bwrap")


@pytest.mark.parametrize("next_command", [("run", "--", "true"), ("cleanup",)], ids=["run", "cleanup"])
def test_its_half_written_record_is_removed(project: Project, next_command: tuple[str, ...]) -> None:
    """A record that another process is writing stays, and so does a recent one of another PID namespace."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    records = project.runtime / "sandwright" / "sessions"
    records.mkdir(parents=True, mode=0o700)
    records.parent.chmod(0o700)
    namespace = Path("/proc/self/ns/pid").stat().st_ino
    left, written, elsewhere, old = (
        records / f"{digit * 16}.json.{pid}-{inode}.part"
        for digit, pid, inode in (
            ("0", ended.pid, namespace),
            ("1", os.getpid(), namespace),
            ("2", ended.pid, 1),
            ("3", ended.pid, 1),
        )
    )
    for part in (left, written, elsewhere, old):
        part.touch()
    os.utime(old, (0, 0))
    done = project.sandwright(*next_command)
    assert done.returncode == 0, done.stderr
    assert project.records() == [written, elsewhere]


@pytest.mark.parametrize("name", ["denials", "record"])
def test_what_a_killed_run_was_refused_and_asked_for_is_removed(project: Project, name: str) -> None:
    """A recent record stays: its reader is about to read it."""
    records = project.runtime / "sandwright" / "sessions"
    records.mkdir(parents=True, mode=0o700)
    records.parent.chmod(0o700)
    left, written = (records / f"{digit * 16}.{name}" for digit in "01")
    left.touch()
    os.utime(left, (0, 0))
    written.touch()
    done = project.sandwright("cleanup")
    assert done.returncode == 0, done.stderr
    assert project.records() == [written]
