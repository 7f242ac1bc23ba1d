"""Nothing that a program of the host writes while changes are applied or undone is lost.

Tests of workspace/replacing.py.
Tests of workspace/exchange.py.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandwright.workspace.destination import PART, Applied
from sandwright.workspace.store import remove
from support import hosteditor
from support.thorough import THOROUGH
from support.workspaces import Review, review

__all__ = ["review"]

ROUNDS = 10_000 if THOROUGH else 500
STYLES = ("truncate", "rename", "append", "slow", "backup")


class Editor:
    """The program, running."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, hosteditor.__file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def begin(self, path: Path, edits: list[tuple[str, str, float]]) -> None:
        """Have it edit a file from now on."""
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
    """The last edit is in the file, and every text at the end of it, or of a version beside it."""
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
        path.unlink()


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
