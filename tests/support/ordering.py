"""The order of the tests in a run with several workers.

`pytest-xdist --dist worksteal` gives each worker one part of the list, and later takes from the longest part.
A test that changes accounts waits until no other test runs a sandbox (`locks.accounts_change`). So one part
begins with all such tests, and the others begin with tests that start no sandbox.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

from support.locks import changes_accounts, starts_sandboxes


def in_parts(items: Sequence[pytest.Item], workers: int) -> list[pytest.Item]:
    """All items, in as many parts as there are workers, one part after the other."""
    accounts = [item for item in items if changes_accounts(item)]
    others = [item for item in items if not changes_accounts(item)]
    sandboxes = _dealt([item for item in others if starts_sandboxes(item)], workers)
    plain = _dealt([item for item in others if not starts_sandboxes(item)], max(1, workers - 1))
    begins = [accounts, *_divided(plain, workers - 1)] if workers > 1 else [[*accounts, *plain]]
    lengths = [len(each) for each in _divided(items, workers)]
    found: list[pytest.Item] = []
    for begin, length in zip(begins, lengths, strict=True):
        found += begin
        found += sandboxes[: max(0, length - len(begin))]
        del sandboxes[: max(0, length - len(begin))]
    return found + sandboxes


def _divided(items: Sequence[pytest.Item], parts: int) -> list[list[pytest.Item]]:
    """Contiguous parts of nearly equal length, as pytest-xdist makes them."""
    borders = [0]
    for left in range(parts, 0, -1):
        borders.append(borders[-1] + (len(items) - borders[-1]) // left)
    return [list(items[first:last]) for first, last in itertools.pairwise(borders)]


def _dealt(items: Sequence[pytest.Item], parts: int) -> list[pytest.Item]:
    """Deal out the modules in turn, so that each part gets some of each directory.

    In each part, modules with slow tests come first.
    """
    modules: dict[object, list[pytest.Item]] = {}
    for item in items:
        modules.setdefault(item.path, []).append(item)
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    hands = [list(modules)[first::parts] for first in range(parts)]
    return [
        item
        for hand in hands
        for path in sorted(hand, key=lambda path: path not in slow)
        for item in modules[path]
    ]
