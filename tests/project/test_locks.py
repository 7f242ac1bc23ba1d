"""Tests that change accounts wait for tests that start sandboxes."""

from __future__ import annotations

import subprocess
import sys
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support import locks, ordering
from support.waiting import until

TESTS = Path(__file__).parents[1]
CODE = """
import sys, time, types
from pathlib import Path
import pytest
from support import locks
marks = [pytest.mark.exclusive("accounts").mark] if sys.argv[1] == "changes" else []
item = types.SimpleNamespace(path=Path("tests/session/test_x.py"), iter_markers=lambda name: marks)
locks.acquire(item)
with locks.accounts_as_they_are(item):
    print("in", flush=True)
    sys.stdin.readline()
    if marks:
        with locks.accounts_change():
            print("changes", flush=True)
            sys.stdin.readline()
print("out", flush=True)
"""


class _Test:
    """Another process that runs one test, step by step."""

    def __init__(self, folder: Path, word: str, output: Path) -> None:
        self.output = output
        with output.open("wb") as stdout:
            self.process = subprocess.Popen(
                [sys.executable, "-c", CODE, word],
                stdin=subprocess.PIPE,
                stdout=stdout,
                cwd=TESTS,
                env={"TESTS_LOCKS": str(folder), "PYTHONPATH": f"{TESTS}:{TESTS.parent / 'builder'}"},
            )

    @property
    def said(self) -> list[str]:
        return self.output.read_text().splitlines()

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def has_said(self, *words: str) -> None:
        until(lambda: self.said == list(words), f"not {words}")


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Callable[[str], _Test]]:
    """Start a test that starts a sandbox, or one that changes accounts."""
    begun: list[_Test] = []
    folder = tmp_path / "locks"
    folder.mkdir()

    def make(word: str) -> _Test:
        begun.append(_Test(folder, word, tmp_path / f"output-{len(begun)}"))
        return begun[-1]

    yield make
    for each in begun:
        each.process.kill()
        each.process.communicate(timeout=30)


def test_a_change_of_accounts_waits_for_sandboxes(begin: Callable[[str], _Test]) -> None:
    """No other test that starts a sandbox begins meanwhile."""
    sandbox, changing = begin("sandbox"), begin("changes")
    sandbox.has_said("in")
    changing.has_said("in")
    changing.go_on()
    later = begin("sandbox")
    time.sleep(0.5)
    assert (changing.said, later.said) == (["in"], [])
    sandbox.go_on()
    changing.has_said("in", "changes")
    time.sleep(0.5)
    assert later.said == []
    changing.go_on()
    changing.has_said("in", "changes", "out")
    later.has_said("in")


def test_a_change_of_accounts_without_the_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "_held", {})
    with pytest.raises(RuntimeError, match="exclusive"), locks.accounts_change():
        raise AssertionError("the change was made")


def _item(name: str, *marks: pytest.MarkDecorator) -> types.SimpleNamespace:
    def iter_markers(kind: str) -> Iterator[pytest.Mark]:
        return (each.mark for each in marks if each.name == kind)

    return types.SimpleNamespace(
        path=TESTS / name,
        name=name,
        iter_markers=iter_markers,
        get_closest_marker=lambda kind: next(iter_markers(kind), None),
    )


@pytest.mark.parametrize("workers", [1, 2, 4, 7])
def test_the_parts_of_the_workers(workers: int) -> None:
    """One worker begins with changes of accounts, the others with tests without a sandbox; none is lost."""
    items = [_item(f"{where}/test_{number}.py") for where in ("session", "rootfs") for number in range(30)]
    items += [_item("session/test_1.py", pytest.mark.exclusive("accounts")) for _ in range(4)]
    items.append(_item("session/test_9.py", pytest.mark.slow))
    found = ordering.in_parts(items, workers)  # type: ignore[arg-type]
    assert sorted(map(id, found)) == sorted(map(id, items))
    begins, first = [], 0
    for worker in range(workers):
        begins.append(found[first])
        first += (len(items) - first) // (workers - worker)
    assert locks.changes_accounts(begins[0])
    assert not any(locks.starts_sandboxes(each) for each in begins[1:])


def test_modules_with_slow_tests_come_first() -> None:
    items = [_item(f"session/test_{number}.py") for number in range(5)]
    items.append(_item("session/test_3.py", pytest.mark.slow))
    assert [each.name for each in ordering.in_parts(items, 1)][:2] == ["session/test_3.py"] * 2  # type: ignore[arg-type]
