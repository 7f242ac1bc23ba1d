"""Ends work on a stranger's input that takes too long."""

from __future__ import annotations

import contextlib
import re
import signal
import threading
from collections.abc import Iterator
from typing import NoReturn

LIMIT = 10.0
"""Seconds for one search."""


class TooLong(Exception):
    """The time was up."""


def search(pattern: re.Pattern[str], text: str) -> bool:
    """Whether a pattern is found. Raise TooLong when that isn't known after `LIMIT` seconds.

    Go's expressions take time in proportion to the text. Some take Python twice as long for each more
    character.
    """
    with time_limit(LIMIT):
        return pattern.search(text) is not None


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TooLong in the body once it has taken `seconds`.

    Only the main thread can be woken (signal(7)); in another one there is no limit.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def late(*_: object) -> NoReturn:
        raise TooLong(f"isn't known after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, late)
    timer = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, before)
