"""A run that is killed while it writes its record."""

from __future__ import annotations

import os
import subprocess

import pytest

from session.conftest import Project

pytestmark = pytest.mark.needs("bwrap")


@pytest.mark.parametrize("next_command", [("run", "--", "true"), ("cleanup",)], ids=["run", "cleanup"])
def test_its_half_written_record_is_removed(project: Project, next_command: tuple[str, ...]) -> None:
    """One that another process is writing stays."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    records = project.runtime / "sandwright" / "sessions"
    records.mkdir(parents=True, mode=0o700)
    records.parent.chmod(0o700)
    left, written = (records / f"{'0' * 16}.json.{pid}.part" for pid in (ended.pid, os.getpid()))
    left.touch()
    os.utime(left, (0, 0))  # a younger one may be of a process in another pid namespace
    written.touch()
    done = project.sandwright(*next_command)
    assert done.returncode == 0, done.stderr
    assert project.records() == [written]


@pytest.mark.parametrize("name", ["denials", "record"])
def test_what_a_killed_run_was_refused_and_asked_for_is_removed(project: Project, name: str) -> None:
    """What was written just now stays: somebody is about to read it."""
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
