"""Waits for the actions of other processes and threads, by repeated checks."""

from __future__ import annotations

import time
from collections.abc import Callable

_PAUSE = 0.02


def eventually(true: Callable[[], object], *, within: float = 60.0) -> bool:
    """Whether a condition becomes true within this number of seconds."""
    deadline = time.monotonic() + within
    while not true():
        if time.monotonic() > deadline:
            return bool(true())
        time.sleep(_PAUSE)
    return True


def until(true: Callable[[], object], said: str = "it did not come about", *, within: float = 60.0) -> None:
    """Wait until a condition is true. Fail with `said` after this number of seconds."""
    assert eventually(true, within=within), said
