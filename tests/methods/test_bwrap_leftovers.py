"""A bubblewrap that nobody is left to let go is found and ended; one that its launcher looks after is not."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from sandwright.methods import registry
from session.conftest import eventually

pytestmark = pytest.mark.needs("bwrap")


def _first(bwrap: int) -> int:
    children = Path(f"/proc/{bwrap}/task/{bwrap}/children").read_text().split()
    return int(children[0]) if children else 0


def _found() -> set[str]:
    return {each.name for each in registry.backend("bwrap").leftovers(())}


def test_one_that_waits_for_nobody_is_ended() -> None:
    """As a launcher starts it: it can write to what it waits for, so that its end doesn't let it go."""
    read, write = os.pipe()
    words = ("--ro-bind", "/", "/", "--unshare-pid", "--json-status-fd", "2", "--block-fd", "0", "--", "true")
    both = os.open(f"/proc/self/fd/{read}", os.O_RDWR)
    waiting = subprocess.Popen(("bwrap", *words), stdin=both, stdout=both, stderr=subprocess.DEVNULL)
    try:
        eventually(lambda: _first(waiting.pid) != 0, "bubblewrap has no child")
        first = _first(waiting.pid)
        assert str(first) not in _found(), "its bubblewrap is there"
        waiting.kill()
        waiting.wait()
        eventually(lambda: str(first) in _found(), "it is not found")
        (leftover,) = (each for each in registry.backend("bwrap").leftovers(()) if each.name == str(first))
        registry.backend("bwrap").remove(leftover)
        eventually(lambda: str(first) not in _found(), "it is still there")
    finally:
        waiting.kill()
        for each in (read, write, both):
            os.close(each)
