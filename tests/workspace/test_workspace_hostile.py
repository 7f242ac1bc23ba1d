"""Trees by a hostile program: none of its paths outside is followed, opened or written.

Tests of workspace/below.py.
Tests of workspace/changes.py.
Tests of workspace/destination.py.
Tests of workspace/scan.py.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sandwright.errors import HostError, UsageError
from sandwright.workspace import below
from sandwright.workspace.base import Entry
from sandwright.workspace.changes import Change, NewEntry
from sandwright.workspace.diff import diff_change
from sandwright.workspace.store import list_workspaces, remove
from support.workspaces import Review, contents, review

__all__ = ["review"]

ROOT = os.geteuid() == 0


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A directory outside that must stay unchanged."""
    path = tmp_path / "victim"
    path.mkdir()
    (path / "secret").write_text("secret")
    return path


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        folder = os.open(path.parent, os.O_RDONLY)
        made.bind(f"/proc/self/fd/{folder}/{path.name}")
        os.close(folder)


def _zero(path: Path) -> None:
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))


def _whiteout(path: Path) -> None:
    os.mknod(path, stat.S_IFCHR, 0)


def _block(path: Path) -> None:
    os.mknod(path, stat.S_IFBLK | 0o666, os.makedev(7, 0))


def _huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 42)


SPECIAL: list[tuple[Callable[[Path], None], str]] = [
    (_fifo, "fifo"),
    (_socket, "socket"),
    (_huge, "larger"),
    *(((_zero, "device"), (_whiteout, "device"), (_block, "device")) if ROOT else ()),
]


@pytest.mark.parametrize(("make", "what"), SPECIAL, ids=[each.__name__.strip("_") for each, _ in SPECIAL])
@pytest.mark.parametrize("replaces", [False, True], ids=["new", "old"])
def test_what_is_no_file_is_named_and_never_applied(
    review: Review, make: Callable[[Path], None], what: str, replaces: bool
) -> None:
    review.write(a="a")
    review.refresh()
    name = "a" if replaces else "b"
    (review.tree / name).unlink(missing_ok=True)
    make(review.tree / name)
    (change,) = review.changes()
    assert change.new
    assert what in (change.new.kind, *change.new.problem.split())
    applied = review.apply()
    assert [path for path, _ in applied.conflicts] == [name.encode()]
    assert contents(review.project)["a"][1] == b"a"
    assert len(contents(review.project)) == 1
    assert diff_change(review.workspace, change)[0] == f"diff a/{name} b/{name}\n".encode()
    assert review.undo().changed == 0


def test_links_are_compared_and_made_and_never_followed(review: Review, victim: Path) -> None:
    review.write(a="a", d__f="f")
    review.refresh()
    tree = review.tree
    (tree / "a").unlink()
    (tree / "a").symlink_to(victim / "secret")
    (tree / "d/f").unlink()
    (tree / "d").rmdir()
    (tree / "d").symlink_to(victim)
    (tree / "loop").symlink_to("loop")
    changes = {each.path: each for each in review.changes()}
    assert {path: each.new and each.new.link for path, each in changes.items()} == {
        b"a": os.fsencode(victim / "secret"),
        b"d": os.fsencode(victim),
        b"d/f": None,
        b"loop": b"loop",
    }
    assert b"secret" not in b"".join(diff_change(review.workspace, changes[b"a"])[3:-1]).replace(
        os.fsencode(victim / "secret"), b""
    )
    assert review.apply().conflicts == []
    assert contents(review.project) == contents(tree)
    # The project now has a link: no file is written through it.
    forged = Change(b"d/secret", "added", None, NewEntry("file", 0o644, 1, digest="00" * 32))
    assert [path for path, _ in review.apply(2, chosen=[forged]).conflicts] == [b"d/secret"]
    assert (victim / "secret").read_text() == "secret"
    assert list(victim.iterdir()) == [victim / "secret"]
    review.undo(1)
    assert (review.project / "d/f").read_text() == "f"


@pytest.mark.parametrize(
    "path",
    [b"../victim/secret", b"/etc/x", b"d/../../victim/secret", b"..", b".", b"", b"d/", b"d/.", b"d/.."],
)
def test_a_forged_path_leads_nowhere(review: Review, victim: Path, path: bytes) -> None:
    review.write(d__f="f")
    review.refresh()
    before = contents(review.project)
    (review.tree / "x").write_text("x")
    entry = NewEntry("file", 0o644, 1, digest=below.text_digest(b"x"))
    assert review.apply(chosen=[Change(path, "added", None, entry)]).changed == 0
    kinds = (Entry("directory", 0o755, 0, ""), Entry("file", 0o644, 6, below.text_digest(b"secret")))
    assert review.apply(2, chosen=[Change(path, "deleted", each, None) for each in kinds]).changed == 0
    assert contents(review.project) == before
    assert list(victim.iterdir()) == [victim / "secret"]


def test_odd_names_arrive_as_they_are(review: Review) -> None:
    review.refresh()
    names = [
        b"\xff\xfe",
        b"a\nb",
        b"\x1b[2J",
        b"x" * 255,
        "ä".encode(),
        "a\u0308".encode(),
        b"-rf",
        b" ",
        b"A",
        b"a",
    ]
    root = os.fsencode(review.tree)
    for name in names:
        Path(os.fsdecode(root + b"/" + name)).write_bytes(name)
    assert sorted(each.path for each in review.changes()) == sorted(names)
    assert review.apply().conflicts == []
    assert sorted(map(os.fsencode, contents(review.project))) == sorted(names)
    assert review.undo().conflicts == []
    assert contents(review.project) == {}


