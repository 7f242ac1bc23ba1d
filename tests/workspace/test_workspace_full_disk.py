"""A full disk leaves each path old or new, causes an error, and removes nothing that undo needs.

Tests of workspace/applying.py.
Tests of workspace/journal.py.
Tests of workspace/copying.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandwright.errors import HostError
from support import labworker
from support.workspaces import Review, contents, review

__all__ = ["review"]

pytestmark = pytest.mark.usefixtures("mount_lab")


@pytest.fixture
def small(mount_lab: None, tmp_path: Path) -> Iterator[Path]:
    """A disk of 512 KiB."""
    path = tmp_path / "small"
    path.mkdir()
    labworker.run("mount", "-t", "tmpfs", "-o", "size=512k", "none", str(path))
    yield path
    labworker.run("umount", str(path))


def _fill(root: Path) -> None:
    with contextlib.suppress(OSError), (root / "filler").open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)


def test_the_disk_of_the_project_is_full(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    review = Review(small)
    review.write(**{name: f"old {name}" for name in "abc"})
    review.refresh()
    for name in "abc":
        (review.tree / name).write_text(f"new {name}" * (1 if name == "a" else 60_000))
    old, new = contents(review.project), contents(review.tree)
    with pytest.raises(HostError, match="No space left on device"):
        review.apply()
    now = contents(review.project)
    assert now["a"] == new["a"]
    assert all(now[name] in (old[name], new[name]) for name in now)
    assert now["c"] == old["c"]
    assert sorted(now) == ["a", "b", "c"], "no part is left"
    assert review.undo().conflicts == []
    assert contents(review.project) == old
    labworker.run("mount", "-o", "remount,size=8m", str(small))
    assert review.apply(2).conflicts == []
    assert contents(review.project) == new


def test_the_disk_of_the_workspace_is_full(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(small / "home"))
    review = Review(tmp_path)
    review.write(a="old a" * 1000, b="old b" * 1000)
    review.refresh()
    (review.tree / "a").write_text("new a")
    (review.tree / "b").unlink()
    old = contents(review.project)
    _fill(small)
    with pytest.raises(HostError, match="No space left on device"):
        review.apply()
    assert contents(review.project) == old
    review.write(new="x" * 100_000)
    with pytest.raises(HostError, match="No space left on device"):
        review.refresh()
    (small / "filler").unlink()
    (review.project / "new").unlink()
    assert review.refresh().conflicts == []
    assert review.apply().conflicts == []
    assert contents(review.project) == contents(review.tree)
    assert review.undo().conflicts == []
    assert contents(review.project) == old


def test_a_first_copy_on_a_full_disk_begins_again(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(small / "home"))
    review = Review(tmp_path)
    review.write(a="a" * 400_000, b="b" * 400_000)
    with pytest.raises(HostError, match="No space left on device"):
        review.refresh()
    assert review.changes() == []
    labworker.run("mount", "-o", "remount,size=8m", str(small))
    review.refresh()
    assert contents(review.project) == contents(review.tree)
