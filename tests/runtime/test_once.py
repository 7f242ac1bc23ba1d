"""Work that several threads request is done once."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from sandwright.runtime.memoised import Memoised


def test_many_ask_and_one_does_it() -> None:
    once: Memoised[int] = Memoised()
    made: list[int] = []

    def make() -> int:
        made.append(threading.get_ident())
        time.sleep(0.1)
        return len(made)

    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(lambda _: once.get("key", make), range(8)))
    assert outcomes == [1] * 8
    assert once.get("other", make) == 2


def test_an_error_is_for_everybody() -> None:
    once: Memoised[int] = Memoised()

    def fail() -> int:
        raise ValueError("no")

    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            once.get("key", fail)
    with pytest.raises(ValueError, match="no"):
        once.get("key", lambda: 1)
