"""Retries of HTTP requests: statuses such as 429, backoff, Retry-After."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses after which the same request may succeed."""

UNTOUCHED = frozenset({425, 429, 503})
"""Statuses that mean the server did nothing, so that even a non-idempotent request can be retried."""


@dataclass(frozen=True)
class RetryPolicy:
    """The number and the limits of attempts at a server. All times are in seconds.

    `reach` bounds the first contact, name resolution included. `connect` and `stall` bound the time without a
    connection or a byte, `commit` the time without an answer to an upload. A transient failure is retried up
    to `attempts` times, after a pause of `pause` that doubles each time. A server's Retry-After counts up to
    `longest`. `slowest` is the minimum of bytes per second of a file, after `grace`; `answer` bounds the time
    of a document.
    """

    reach: float = 5.0
    connect: float = 5.0
    stall: float = 30.0
    commit: float = 300.0
    attempts: int = 5
    pause: float = 0.5
    longest: float = 60.0
    slowest: float = 8_000.0
    grace: float = 60.0
    answer: float = 60.0

    def backoff(self, failures: int, retry_after: float = 0.0) -> float:
        """The seconds to wait after a number of failures, of which the last one had this Retry-After."""
        return min(max(retry_after, self.pause * 2.0 ** (failures - 1)), self.longest)

    def is_slow(self, count: int, seconds: float) -> bool:
        """Whether `count` bytes took too long."""
        return seconds > self.grace and count / seconds < self.slowest


def retry_after(value: str) -> float:
    """The seconds of a header Retry-After (RFC 9110, 10.2.3), or 0."""
    value = value.strip()
    if value.isdecimal():
        return float(value[:9])
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return 0.0


def causes(error: Exception) -> Iterator[Exception]:
    """An exception of `requests` and its causes, the outermost first."""
    current: Any = error
    for _ in range(10):
        yield current
        inner = getattr(current, "reason", None)
        if not isinstance(inner, Exception):
            inner = next((each for each in getattr(current, "args", ()) if isinstance(each, Exception)), None)
        if inner is None or inner is current:
            return
        current = inner