def test_directories_are_nested_without_end(review: Review) -> None:
    """A tree that is too deep is reported at its limit; the part above arrives; all of it can be removed."""
    review.refresh()
    fd = os.open(review.tree, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=fd)
        inner = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.close(fd)
    found = review.changes()
    assert len(found) == below.DEEPEST + 1
    assert found[-1].new
    assert found[-1].new.problem == f"it is deeper than {below.DEEPEST} directories"
    applied = review.apply(chosen=found[:-1])
    assert (applied.changed, applied.conflicts) == (below.DEEPEST, [])
    assert review.refresh().conflicts == []
    assert list_workspaces()
    review.undo()
    assert contents(review.project) == {}
    remove(review.workspace)


def test_closed_files_and_directories_are_read_and_stay_closed(review: Review) -> None:
    review.write(a="a", d__f="f")
    review.refresh()
    (review.tree / "a").write_text("new")
    (review.tree / "a").chmod(0)
    (review.tree / "d/g").write_text("g")
    (review.tree / "d").chmod(0)
    assert review.kinds() == {"a": "changed", "d": "mode", "d/g": "added"}
    assert stat.S_IMODE((review.tree / "d").stat().st_mode) == 0
    files = [each for each in review.changes() if each.path != b"d"]
    assert dict(review.apply(chosen=files).conflicts).keys() == (set() if ROOT else {b"d/g"})
    assert stat.S_IMODE((review.project / "a").stat().st_mode) == 0
    (review.project / "a").chmod(0o600)
    assert (review.project / "a").read_text() == "new"
    (review.tree / "d").chmod(0o400)
    assert review.kinds()["d"] == "mode"
    assert stat.S_IMODE((review.tree / "d").stat().st_mode) == 0o400
    (review.tree / "d").chmod(0o700)
    assert review.apply(2).conflicts == []
    assert (review.project / "d/g").read_text() == "g"


def test_hard_links_become_files(review: Review, victim: Path) -> None:
    """A second name in the copy is a second file in the project; names outside don't belong to the copy."""
    review.write(a="a", b="b")
    os.link(review.project / "b", victim / "name of b")
    review.refresh()
    (review.tree / "b").write_text("new b")
    assert (victim / "name of b").read_text() == "b"
    os.link(review.tree / "a", review.tree / "c")
    assert review.kinds() == {"b": "changed", "c": "added"}
    review.apply()
    assert (victim / "name of b").read_text() == "b"
    assert (review.project / "c").stat().st_nlink == 1


def _exchange(root: Path, victim: Path, ended: threading.Event) -> None:
    """Exchange a directory for a link and back, and write in it, until the end."""
    while not ended.is_set():
        with contextlib.suppress(OSError):
            (root / "d").rename(root / "real")
            (root / "d").symlink_to(victim)
            folder = os.open(root / "real", os.O_DIRECTORY | os.O_NOFOLLOW)  # `victim`'s content isn't ours
            try:
                fd = os.open("5", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, dir_fd=folder)
                with os.fdopen(fd, "w") as file:
                    file.write(os.urandom(4).hex())
            finally:
                os.close(folder)
            (root / "d").unlink()
            (root / "real").rename(root / "d")


def test_a_directory_that_is_exchanged_for_a_link_is_never_passed(review: Review, victim: Path) -> None:
    """This happens in the copy and the project at once, during comparison, copy, apply and undo."""
    review.write(**{f"d__{number}": "x" for number in range(20)}, d__secret="mine")
    review.refresh()
    before, ended = contents(victim), threading.Event()
    roots = review.tree, review.project
    threads = [threading.Thread(target=_exchange, args=(root, victim, ended)) for root in roots]
    for thread in threads:
        thread.start()
    until, count = time.monotonic() + 4, 0
    try:
        while time.monotonic() < until:
            for action in (review.refresh, lambda: review.apply(1), lambda: review.undo(1)):
                with contextlib.suppress(HostError, UsageError):
                    action()
                    count += 1
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert count > 10
    assert contents(victim) == before
    secrets = [path for root in roots for path in root.rglob("secret") if not path.parent.is_symlink()]
    assert {path.read_bytes() for path in secrets} <= {b"mine"}, "nothing came from outside"


def test_a_placeholder_of_a_launcher_is_not_copied(review: Review) -> None:
    review.write(a="a")
    for name, mode in (("held", 0o1555), ("own", 0o755)):
        (review.project / name).mkdir()
        (review.project / name).chmod(mode)
    review.refresh()
    assert sorted(each.name for each in review.tree.iterdir()) == ["a", "own"]


def test_what_looks_like_a_placeholder_is_a_change(review: Review) -> None:
    """A program makes such files, too: an empty directory that is not writable, and Git's files."""
    review.write(a="a")
    review.refresh()
    (review.tree / ".mcp.json").mkdir()
    (review.tree / "config").write_text(".\n")
    for name, mode in ((".mcp.json", 0o1555), ("config", 0o444)):
        (review.tree / name).chmod(mode)
    assert review.kinds() == {".mcp.json": "added", "config": "added"}


def test_a_copy_with_too_many_names_is_refused(review: Review, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandwright.workspace.changes.MOST", 10)
    review.refresh()
    for number in range(11):
        (review.tree / str(number)).touch()
    with pytest.raises(HostError, match="more than 10 files"):
        review.changes()
