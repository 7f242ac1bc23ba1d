"""A project is copied into a workspace; later changes of the project follow, beside a run's changes.

Tests of workspace/copying.py.
Tests of workspace/filecopy.py.
Tests of workspace/scan.py.
Tests of workspace/base.py.
"""

from __future__ import annotations

import os
import socket
import stat
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from sandwright.errors import HostError
from sandwright.workspace import filecopy
from sandwright.workspace.base import Base, Entry, parse_base, read_base
from sandwright.workspace.changes import NewEntry, changes, look_at
from sandwright.workspace.store import remove
from support.workspaces import Review, contents, review, work

__all__ = ["review"]


def test_the_copy_is_the_project(review: Review) -> None:
    review.write(a="a", deep__dir__b="b", readonly__c="c")
    (review.project / "a").chmod(0o754)
    (review.project / "out").symlink_to("/etc/passwd")
    (review.project / "readonly").chmod(0o555)
    os.utime(review.project / "deep", ns=(0, 10**18))
    os.utime(review.project / "a", ns=(0, 10**18 + 7))
    refreshed = review.refresh()
    assert (refreshed.left_out, refreshed.conflicts, refreshed.size) == ([], [], 14)
    assert contents(review.tree) == contents(review.project)
    assert (review.tree / "deep").stat().st_mtime_ns == 10**18
    assert (review.tree / "a").stat().st_mtime_ns == 10**18 + 7
    assert (review.tree / "a").stat().st_ino != (review.project / "a").stat().st_ino
    assert review.changes() == []


def test_an_unchanged_project_costs_no_copy(review: Review) -> None:
    work(review)
    before = read_base(review.workspace).to_bytes()
    assert review.refresh().copied == 0
    assert read_base(review.workspace).to_bytes() == before


def test_what_changes_on_the_host_comes_after(review: Review) -> None:
    review.write(a="a", b="b", gone="gone", old__f="f", file="x", folder__f="f", ro__a="a")
    (review.project / "ro").chmod(0o555)
    review.refresh()
    (review.project / "ro").chmod(0o755)
    review.write(a="a new", new__f="f", ro__b="b")
    (review.project / "ro").chmod(0o555)
    (review.project / "gone").unlink()
    (review.project / "old/f").unlink()
    (review.project / "old").rmdir()
    (review.project / "b").chmod(0o700)
    (review.project / "file").unlink()
    (review.project / "file").mkdir()
    (review.project / "folder/f").unlink()
    (review.project / "folder").rmdir()
    (review.project / "folder").write_text("a file now")
    refreshed = review.refresh()
    assert refreshed.conflicts == []
    assert contents(review.tree) == contents(review.project)
    assert review.changes() == []


def test_what_a_run_changed_stays(review: Review) -> None:
    review.write(a="a", b="b", c="c", d__f="f", gone="gone")
    review.refresh()
    for name in "ab":
        (review.tree / name).write_text(f"run's {name}")
    (review.tree / "new").write_text("run's new")
    (review.tree / "d/f").unlink()
    (review.tree / "d").rmdir()
    (review.tree / "gone").write_text("run's gone")
    kinds = review.kinds()
    review.write(a="host's a", c="host's c", new="host's new", d__g="host's g")
    (review.project / "gone").unlink()
    refreshed = review.refresh()
    assert sorted(refreshed.conflicts) == [b"a", b"d/g", b"gone", b"new"]
    assert (review.tree / "a").read_text() == "run's a"
    assert (review.tree / "c").read_text() == "host's c", "the control: what the run left alone"
    assert review.kinds() == kinds
    assert {path for path, _ in review.apply().conflicts} == {b"a", b"d", b"gone", b"new"}
    assert (review.project / "b").read_text() == "run's b"
    assert (review.project / "a").read_text() == "host's a"


def test_the_same_change_on_both_sides_is_none(review: Review) -> None:
    review.write(a="a", b="b")
    review.refresh()
    for root in (review.tree, review.project):
        (root / "a").write_text("the same")
        (root / "new").mkdir(mode=0o700 if root is review.tree else 0o755)
        (root / "new/f").write_text("f")
        (root / "b").unlink()
    assert review.refresh().conflicts == []
    assert review.changes() == []
    assert contents(review.tree) == contents(review.project)


