"""A project and its review workspace, in a separate home."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandwright.workspace.applying import apply
from sandwright.workspace.changes import Change, changes
from sandwright.workspace.copying import Refreshed, refresh
from sandwright.workspace.destination import Applied
from sandwright.workspace.store import Workspace, remove, workspace_of
from sandwright.workspace.undo import undo


class Review:
    """A project, and one workspace of it. `hidden` are paths of the project that the policy denies."""

    def __init__(self, folder: Path, name: str = "main") -> None:
        self.project = folder / "project"
        self.project.mkdir(exist_ok=True)
        self.workspace: Workspace = workspace_of(str(self.project), name)
        self.hidden: set[str] = set()

    @property
    def tree(self) -> Path:
        """The copy."""
        return Path(self.workspace.tree)

    def write(self, **files: str) -> None:
        """Write files of the project: `a__b` is a/b."""
        for name, content in files.items():
            path = self.project / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)

    def refresh(self) -> Refreshed:
        """Copy the changes of the project."""
        return refresh(self.workspace, self._is_hidden)

    def _is_hidden(self, path: str) -> bool:
        return any(f"{path}/".startswith(f"{self.project}/{each}/") for each in self.hidden)

    def changes(self) -> list[Change]:
        """The changes in the copy."""
        return changes(self.workspace)

    def kinds(self) -> dict[str, str]:
        """The kind of each change by its path."""
        return {os.fsdecode(each.path): each.kind for each in self.changes()}

    def apply(self, number: int = 1, *, chosen: list[Change] | None = None) -> Applied:
        """Apply changes, by default all."""
        return apply(self.workspace, self.changes() if chosen is None else chosen, number)

    def undo(self, number: int = 1) -> Applied:
        """Take an apply back."""
        return undo(self.workspace, number)


def work(review: Review) -> None:
    """The work of a run, with every kind of change."""
    review.write(
        a="old a", mode="#!/bin/sh", gone="gone", deep__dir__f="f", becomes="a file", d__x="x", d__y="y"
    )
    (review.project / "link").symlink_to("a")
    review.refresh()
    tree = review.tree
    (tree / "a").write_text("new a")
    (tree / "mode").chmod(0o755)
    (tree / "gone").unlink()
    (tree / "new/dir").mkdir(parents=True)
    (tree / "new/dir/f").write_text("new file")
    (tree / "new/dir").chmod(0o750)
    (tree / "link").unlink()
    (tree / "link").symlink_to("deep")
    (tree / "becomes").unlink()
    (tree / "becomes").mkdir()
    (tree / "becomes/inner").write_text("inner")
    for name in ("x", "y"):
        (tree / "d" / name).unlink()
    (tree / "d").rmdir()
    (tree / "d").write_text("was a directory")


@pytest.fixture
def review(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Review]:
    """A project without files, whose workspace does not exist yet."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    found = Review(tmp_path)
    yield found
    remove(found.workspace)


Snapshot = dict[str, tuple[int, bytes]]


def contents(root: Path) -> Snapshot:
    """Mode, and content, link text or nothing, of everything below a directory."""
    found = {}
    for path in sorted(root.rglob("*")):
        status = path.lstat()
        content = b""
        if stat.S_ISLNK(status.st_mode):
            content = os.fsencode(path.readlink())
        elif stat.S_ISREG(status.st_mode):
            content = path.read_bytes()
        found[str(path.relative_to(root))] = (status.st_mode, content)
    return found
