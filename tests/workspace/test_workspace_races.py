"""No write of a host program is lost while changes are applied or undone.

Tests of workspace/replacing.py.
Tests of workspace/exchange.py.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sandwright.workspace import replacing as replacing_module
from sandwright.workspace.destination import PART, Applied
from sandwright.workspace.store import remove
from support import hosteditor
from support.thorough import THOROUGH
from support.workspaces import Review, review

__all__ = ["review"]

ROUNDS = 10_000 if THOROUGH else 500
STYLES = ("truncate", "rename", "append", "slow", "backup")


class Editor:
    """The running program."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, hosteditor.__file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def begin(self, path: Path, edits: list[tuple[str, str, float]]) -> None:
        """Tell it to edit a file from now on."""
        assert self.process.stdin
        self.process.stdin.write(json.dumps({"path": str(path), "edits": edits}) + "\n")
        self.process.stdin.flush()

    def wait(self) -> None:
        """Wait until it is done."""
        assert self.process.stdout
        assert self.process.stdout.readline() == "done\n"


@pytest.fixture
def editor() -> Iterator[Editor]:
    found = Editor()
    yield found
    found.process.communicate(timeout=10)


def _edits(number: int) -> list[tuple[str, str, float]]:
    style = random.choice(STYLES)
    count = random.choice((1, 1, 2, 3))
    return [(style, f"<edit {number}.{each} {'x' * 50}>", random.random() * 0.004) for each in range(count)]


def _check_kept(review: Review, edits: list[tuple[str, str, float]], before: list[str]) -> None:
    """The last edit is in the file; every text is at the end of it, or of a version beside it."""
    versions = [
        path.read_text() for path in review.project.iterdir() if path.name.startswith(("a", PART.decode()))
    ]
    now = (review.project / "a").read_text()
    style, last, _ = edits[-1]
    if style != "append":
        assert now == last, (edits, now, versions)
        return
    assert now.endswith(last), (edits, now, versions)
    assert all(any(text in each for each in versions) for _, text, _ in edits), (edits, versions)
    rest = now
    for _, text, _ in edits:
        rest = rest.replace(text, "")
    assert rest in before, (edits, now)


def _clear(project: Path) -> None:
    for path in project.iterdir():
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()


@pytest.mark.slow
@pytest.mark.parametrize("what", ["change", "deletion", "addition", "undo"])
def test_no_edit_of_the_host_is_lost(review: Review, editor: Editor, what: str) -> None:
    outcomes: Counter[bool] = Counter()
    for number in range(ROUNDS // 4):
        _clear(review.project)
        if what != "addition":
            (review.project / "a").write_text(f"old {number}")
        review.refresh()
        (review.tree / "a").unlink(missing_ok=True)
        if what != "deletion":
            (review.tree / "a").write_text(f"new {number}")
        chosen = review.changes()
        if what == "undo":
            review.apply(1)
        edits = _edits(number)
        editor.begin(review.project / "a", edits)
        applied: Applied = review.undo(1) if what == "undo" else review.apply(1, chosen=chosen)
        editor.wait()
        outcomes[bool(applied.conflicts)] += 1
        _check_kept(review, edits, [f"old {number}", f"new {number}", ""])
        remove(review.workspace)
    assert outcomes[True], "the control: some edits came first"
    assert outcomes[False], "the control: some edits came after"


class _Replacing:
    """Replaces a name of the project right before the call with a descriptor for it."""

    def __init__(self, path: Path, replacement: str, at: int) -> None:
        self.path, self.replacement, self.at = path, replacement, at
        self.calls = 0

    def before(self, *words: object) -> None:
        if os.fsencode(self.path.name) not in words:
            return
        self.calls += 1
        if self.calls != self.at:
            return
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()
        if self.replacement == "a link":
            self.path.symlink_to("elsewhere")
        elif self.replacement == "a file":
            self.path.write_text("the host's")
        elif self.replacement == "a directory":
            self.path.mkdir()
        elif self.replacement == "a FIFO":
            os.mkfifo(self.path)

    def is_there(self) -> bool:
        kinds: dict[str, Callable[[], bool]] = {
            "nothing": lambda: not os.path.lexists(self.path),
            "a link": self.path.is_symlink,
            "a file": lambda: self.path.read_text() == "the host's",
            "a directory": self.path.is_dir,
            "a FIFO": self.path.is_fifo,
        }
        return kinds[self.replacement]()


def _before_calls(monkeypatch: pytest.MonkeyPatch, replacing: _Replacing) -> None:
    for module, names in (
        (os, ("stat", "open", "readlink", "link", "rename", "unlink", "mkdir", "rmdir")),
        (replacing_module, ("exchange", "rename_new")),
    ):
        for name in names:
            call = getattr(module, name)

            def replaced(*words: Any, _call: Any = call, **more: Any) -> Any:
                replacing.before(*words)
                return _call(*words, **more)

            monkeypatch.setattr(module, name, replaced)


@pytest.mark.parametrize("replacement", ["nothing", "a file", "a link", "a directory", "a FIFO"])
@pytest.mark.parametrize("kind", ["change", "mode", "deletion", "link", "undo"])
def test_a_path_that_is_replaced_at_any_moment_is_a_conflict(
    review: Review, kind: str, replacement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in itertools.count(1):
        host = _Replacing(review.project / "a", replacement, at)
        _prepare_change(review, kind)
        chosen = review.changes()
        with monkeypatch.context() as patched:
            _before_calls(patched, host)
            applied = review.undo(1) if kind == "undo" else review.apply(1, chosen=chosen)
        if host.calls < at:
            assert at > 3, "the control: nothing was replaced"
            assert not applied.conflicts
            return
        assert host.is_there(), (at, sorted(review.project.iterdir()))
        _clear(review.project)
        remove(review.workspace)


def _prepare_change(review: Review, kind: str) -> None:
    _clear(review.project)
    here, there = review.project / "a", review.tree / "a"
    if kind == "link":
        here.symlink_to("old")
    else:
        here.write_text("old")
    review.refresh()
    if kind == "mode":
        there.chmod(0o755)
        return
    there.unlink()
    if kind == "link":
        there.symlink_to("new")
    elif kind != "deletion":
        there.write_text("new")
    if kind == "undo":
        review.apply(1)