def test_new_files_of_the_copy_are_not_read(review: Review, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start and the count at the end of a run take no longer with large new files."""
    review.write(a="a", b="b")
    review.refresh()
    read = []

    def look(directory: int, name: bytes, status: os.stat_result) -> NewEntry:
        read.append(name)
        return look_at(directory, name, status)

    for name in ("a", "new", "both"):
        (review.tree / name).write_text("inside")
    review.write(both="inside")
    with monkeypatch.context() as patch:
        for module in ("changes", "copying"):
            patch.setattr(f"sandwright.workspace.{module}.look_at", look)
        found = changes(review.workspace, reads_new=False)
        assert [(each.path, each.kind) for each in found] == [
            (b"a", "changed"),
            (b"both", "added"),
            (b"new", "added"),
        ]
        assert read == [b"a"]
        assert review.refresh().conflicts == []
        assert read == [b"a", b"a", b"both"], "both: the project made it, too"
    assert review.kinds() == {"a": "changed", "new": "added"}


def test_hidden_paths_are_not_copied_and_go(review: Review) -> None:
    review.write(a="a", secrets__key="key", later__f="f")
    review.hidden = {"secrets"}
    assert review.refresh().left_out == []
    assert sorted(contents(review.tree)) == ["a", "later", "later/f"]
    (review.tree / "later/f").write_text("changed")
    (review.tree / "later/g").write_text("new")
    (review.tree / "secrets").write_text("made by a run")
    review.hidden = {"secrets", "later"}
    review.refresh()
    assert sorted(contents(review.tree)) == ["a"]
    assert review.changes() == []
    assert sorted(contents(review.project)) == ["a", "later", "later/f", "secrets", "secrets/key"]
    review.hidden = set()
    review.refresh()
    assert contents(review.tree) == contents(review.project), "the control: it comes back"


def test_what_is_no_file_is_left_out_with_a_reason(review: Review) -> None:
    review.write(a="a")
    os.mkfifo(review.project / "pipe")
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(review.project / "socket"))
    if os.geteuid() == 0:
        os.mknod(review.project / "device", stat.S_IFCHR | 0o600, os.makedev(1, 3))
    reasons = dict(review.refresh().left_out)
    assert reasons.pop(b"device", "it is a device") == "it is a device"
    assert reasons == {b"pipe": "it is a fifo", b"socket": "it is a socket"}
    assert sorted(contents(review.tree)) == ["a"]
    assert review.refresh().conflicts == []


def test_files_with_names_elsewhere_are_counted(review: Review) -> None:
    review.write(a="a", b="b", inner="i")
    (review.project.parent / "elsewhere").hardlink_to(review.project / "a")
    (review.project / "inner2").hardlink_to(review.project / "inner")
    assert review.refresh().linked == 1
    assert review.refresh().linked == 1


def test_set_id_bits_and_holes_are_not_copied(review: Review) -> None:
    with (review.project / "sparse").open("wb") as file:
        file.truncate(1 << 30)
        file.seek(1 << 20)
        file.write(b"data")
    (review.project / "sparse").chmod(0o6755)
    review.refresh()
    status = (review.tree / "sparse").stat()
    assert (stat.S_IMODE(status.st_mode), status.st_size) == (0o755, 1 << 30)
    assert status.st_blocks * 512 < 4 << 20
    assert review.changes() == []


def test_a_file_that_is_written_meanwhile_is_copied_whole(review: Review) -> None:
    """For a while a writer replaces all of its content, in place: the copy is one of its states."""
    path, ended = review.project / "a", threading.Event()
    path.write_bytes(b"0" * 300_000)

    def write() -> None:
        for number in range(1, 30):
            with path.open("r+b") as file:
                for _ in range(3):
                    file.write(bytes([48 + number]) * 100_000)
            time.sleep(0.03)
        ended.set()

    thread = threading.Thread(target=write)
    thread.start()
    tries = 0
    while not ended.is_set():
        remove(review.workspace)
        review.refresh()
        tries += 1
        assert len(set((review.tree / "a").read_bytes())) == 1
    thread.join()
    assert tries > 3


def test_a_file_that_never_rests_is_an_error(review: Review, monkeypatch: pytest.MonkeyPatch) -> None:
    review.write(a="a", restless="b")
    original = filecopy.copy_content

    def copy_content(*arguments: Any) -> str:
        digest = original(*arguments)
        with (review.project / "restless").open("a") as file:
            file.write("c")
        return digest

    with monkeypatch.context() as patch:
        patch.setattr("sandwright.workspace.filecopy.copy_content", copy_content)
        with pytest.raises(HostError, match="'restless' changes all the time"):
            review.refresh()
    review.refresh()
    assert contents(review.tree) == contents(review.project)


def test_a_base_is_read_as_it_was_written_or_refused(review: Review) -> None:
    base = Base((1, (1 << 64) - 1))
    entry = Entry("file", 0o755, 7, "ab" * 32, (1, 2, 3, -4, 5), ((1 << 64) - 1, 7, 8, 9, 10))
    base[b"a\xff\n"] = entry
    base[b"d"] = Entry("directory", 0o1777, 0, "")
    data = base.to_bytes()
    found = parse_base(data)
    assert (found.root, {path: found[path] for path in found}) == (
        base.root,
        {b"a\xff\n": entry, b"d": Entry("directory", 0o1777, 0, "")},
    )
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 1
        if 18 <= at < 34:
            assert parse_base(bytes(damaged)).root != base.root, "the project is another one, then"
            continue
        with pytest.raises(ValueError, match=r"damaged|version"):
            parse_base(bytes(damaged))
    for end in range(len(data)):
        with pytest.raises(ValueError, match=r"damaged|version"):
            parse_base(data[:end])


def test_a_damaged_base_says_what_to_do(review: Review) -> None:
    review.write(a="a")
    review.refresh()
    Path(review.workspace.base).write_bytes(b"x")
    with pytest.raises(HostError, match="discard the workspace main"):
        review.changes()
