"""Changes that are listed while a run works in the copy: all files are read unchanged, and none is written.

Tests of workspace/running.py.
Tests of workspace/links.py: links are followed in the copy only.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sandwright.errors import HostError
from sandwright.questions import EntryKind
from sandwright.workspace import below, diff, running
from sandwright.workspace import changes as compared
from sandwright.workspace.base import read_base
from sandwright.workspace.changes import Change
from sandwright.workspace.links import ProjectLinks, RunningLinks
from sandwright.workspace.running import running_changes
from support.workspaces import Review, review, work
from workspace.test_workspace_modes import owned

__all__ = ["owned", "review"]


def _running(place: Review) -> list[Change]:
    return running_changes(place.workspace, read_base(place.workspace))


def _seen(found: list[Change]) -> list[tuple[bytes, str, EntryKind | None, int | None]]:
    return [(e.path, e.kind, e.new and e.new.kind, e.new.size if e.new else None) for e in found]


def _modes(root: Path) -> dict[Path, int]:
    return {each: each.lstat().st_mode for each in (root, *root.rglob("*"))}


def test_they_are_those_after_the_run(review: Review) -> None:
    work(review)
    assert _seen(_running(review)) == _seen(review.changes())
    assert len(_running(review)) > 5


def test_a_diff_is_that_after_the_run(review: Review) -> None:
    work(review)
    found = _running(review)
    shown = [diff.diff_running(review.workspace, each) for each in found]
    assert shown == [diff.diff_change(review.workspace, each) for each in review.changes()]
    assert b"+new a\n" in b"".join(line for lines in shown for line in lines).replace(b"\\ No", b"")


def test_an_edit_of_the_host_is_not_shown(review: Review) -> None:
    """The run can read the project as it was copied, not as its owner edits it now."""
    work(review)
    review.write(a="a secret of the host")
    (change,) = (each for each in _running(review) if each.path == b"a")
    shown = b"".join(diff.diff_running(review.workspace, change))
    assert b"secret" not in shown
    assert b"was changed since it was copied" in shown
    assert b"secret" in b"".join(diff.diff_change(review.workspace, change))


@pytest.mark.parametrize("mode", [0, 0o200, 0o400])
def test_no_mode_is_changed(owned: Review, mode: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """`changes` opens closed modes; programs that work there could exchange the paths meanwhile."""
    (owned.tree / "a").write_text("b")
    (owned.tree / "a").chmod(mode & 0o377)
    (owned.tree / "deep").chmod(mode)
    called: list[object] = []
    monkeypatch.setattr(Path, "chmod", lambda *arguments: called.append(arguments))
    found = {each.path: each for each in _running(owned)}
    monkeypatch.undo()
    assert called == []
    assert found[b"deep"].new
    assert "Permission denied" in found[b"deep"].new.problem
    assert b"deep/er" not in found


def test_a_closed_copy_can_not_be_listed(owned: Review) -> None:
    owned.tree.chmod(0)
    with pytest.raises(HostError, match="Permission denied"):
        _running(owned)
    assert owned.tree.stat().st_mode & 0o777 == 0
    owned.tree.chmod(0o700)


def test_only_files_of_the_same_size_are_read(review: Review, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sparse file takes no time, whatever its length."""
    review.write(same="1234", longer="1234")
    review.refresh()
    (review.tree / "same").write_text("1235")
    (review.tree / "longer").write_text("12345")
    with (review.tree / "sparse").open("wb") as file:
        file.truncate(1 << 35)
    read: list[int] = []
    digest = running._digest_of

    def noted(fd: int, size: int) -> str:
        read.append(size)
        return digest(fd, size)

    monkeypatch.setattr(running, "_digest_of", noted)
    assert [(each.path, each.kind) for each in _running(review)] == [
        (b"longer", "changed"), (b"same", "changed"), (b"sparse", "added"),
    ]  # fmt: skip
    assert read == [4]


