"""The directories of workspaces, their list and their locks; another name is another workspace.

Tests of workspace/store.py.
"""

from __future__ import annotations

import fcntl
import os
import stat
from pathlib import Path

import pytest

from sandwright.errors import HostError, UsageError
from sandwright.workspace.store import exists, list_workspaces, locked, make, remove, workspace_of
from support.workspaces import Review, contents, review

__all__ = ["review"]


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "A", "-a", ".a", "a\n", "a b", "ä", "a" * 65])
def test_a_bad_name_is_refused(review: Review, name: str) -> None:
    with pytest.raises(UsageError, match="no name of a workspace"):
        workspace_of("/p", name)


def test_it_is_below_the_home_and_closed(review: Review, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(variable, "/elsewhere")
    make(review.workspace)
    directory = Path(review.workspace.directory)
    assert directory.parent.parent == Path(os.environ["HOME"], ".local/state/sandwright/workspaces")
    assert (len(directory.parent.name), directory.name) == (16, "main")
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_workspaces_are_side_by_side(review: Review, tmp_path: Path) -> None:
    review.write(a="a" * 100_000)
    other = Review(tmp_path, "other.1")
    assert (exists(review.workspace), list_workspaces()) == (False, [])
    review.refresh()
    other.refresh()
    (other.tree / "a").unlink()
    found = list_workspaces()
    assert [(each.project, each.name) for each in found] == [
        (str(review.project), "main"),
        (str(review.project), "other.1"),
    ]
    assert found[0].bytes > 100_000 > found[1].bytes
    assert all(0 <= each.age < 60 for each in found)
    assert review.changes() == []
    remove(other.workspace)
    assert [each.name for each in list_workspaces()] == ["main"]
    remove(other.workspace)
    remove(review.workspace)
    assert not Path(review.workspace.directory).parent.exists()
    assert sorted(contents(review.project)) == ["a"]


def _refusal(review: Review, *, exclusive: bool) -> str:
    with pytest.raises(UsageError) as error, locked(review.workspace, exclusive=exclusive):
        pass
    return str(error.value)


def test_one_run_at_a_time_or_several_readers(review: Review) -> None:
    with locked(review.workspace, exclusive=True):
        for exclusive in (True, False):
            assert f"workspace main of {review.project} is in use" in _refusal(review, exclusive=exclusive)
        with locked(workspace_of(str(review.project), "other"), exclusive=True):
            pass
    with locked(review.workspace, exclusive=False), locked(review.workspace, exclusive=False):
        assert _refusal(review, exclusive=True)
    with locked(review.workspace, exclusive=True):
        remove(review.workspace)
        with locked(review.workspace, exclusive=True):
            assert exists(review.workspace), "a removed one is made again, with another lock"
    remove(workspace_of(str(review.project), "other"))


def test_a_removed_directory_is_no_lock(review: Review, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last holder removes it while another process waits for it."""
    make(review.workspace)
    original = fcntl.flock
    removed: list[bool] = []

    def flock(descriptor: int, how: int) -> None:
        if not removed:
            remove(review.workspace)
            removed.append(True)
        original(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    with locked(review.workspace, exclusive=True):
        assert _refusal(review, exclusive=True)


def test_a_link_in_its_place_is_refused(review: Review, tmp_path: Path) -> None:
    make(review.workspace)
    remove(review.workspace)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    folder = Path(review.workspace.directory)
    folder.parent.mkdir()
    folder.symlink_to(elsewhere)
    with pytest.raises(HostError, match="not a directory of this user"):
        make(review.workspace)
    assert contents(elsewhere) == {}
    folder.unlink()
