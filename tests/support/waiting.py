"""Waits for what other processes and threads do, by looking again and again."""

from __future__ import annotations

import time
from collections.abc import Callable

_PAUSE = 0.02


def eventually(true: Callable[[], object], *, within: float = 60.0) -> bool:
    """Whether something is so, at last after so many seconds."""
    deadline = time.monotonic() + within
    while not true():
        if time.monotonic() > deadline:
            return bool(true())
        time.sleep(_PAUSE)
    return True


def until(true: Callable[[], object], said: str = "it did not come about", *, within: float = 60.0) -> None:
    """Wait until something is so. Fail with `said` after so many seconds."""
    assert eventually(true, within=within), said
