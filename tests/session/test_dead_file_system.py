"""A file system stops answering during a run: the run ends, and names the paths that it can't read."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from sandwright import process
from sandwright.errors import CommandFailed
from sandwright.session import child_guard
from session.conftest import SANDWRIGHT, Project
from support.deadfuse import DeadFuse, dead_fuse
from support.thorough import THOROUGH
from support.waiting import until

pytestmark = [
    pytest.mark.skipif(os.getuid() != 0 or not Path("/dev/fuse").exists(), reason="root mounts it"),
    pytest.mark.needs("bwrap", "git"),
]
MADE = "read x; git init -q tool; exit 7"


@pytest.fixture
def mounts(tmp_path: Path) -> Iterator[Callable[[Path], DeadFuse]]:
    """Mounts such a file system with a directory and a file in it."""
    shown = tmp_path / "shown"
    (shown / "inner").mkdir(parents=True)
    (shown / "inner" / "file").write_text("content")
    with ExitStack() as stack:
        yield lambda place: stack.enter_context(dead_fuse(shown, place))


def _ended(project: Project, dead: DeadFuse, script: str) -> tuple[int, str, float]:
    """A run that goes on when the file system is silent: its status, its output, and the seconds from then
    on.

    A process that waits inside keeps its output open, so the output is a file.
    """
    written, said = project.home / "written", project.home / "said"
    with (
        written.open("wb") as output,
        said.open("wb") as errors,
        subprocess.Popen(
            [*SANDWRIGHT, "run", "--", "sh", "-c", f"echo up; {script}"],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=errors,
            cwd=project.root,
            env=project.environ,
        ) as running,
    ):
        assert running.stdin is not None
        until(lambda: written.read_bytes() == b"up\n", "it didn't start")
        dead.silence()
        began = time.monotonic()
        running.stdin.write(b"\n")
        running.stdin.close()
        running.wait(timeout=120)
        return running.returncode, said.read_text(), time.monotonic() - began


def test_a_run_ends_with_its_status(project: Project, mounts: Callable[[Path], DeadFuse]) -> None:
    """The other directories of the project are still scanned."""
    (project.root / "mnt").mkdir()
    dead = mounts(project.root / "mnt")
    assert project.run("true").stderr == b""
    status, said, seconds = _ended(project, dead, MADE)
    silent = f"sandwright: not everything was looked at: the file system of {project.root}/mnt doesn't answer"
    assert (status, seconds < 60) == (7, True), said
    assert said.splitlines()[-1] == silent
    assert f"new or changed while it ran: {project.root}/tool/.git: a repository" in said


def test_a_time_limit_ends_what_waits_inside(project: Project, mounts: Callable[[Path], DeadFuse]) -> None:
    (project.root / "mnt").mkdir()
    project.policy.write_text(f"{project.policy.read_text()}resources: {{time: 3s}}\n")
    dead = mounts(project.root / "mnt")
    assert project.run("true").returncode == 0
    status, said, seconds = _ended(project, dead, "read x; stat mnt/inner")
    assert (status, seconds < 90) == (124, True), said
    assert "sandbox: the time limit (resources.time) was reached" in said


@pytest.mark.skipif(not THOROUGH, reason="it takes a minute")
def test_a_project_that_is_dead(project: Project, mounts: Callable[[Path], DeadFuse], tmp_path: Path) -> None:
    """The mounts can no longer be compared, so the run fails."""
    for path in (".git/hooks/x", ".git/config", ".git/HEAD", "sandbox.yaml"):
        (tmp_path / "shown" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "shown" / path).write_bytes((project.root / path).read_bytes())
    dead = mounts(project.root)
    assert project.run("true").returncode == 0
    status, said, seconds = _ended(project, dead, "read x")
    assert (status, seconds < 110) == (137, True), said
    assert "the mount watch does not answer" in said
    assert "does not answer: the next run" in said


def test_a_program_that_waits_is_left(tmp_path: Path, mounts: Callable[[Path], DeadFuse]) -> None:
    (tmp_path / "mnt").mkdir()
    mounts(tmp_path / "mnt").silence()
    began = time.monotonic()
    with pytest.raises(CommandFailed, match=r"did not end within 0\.5 s"):
        process.run("stat", tmp_path / "mnt" / "inner", timeout=0.5)
    assert time.monotonic() - began < 30


def test_work_that_waits_is_left(tmp_path: Path, mounts: Callable[[Path], DeadFuse]) -> None:
    (tmp_path / "mnt").mkdir()
    dead = mounts(tmp_path / "mnt")

    def work(tell: Callable[[str], None]) -> list[str]:
        tell("here")
        return os.listdir(tmp_path / "mnt")  # noqa: PTH208 - names

    assert child_guard.run_in_child(work, 30) == ["inner"]
    dead.silence()
    with pytest.raises(child_guard.UnresponsiveFilesystem, match="here doesn't answer"):
        child_guard.run_in_child(work, 0.5)


def test_work_that_fails_says_why() -> None:
    with pytest.raises(OSError, match=r"^no way$"):
        child_guard.run_in_child(lambda _: (_ for _ in ()).throw(ValueError("no way")), 30)
    assert child_guard.run_in_child(lambda _: ["x" * (1 << 20)], 30) == ["x" * (1 << 20)]
