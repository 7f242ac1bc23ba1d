"""Tests that share one thing of the machine are run by one worker, one after the other."""

from __future__ import annotations

import sys
from pathlib import Path

from sandwright import process

GROUPED = """
import pathlib, pytest
pytestmark = pytest.mark.xdist_group("one")

@pytest.mark.parametrize("number", range(8))
def test_grouped(number, worker_id):
    with pathlib.Path(__file__).with_name("workers").open("a") as log:
        log.write(worker_id + "\\n")
"""


def test_a_group_is_kept_together(tmp_path: Path) -> None:
    """A marker that pytest and pytest-xdist don't agree about is silently nothing: pytest 9.2 did that."""
    (tmp_path / "test_grouped.py").write_text(GROUPED)
    options = ("-q", "-n", "2", "--dist", "loadgroup", "-p", "no:cacheprovider", "--rootdir", tmp_path)
    process.run(sys.executable, "-m", "pytest", *options, tmp_path, cwd=tmp_path, timeout=120)
    workers = (tmp_path / "workers").read_text().split()
    assert len(workers) == 8
    assert len(set(workers)) == 1, "pytest-xdist no longer reads xdist_group"
