"""Searches the least part of a set with which something still holds: delta debugging, by dropping.

First halves are dropped, then quarters, and at last one at a time until nothing more can go. What is left
is least in this sense: without any one of its members it does not hold (1-minimal; Zeller and Hildebrandt,
2002).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from sandwright.errors import HostError


@dataclass(frozen=True)
class Tried:
    """One candidate, tried: what was in it, and why it did not hold; empty when it did."""

    members: tuple[str, ...]
    fault: str


@dataclass(frozen=True)
class Least:
    """What was found: the members that are left, why each is needed, and all that was tried, in order."""

    members: tuple[str, ...]
    needed: dict[str, str]
    trials: tuple[Tried, ...]


def least(members: Sequence[str], trial: Callable[[tuple[str, ...]], str]) -> Least:
    """Find the least part of `members` for which `trial` finds no fault.

    `trial` gives what is wrong with a candidate, empty for nothing. It is asked about no candidate twice.
    Raise HostError when there is a fault already with all of them.
    """
    search = _Search(trial)
    kept = tuple(members)
    if fault := search.fault(kept):
        raise HostError(f"it does not work with all of them either: {fault}")
    size = max(len(kept) // 2, 1)
    while size > 1:
        kept = search.dropped(kept, size)
        size //= 2
    before = None
    while kept != before:
        before, kept = kept, search.dropped(kept, 1)
    needed = {each: search.fault(_without(kept, (each,))) for each in kept}
    return Least(kept, needed, tuple(search.trials()))


class _Search:
    """What has been tried so far."""

    def __init__(self, trial: Callable[[tuple[str, ...]], str]) -> None:
        self._trial = trial
        self._faults: dict[tuple[str, ...], str] = {}

    def fault(self, members: tuple[str, ...]) -> str:
        if members not in self._faults:
            self._faults[members] = self._trial(members)
        return self._faults[members]

    def dropped(self, members: tuple[str, ...], size: int) -> tuple[str, ...]:
        """The members without each part of this size that is not needed."""
        kept = members
        for start in range(0, len(members), size):
            candidate = _without(kept, members[start : start + size])
            if candidate != kept and not self.fault(candidate):
                kept = candidate
        return kept

    def trials(self) -> Iterator[Tried]:
        return (Tried(members, fault) for members, fault in self._faults.items())


def _without(members: tuple[str, ...], part: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(each for each in members if each not in part)
