"""An apply or undo that is killed at any system call leaves each path old or new, and can be repeated.

Tests of workspace/steps.py.
Tests of workspace/journal.py.
Tests of workspace/undo.py.
"""

from __future__ import annotations

import os
import random
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from sandwright.workspace.destination import PART
from sandwright.workspace.undo import applied_runs
from support.thorough import THOROUGH
from support.workspaces import Review, Snapshot, contents, review, work

__all__ = ["review"]

POINTS = 1000 if THOROUGH else 60


def _killed(action: Callable[[], object], after: int) -> int:
    """Run an action in a child that is killed at a system call; return the number of calls if it was not."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        count = 0

        def profile(_: FrameType, event: str, argument: Any) -> None:
            nonlocal count
            if event in ("c_call", "c_return") and getattr(argument, "__module__", "") == "posix":
                count += 1
                if count == after:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.setprofile(profile)
        action()
        sys.setprofile(None)
        os.write(writer, str(count).encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as file:
        return int(file.read() or 0)


def _check_each(found: Snapshot, old: Snapshot, new: Snapshot) -> None:
    """Check that each path is old or new; a path that changes its kind may be missing for a moment."""
    for path in found.keys() | old.keys() | new.keys():
        if PART.decode() in path:
            assert found[path] in [*old.values(), *new.values()] or not found[path][1], path
            continue
        one, other, now = old.get(path), new.get(path), found.get(path)
        assert now in (one, other) or (now is None and path in ("becomes", "d")), path


def _prepared(tmp_path: Path, number: int) -> Review:
    folder = tmp_path / str(number)
    folder.mkdir()
    found = Review(folder)
    work(found)
    return found


def test_apply_is_killed_anywhere(review: Review, tmp_path: Path) -> None:
    total = _killed(_prepared(tmp_path, 0).apply, 0)
    assert total > 100
    for point in range(1, POINTS + 1):
        found = _prepared(tmp_path, point)
        old, new = contents(found.project), contents(found.tree)
        after = random.randint(1, total)
        _killed(found.apply, after)
        _check_each(contents(found.project), old, new)
        assert len(applied_runs(found.workspace)) <= 1, f"killed at {after} of {total}"
        second = random.choice((1, 2))
        assert found.apply(second).conflicts == [], f"killed at {after} of {total}"
        assert contents(found.project) == new
        assert found.changes() == []
        for number in range(second, 0, -1):
            if Path(found.workspace.undo, str(number), "journal").exists():
                assert found.undo(number).conflicts == [], f"killed at {after} of {total}"
        assert contents(found.project) == old, f"killed at {after} of {total}, repeated as {second}"


@pytest.mark.parametrize("text", ["", '{"version":'])
def test_a_journal_without_a_whole_line_is_no_apply(review: Review, text: str) -> None:
    """The apply was killed, or the disk was full, while the old content of the first files was kept."""
    review.write(a="old")
    review.refresh()
    (review.tree / "a").write_text("new")
    journal = Path(review.workspace.undo, "1", "journal")
    journal.parent.mkdir(parents=True, mode=0o700)
    journal.write_text(text)
    assert applied_runs(review.workspace) == []
    assert review.apply().conflicts == []
    assert [(each.number, each.is_finished) for each in applied_runs(review.workspace)] == [(1, True)]


def test_undo_is_killed_anywhere(review: Review, tmp_path: Path) -> None:
    found = _prepared(tmp_path, 0)
    found.apply()
    total = _killed(found.undo, 0)
    assert total > 100
    for point in range(1, POINTS + 1):
        found = _prepared(tmp_path, point)
        old, new = contents(found.project), contents(found.tree)
        found.apply()
        after = random.randint(1, total)
        _killed(found.undo, after)
        _check_each(contents(found.project), new, old)
        if Path(found.workspace.undo, "1", "journal").exists():
            assert found.undo().conflicts == [], f"killed at {after} of {total}"
        assert contents(found.project) == old, f"killed at {after} of {total}"
        assert found.apply(2).conflicts == []
        assert contents(found.project) == new


def test_a_refresh_that_is_killed_is_repeated(review: Review, tmp_path: Path) -> None:
    total = _killed(_prepared(tmp_path, 0).refresh, 0)
    for point in range(1, POINTS // 2 + 1):
        found = _prepared(tmp_path, point)
        found.apply()
        found.write(a="host's a", more__f="more", d2="d")
        (found.project / "mode").unlink()
        after = random.randint(1, total * 2)
        _killed(found.refresh, after)
        found.refresh()
        assert contents(found.project) == contents(found.tree), f"killed at {after}"
        assert found.changes() == []


@pytest.mark.parametrize("edited", [False, True])
def test_a_part_that_a_killed_apply_left_is_settled(
    review: Review, edited: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was killed between the exchange and the check of the old file, which an editor may have changed."""
    review.write(a="old")
    review.refresh()
    (review.tree / "a").write_text("new")
    old = (review.project / "a").open("r+")

    def killed(*_: object) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("sandwright.workspace.replacing.Replacing.unlink_verified", killed)
        with pytest.raises(KeyboardInterrupt):
            review.apply()
    if edited:
        old.write("edit")
    old.close()
    assert len(contents(review.project)) == 2, "the control: a part is there"
    assert [path for path, _ in review.apply().conflicts] == ([b"a"] if edited else [])
    assert list(contents(review.project)) == ["a"]
    assert (review.project / "a").read_text() == ("edit" if edited else "new")
