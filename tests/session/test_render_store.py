"""The cache of renderings is bounded, and its directories share one copy of each native program.

Tests of session/render_store.py.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from sandwright import user_dirs
from sandwright.render.artifact import Artifact
from sandwright.session import render_store, state
from sandwright.session.render_store import store, sweep_renderings
from sandwright.session.session_record import SessionRecord

WAIT = 60
PROGRAM = b"\x7fELF" + b"x" * 1000


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return Path(user_dirs.private(user_dirs.cache()))


def _rendered(text: str, program: bytes = PROGRAM) -> list[Artifact]:
    return [
        Artifact("launch", program, "starts it", executable=True),
        Artifact("args", text.encode(), "arguments"),
    ]


def _inodes(paths: Iterable[Path]) -> set[int]:
    return {each.stat().st_ino for each in paths}


@pytest.mark.usefixtures("cache")
def test_one_copy_of_a_program() -> None:
    found = [store(_rendered(text)) for text in ("a", "b", "c")]
    assert len(_inodes(each / "launch" for each in found)) == 1
    assert len(_inodes(each / "args" for each in found)) == 3
    assert all((each / "launch").stat().st_mode & 0o111 for each in found)


def test_a_program_that_was_changed_is_shared_no_more(cache: Path) -> None:
    first = store(_rendered("a"))
    (first / "launch").write_bytes(b"\x7fELF another")
    second = store(_rendered("b"))
    assert (second / "launch").read_bytes() == PROGRAM
    assert store(_rendered("a")).joinpath("launch").read_bytes() == PROGRAM
    (shared,) = (cache / "programs").iterdir()
    shared.unlink()
    shared.symlink_to("/bin/sh")
    assert (store(_rendered("d")) / "launch").read_bytes() == PROGRAM


def _aged(paths: Iterable[Path]) -> None:
    for number, path in enumerate(paths):
        os.utime(path, (number + 1, number + 1))


@pytest.mark.usefixtures("cache")
def test_sessions_are_asked_only_where_something_may_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """A first run does not read each session's record for a few directories."""
    asked: list[str] = []

    def read_all() -> list[SessionRecord]:
        asked.append("records")
        return []

    monkeypatch.setattr(state, "read_all", read_all)
    monkeypatch.setattr(render_store, "MOST", 3)
    directories = [store(_rendered(str(number))) for number in range(3)]
    sweep_renderings(str(directories[0]))
    assert not asked
    store(_rendered("one more"))
    sweep_renderings(str(directories[0]))
    assert asked


def test_the_number_is_bounded(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render_store, "MOST", 3)
    found = [store(_rendered(str(number))) for number in range(8)]
    sweep_renderings("")
    assert all(each.exists() for each in found), "a session may be starting with each"
    _aged(found)
    sweep_renderings(str(found[0]))
    assert {each.name for each in (cache / "rendered").iterdir()} == {
        found[0].name,
        *(f.name for f in found[-3:]),
    }


@pytest.mark.parametrize(
    "name", ["0a.entry.1-1.part", "rendered/.part-0a", "rendered/.old-0a", "programs/.0a"]
)
def test_a_killed_process_leaves_nothing_for_long(cache: Path, name: str) -> None:
    store(_rendered("a"))
    left = cache / name
    left.touch()
    sweep_renderings("")
    assert left.exists(), "a process may be writing it"
    _aged([left])
    sweep_renderings("")
    assert not left.exists()


def test_the_size_is_bounded(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that directories share counts once, and is removed with the last of them."""
    monkeypatch.setattr(render_store, "MOST_BYTES", 10_000)
    found = [store(_rendered(str(number) * 4000)) for number in range(6)]
    _aged(found)
    sweep_renderings("")
    assert [each.exists() for each in found] == [False] * 4 + [True] * 2
    monkeypatch.setattr(render_store, "MOST_BYTES", 0)
    _aged([*found[-2:], *(cache / "programs").iterdir()])
    sweep_renderings("")
    assert list((cache / "rendered").iterdir()) == list((cache / "programs").iterdir()) == []


def test_another_process_makes_the_same_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other process makes it between the check of the parent and mkdir: no start may fail because of
    it."""
    path, mkdir = tmp_path / "home/.cache/sandwright/sessions", os.mkdir

    def raced(name: str, mode: int = 0o777) -> None:
        try:
            mkdir(name, mode)
        except FileNotFoundError:
            subprocess.run(["mkdir", "-p", path], check=True, timeout=WAIT)
            raise

    monkeypatch.setattr(os, "mkdir", raced)
    assert user_dirs.private(str(path)) == str(path)
    assert path.stat().st_mode & 0o777 == 0o700


@pytest.mark.usefixtures("cache")
def test_another_process_replaces_a_changed_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    directory, rename = store(_rendered("a")), Path.rename
    (directory / "args").write_text("changed")

    def raced(self: Path, target: Path) -> Path:
        if self == directory:
            rename(self, self.with_name(".old-another"))
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", raced)
    assert store(_rendered("a")) == directory
    assert (directory / "args").read_text() == "a"
