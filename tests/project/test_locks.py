"""Tests that change accounts wait for those that start sandboxes, and never for each other."""

from __future__ import annotations

import select
import subprocess
import sys
import time
from pathlib import Path

TESTS = Path(__file__).parents[1]
CODE = """
import sys, time, types
from pathlib import Path
from support import locks
item = types.SimpleNamespace(path=Path("tests/methods/user/test_x.py"))
with locks.accounts_as_they_are(item):
    print("in", flush=True)
    sys.stdin.readline()
    with locks.accounts_change():
        print("changes", flush=True)
        time.sleep(0.3)
    print("changed", flush=True)
"""


def _started(folder: Path) -> subprocess.Popen[str]:
    started = subprocess.Popen(
        [sys.executable, "-c", CODE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=TESTS,
        env={"TESTS_LOCKS": str(folder), "PYTHONPATH": f"{TESTS}:{TESTS.parent / 'builder'}"},
    )
    assert started.stdout is not None
    assert started.stdout.readline() == "in\n"
    return started


def _said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def _go_on(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def test_two_that_change_accounts_at_once(tmp_path: Path) -> None:
    """Whoever waited for its turn kept the other from what that waited for, for all of CHANGE_WAIT."""
    with _started(tmp_path) as first, _started(tmp_path) as second:
        began = time.monotonic()
        for each in (first, second):
            _go_on(each)
        for each in (first, second):
            assert (_said(each), _said(each)) == ("changes", "changed")
        assert time.monotonic() - began < 15


def test_who_starts_sandboxes_is_waited_for(tmp_path: Path) -> None:
    with _started(tmp_path) as sandboxes, _started(tmp_path) as changes:
        _go_on(changes)
        assert changes.stdout is not None
        assert select.select([changes.stdout], [], [], 1.0)[0] == [], "it did not wait"
        sandboxes.kill()
        before = time.monotonic()
        assert _said(changes) == "changes"
        assert time.monotonic() - before < 15