def test_a_file_that_grows_while_it_is_read_has_changed(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"12345")
    with file.open("rb") as opened:
        assert running._digest_of(opened.fileno(), 4) == ""


def test_a_placeholder_of_the_launcher_is_no_change(review: Review) -> None:
    review.write(a="a")
    review.refresh()
    (review.tree / ".vscode").mkdir()
    (review.tree / ".vscode").chmod(0o1555)
    (review.tree / "config").write_bytes(b"")
    (review.tree / "config").chmod(0o444)
    assert _running(review) == []


def _exchange(root: Path, victim: Path) -> None:
    """One round: a directory becomes a link, a file and a FIFO, and disappears."""
    path, aside = root / "deep", root / "aside"
    path.rename(aside)
    path.symlink_to(victim)
    path.unlink()
    path.write_text("file")
    path.unlink()
    os.mkfifo(path)
    path.unlink()
    aside.rename(path)
    (path / "gone").write_text("x")
    (path / "gone").unlink()


def test_races_leave_neither_the_copy_nor_an_error(review: Review, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "secret").write_text("secret")
    review.write(deep__f="f", a="a")
    review.refresh()
    ended = threading.Event()

    def exchange() -> None:
        while not ended.is_set():
            _exchange(review.tree, victim)

    thread = threading.Thread(target=exchange)
    thread.start()
    until, kinds, count = time.monotonic() + 3, set(), 0
    try:
        while time.monotonic() < until:
            for each in _running(review):
                kinds.add(each.kind)
                assert b"secret" not in each.path
                assert b"secret" not in b"".join(diff.diff_running(review.workspace, each))
            count += 1
    finally:
        ended.set()
        thread.join()
    assert count > 50
    assert len(kinds) > 1
    assert _running(review) == []


def _links(place: Review, *, alive: bool) -> dict[bytes, bytes | None]:
    base, found = read_base(place.workspace), place.changes()
    if not alive:
        return dict(ProjectLinks(place.workspace, base, found))
    tree = os.open(place.workspace.tree, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return dict(RunningLinks(place.workspace, base, found, tree))
    finally:
        os.close(tree)


INSIDE: list[Callable[[Path], str]] = [
    lambda _: "env",
    lambda _: "./env/../env/sub",
    lambda project: f"{project}/env",
    lambda _: "other/x",
    lambda _: "absent/../env",
    lambda _: "/etc/passwd",
    lambda _: "../..",
    lambda _: "loop",
]


@pytest.mark.parametrize("text", INSIDE, ids=range(len(INSIDE)))
def test_links_in_the_copy_lead_where_they_will(review: Review, text: Callable[[Path], str]) -> None:
    review.write(env__sub__f="f")
    (review.project / "other").symlink_to("env")
    review.refresh()
    (review.tree / "loop").symlink_to("loop")
    (review.tree / "new").symlink_to(text(review.project))
    now, then = (_links(review, alive=alive)[b"new"] for alive in (True, False))
    assert now == then or text(review.project) == "loop"


def test_no_link_is_followed_out_of_the_copy(review: Review, tmp_path: Path) -> None:
    """A program must not learn the targets of the host's links."""
    (tmp_path / "hidden").symlink_to(review.project / "env")
    review.write(env__f="f")
    review.refresh()
    (review.tree / "new").symlink_to(tmp_path / "hidden")
    assert _links(review, alive=False)[b"new"] == b"env"
    assert _links(review, alive=True)[b"new"] is None


def test_what_vanishes_during_a_walk_is_gone(review: Review, monkeypatch: pytest.MonkeyPatch) -> None:
    review.write(a="a", d__f="f")
    review.refresh()
    look = below.status_at

    def vanish(parent: int, name: str) -> os.stat_result | None:
        (review.tree / "d/f").unlink(missing_ok=True)
        (review.tree / "d").rmdir()
        return look(parent, name)

    monkeypatch.setattr(compared, "status_at", vanish)
    assert [(each.path, each.kind) for each in _running(review)] == [(b"d", "deleted"), (b"d/f", "deleted")]
