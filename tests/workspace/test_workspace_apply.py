"""Changes of a workspace are applied if the project is as it was copied, and can be undone.

Tests of workspace/applying.py.
Tests of workspace/copying.py.
Tests of workspace/undo.py.
Tests of workspace/destination.py.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from sandwright.errors import HostError, UsageError
from sandwright.workspace.undo import applied_runs
from support.workspaces import Review, contents, review, work

__all__ = ["review"]


def test_all_kinds_of_changes_are_named(review: Review) -> None:
    work(review)
    assert review.kinds() == {
        "a": "changed",
        "becomes": "changed",
        "becomes/inner": "added",
        "d": "changed",
        "d/x": "deleted",
        "d/y": "deleted",
        "gone": "deleted",
        "link": "changed",
        "mode": "mode",
        "new": "added",
        "new/dir": "added",
        "new/dir/f": "added",
    }


def test_apply_makes_the_project_what_the_copy_is(review: Review) -> None:
    work(review)
    os.utime(review.tree / "a", ns=(0, 10**18))
    before = contents(review.project)
    applied = review.apply()
    assert applied.conflicts == []
    assert contents(review.project) == contents(review.tree)
    assert (review.project / "a").stat().st_mtime_ns == 10**18
    assert review.changes() == [], "the base was updated"
    assert review.apply(2).changed == 0
    assert review.undo(1).conflicts == []
    assert contents(review.project) == before


def test_undo_gives_times_back_and_makes_changes_of_what_the_copy_has(review: Review) -> None:
    work(review)
    os.utime(review.project / "gone", ns=(0, 10**18 + 1))
    kinds = review.kinds()
    review.apply(7)
    assert [(each.number, each.is_finished) for each in applied_runs(review.workspace)] == [(7, True)]
    review.undo(7)
    assert (review.project / "gone").stat().st_mtime_ns == 10**18 + 1
    assert review.kinds() == kinds
    assert applied_runs(review.workspace) == []
    with pytest.raises(UsageError, match="applied nothing"):
        review.undo(7)


def test_what_changed_on_both_sides_is_a_conflict_and_stays(review: Review) -> None:
    work(review)
    review.write(a="host's a", gone="host's", new__dir__f="host's new", d__z="host's z")
    (review.project / "mode").chmod(0o711)
    before = contents(review.project)
    applied = review.apply()
    conflicts = {os.fsdecode(path) for path, _ in applied.conflicts}
    assert conflicts == {"a", "gone", "mode", "new/dir/f", "d"}
    now = contents(review.project)
    assert {name: now[name] for name in ("a", "gone", "mode", "new/dir/f", "d/z")} == {
        name: before[name] for name in ("a", "gone", "mode", "new/dir/f", "d/z")
    }
    assert set(review.kinds()) >= {"a", "mode", "new/dir/f", "d"}, "they are changes still"


def test_an_apply_that_changed_nothing_is_not_listed(review: Review) -> None:
    """`undo` without a number reverts the last apply that changed something."""
    review.write(a="old")
    review.refresh()
    (review.tree / "a").write_text("new")
    review.apply()
    (review.tree / "a").write_text("newer")
    review.write(a="host's")
    assert len(review.apply(2).conflicts) == 1
    assert review.apply(3, chosen=[]).changed == 0
    assert [each.number for each in applied_runs(review.workspace)] == [1]


def test_the_same_change_on_both_sides_is_done(review: Review) -> None:
    work(review)
    review.write(a="new a", new__dir__f="new file")
    (review.project / "gone").unlink()
    assert review.apply().conflicts == []
    assert contents(review.project)["a"] == contents(review.tree)["a"]


def test_a_chosen_path_brings_the_directories_above_it(review: Review) -> None:
    work(review)
    (chosen,) = (each for each in review.changes() if each.path == b"new/dir/f")
    assert review.apply(chosen=[chosen]).changed == 3
    assert stat.S_IMODE((review.project / "new/dir").stat().st_mode) == 0o750
    assert (review.project / "a").read_text() == "old a", "the control: no other change was chosen"
    review.undo()
    assert not (review.project / "new").exists()


def test_undo_keeps_what_the_host_changed_since(review: Review) -> None:
    work(review)
    review.apply()
    review.write(a="host's a", new__dir__more="more")
    undone = review.undo()
    assert {os.fsdecode(path) for path, _ in undone.conflicts} == {"a", "new", "new/dir"}
    assert (review.project / "a").read_text() == "host's a"
    assert (review.project / "gone").read_text() == "gone", "the control: the rest is undone"
    review.write(a="new a")
    (review.project / "new/dir/more").unlink()
    assert review.undo().conflicts == [], "what is left can be undone later"
    assert (review.project / "a").read_text() == "old a"


def test_set_id_bits_never_arrive(review: Review) -> None:
    review.write(a="a", b="b")
    (review.project / "b").chmod(0o4755)
    review.refresh()
    assert stat.S_IMODE((review.tree / "b").stat().st_mode) == 0o755
    (review.tree / "a").chmod(0o4755)
    (review.tree / "c").write_text("c")
    (review.tree / "c").chmod(0o6755)
    assert {each.path: each.new.mode for each in review.changes() if each.new} == {b"a": 0o4755, b"c": 0o6755}
    assert review.apply().conflicts == []
    modes = {name: stat.S_IMODE((review.project / name).stat().st_mode) for name in "abc"}
    assert modes == {"a": 0o755, "b": 0o4755, "c": 0o755}


def test_another_directory_in_the_place_of_the_project_is_not_changed(review: Review, tmp_path: Path) -> None:
    work(review)
    review.project.rename(tmp_path / "moved")
    review.project.mkdir()
    with pytest.raises(HostError, match="another directory"):
        review.apply()
    with pytest.raises(HostError, match="another directory"):
        review.refresh()
    assert contents(review.project) == {}


def test_what_changed_after_it_was_looked_at_is_not_applied(review: Review) -> None:
    work(review)
    found = review.changes()
    (review.tree / "a").write_text("changed after the review")
    (review.tree / "new/dir/f").unlink()
    applied = review.apply(chosen=found)
    assert {os.fsdecode(path) for path, _ in applied.conflicts} == {"a", "new/dir/f"}
    assert (review.project / "a").read_text() == "old a"


def test_a_file_that_a_host_program_has_open_for_writing_is_not_replaced(review: Review) -> None:
    review.write(a="old", b="old")
    review.refresh()
    (review.tree / "a").write_text("new")
    (review.tree / "b").unlink()
    with (review.project / "a").open("r+") as one, (review.project / "b").open("a") as other:
        assert {path for path, _ in review.apply().conflicts} == {b"a", b"b"}
        one.write("edited")
        other.write(" and more")
    assert (review.project / "a").read_text() == "edited"
    assert (review.project / "b").read_text() == "old and more"
    assert sorted(contents(review.project)) == ["a", "b"]
    assert {path for path, _ in review.apply(2).conflicts} == {b"a", b"b"}


def test_old_runs_are_forgotten(review: Review, monkeypatch: pytest.MonkeyPatch) -> None:
    review.write(a="0")
    review.refresh()
    for number in range(1, 24):
        (review.tree / "a").write_text(str(number))
        review.apply(number)
    assert [each.number for each in applied_runs(review.workspace)] == list(range(4, 24))
    monkeypatch.setattr("sandwright.workspace.journal.MOST_BYTES", 4)
    (review.tree / "a").write_text("24")
    review.apply(24)
    assert [each.number for each in applied_runs(review.workspace)] == [23, 24]
