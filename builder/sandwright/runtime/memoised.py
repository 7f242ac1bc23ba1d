"""Does a piece of work once, whichever of several threads asks first; the others wait for its outcome."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

T = TypeVar("T")


class Memoised(Generic[T]):
    """Results by key. An error is a result, too: it is raised again for every caller."""

    def __init__(self) -> None:
        """Nothing is done yet."""
        self._lock = threading.Lock()
        self._outcomes: dict[Hashable, Future[T]] = {}

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The outcome for `key`, of `make` on the first call."""
        with self._lock:
            first = key not in self._outcomes
            outcome = self._outcomes.setdefault(key, Future())
        if first:
            try:
                outcome.set_result(make())
            except BaseException as error:
                outcome.set_exception(error)
                raise
        return outcome.result()
