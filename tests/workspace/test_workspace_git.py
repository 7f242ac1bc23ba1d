"""Git on the host may refresh its index between a copy, an apply and an undo of a review workspace.

Tests of workspace/gitindex.py.
Tests of git/entries.py.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from sandwright.git.entries import entries_digest
from sandwright.workspace.applying import apply
from sandwright.workspace.changes import changes
from sandwright.workspace.copying import refresh
from sandwright.workspace.store import Workspace, locked, workspace_of
from sandwright.workspace.undo import undo

pytestmark = pytest.mark.needs("git")


def _git(root: Path | str, *words: str) -> str:
    ended = subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b.invalid", "-C", root, *words],
        check=True,
        capture_output=True,
        timeout=60,
    )
    return ended.stdout.decode()


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    project = tmp_path / "p"
    project.mkdir()
    for name in ("a", "b"):
        (project / name).write_text(name)
    _git(project, "init", "-q", ".")
    _git(project, "add", ".")
    _git(project, "commit", "-q", "-m", "first")
    found = workspace_of(str(project), "default")
    with locked(found, exclusive=True):
        refresh(found, lambda _: False)
    return found


def _refreshed_on_the_host(workspace: Workspace) -> None:
    """Editors do so all the time; the bytes of the index change."""
    index = Path(workspace.project, ".git/index")
    before = index.read_bytes()
    for name in ("a", "b"):
        os.utime(Path(workspace.project, name), (1, 1))
    _git(workspace.project, "status")
    assert index.read_bytes() != before


def _committed_inside(workspace: Workspace) -> None:
    Path(workspace.tree, "a").write_text("changed")
    _git(workspace.tree, "commit", "-q", "-a", "-m", "second")


def test_a_commit_is_applied_and_undone(workspace: Workspace) -> None:
    _committed_inside(workspace)
    _refreshed_on_the_host(workspace)
    assert apply(workspace, changes(workspace), 1).conflicts == []
    assert _git(workspace.project, "log", "--format=%s") == "second\nfirst\n"
    assert _git(workspace.project, "status", "--porcelain") == ""
    _git(workspace.project, "fsck", "--strict")
    _refreshed_on_the_host(workspace)
    assert undo(workspace, 1).conflicts == []
    assert _git(workspace.project, "log", "--format=%s") == "first\n"
    assert _git(workspace.project, "status", "--porcelain") == ""
    _git(workspace.project, "fsck", "--strict")


def test_what_the_host_staged_is_a_conflict(workspace: Workspace) -> None:
    _committed_inside(workspace)
    Path(workspace.project, "b").write_text("of the host")
    _git(workspace.project, "add", "b")
    assert b".git/index" in dict(apply(workspace, changes(workspace), 1).conflicts)
    assert "b" in _git(workspace.project, "diff", "--cached", "--name-only").split()


def test_an_undo_leaves_what_the_repository_needs(workspace: Workspace) -> None:
    """The host makes a commit on top of the applied changes."""
    _committed_inside(workspace)
    apply(workspace, changes(workspace), 1)
    Path(workspace.project, "b").write_text("of the host")
    _git(workspace.project, "commit", "-q", "-a", "-m", "third")
    assert undo(workspace, 1).conflicts
    _git(workspace.project, "fsck", "--strict")
    assert _git(workspace.project, "log", "--format=%s") == "third\nsecond\nfirst\n"


@pytest.mark.parametrize("version", ["2", "3"])
@pytest.mark.parametrize(
    "setting", ["core.untrackedCache=true", "index.skipHash=true", "feature.manyFiles=false"]
)
def test_the_entries_of_an_index(workspace: Workspace, version: str, setting: str) -> None:
    index = Path(workspace.project, ".git/index")
    _git(workspace.project, "config", *setting.split("="))
    _git(workspace.project, "update-index", "--force-write-index", f"--index-version={version}")
    first = entries_digest(index.read_bytes())
    assert first
    _refreshed_on_the_host(workspace)
    assert entries_digest(index.read_bytes()) == first
    for words in (
        ("update-index", "--assume-unchanged", "a"),
        ("update-index", "--chmod=+x", "b"),
        ("update-index", "--force-remove", "b"),
    ):
        _git(workspace.project, *words)
        changed = entries_digest(index.read_bytes())
        assert changed not in ("", first), words
        first = changed


@pytest.mark.parametrize("cut", [0, 11, 12, 40, -1, -21])
def test_a_damaged_index_has_no_entries(workspace: Workspace, cut: int) -> None:
    data = Path(workspace.project, ".git/index").read_bytes()
    assert entries_digest(data[:cut]) == ""


@pytest.mark.parametrize("words", [("--split-index",), ("--index-version=4",)])
def test_another_form_is_not_compared(workspace: Workspace, words: tuple[str, ...]) -> None:
    _git(workspace.project, "update-index", *words)
    assert entries_digest(Path(workspace.project, ".git/index").read_bytes()) == ""
