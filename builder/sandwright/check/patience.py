"""Ends a search by a pattern that takes too long.

Go's expressions take time in proportion to the text. Some take Python twice as long for each more
character, and the text is a stranger's image's.
"""

from __future__ import annotations

import re
import signal
import threading
from typing import NoReturn

LIMIT = 10.0
"""Seconds for one search."""


class TooLong(Exception):
    """A search was given up."""


def search(pattern: re.Pattern[str], text: str) -> bool:
    """Whether a pattern is found. Raise TooLong when that isn't known after `LIMIT` seconds.

    Only the main thread can be woken (signal(7)); in another one there is no limit.
    """
    if threading.current_thread() is not threading.main_thread():
        return pattern.search(text) is not None
    before = signal.signal(signal.SIGALRM, _late)
    timer = signal.setitimer(signal.ITIMER_REAL, LIMIT)
    try:
        return pattern.search(text) is not None
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, before)


def _late(*_: object) -> NoReturn:
    raise TooLong(f"isn't known after {LIMIT:g} s")
