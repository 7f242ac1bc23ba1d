"""Names that a method leaves open by an accepted gap are reported after the run, as only protection."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from session.conftest import Project

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Landlock is Linux'")

GAPS = ("protect", "attributes", "readonly")
ACCEPT_GAPS = ", ".join(
    f"{{feature: {name}, method: landlock, reason: a test}}"
    for name in (*(f"filesystem.{each}" for each in GAPS), "process.kernel")
)
POLICY = (
    f"schema: 1\nmethod: landlock\nfilesystem: {{readonly: [$PROJECT/kept]}}\naccept_gaps: [{ACCEPT_GAPS}]\n"
)
CHANGED = (
    ".git/config",
    ".git/hooks/x",
    ".git/modules/m/config",
    ".vscode/tasks.json",
    "sandbox.yaml",
    "kept/.vscode/tasks.json",
)


@pytest.fixture
def before(project: Project) -> Project:
    """A project with files that host programs run, each older than the run."""
    git = project.root / ".git"
    for path in ("objects", "refs", "modules/m/objects", "modules/m/refs"):
        (git / path).mkdir(parents=True)
    for path in (".git/modules/m/HEAD", *CHANGED):
        (project.root / path).parent.mkdir(parents=True, exist_ok=True)
        (project.root / path).write_text("")
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    project.policy.write_text(POLICY)
    assert project.run("true", options=("--trust-policy",)).returncode == 0
    return project


@pytest.mark.parametrize("path", CHANGED)
def test_a_protected_name_that_landlock_leaves_open_is_reported(before: Project, path: str) -> None:
    ended = before.run("sh", "-c", f"echo '#' >>{path}", options=("--trust-policy",))
    said = ended.stderr.decode()
    assert (before.root / path).read_text().endswith("#\n"), said
    where = os.fspath(before.root / Path(path))
    named = [line for line in said.splitlines() if "new or changed while it ran: " in line]
    assert any(where.startswith(line.split("ran: ")[1].split(": ")[0]) for line in named), said


def test_nothing_is_reported_of_a_run_that_changes_none_of_them(before: Project) -> None:
    act = "echo >made; echo >.git/refs/new; echo >.git/index.lock; mv .git/index.lock .git/index"
    ended = before.run("sh", "-c", act, options=("--trust-policy",))
    assert ended.returncode == 0
    assert "new or changed" not in ended.stderr.decode()


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("path", ["rebase-merge/strategy", "sequencer/opts"])
def test_what_git_would_continue_is_reported(project: Project, path: str) -> None:
    """It can name a program of the project as merge strategy, and lines of commands."""
    git = project.root / ".git"
    (git / "rebase-merge").mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    project.policy.write_text("schema: 1\nmethod: bwrap\nfilesystem: {write: [$PROJECT]}\n")
    assert "new or changed" not in project.run("true").stderr.decode()
    ended = project.run("sh", "-c", f"mkdir -p .git/sequencer; echo x/evil >.git/{path}")
    named = f"new or changed while it ran: {git / path.split('/', maxsplit=1)[0]}"
    assert (ended.returncode, named in ended.stderr.decode()) == (0, True), ended.stderr
