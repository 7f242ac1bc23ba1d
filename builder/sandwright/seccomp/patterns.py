"""Expresses "any value except these" with comparisons that an allow-list can contain.

In an OCI profile the cases of one call are alternatives: engines neither keep their order where they overlap
nor compare under a mask for inequality, and a rule that names an argument twice is taken apart. So "not 5 and
not 9" becomes several rules "these bits equal this", which together match everything else and nothing more.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

MAX_VARYING_BITS = 8


@dataclass(frozen=True, order=True)
class Pattern:
    """All numbers that have the bits of `value` where `mask` has ones."""

    mask: int
    value: int

    def matches(self, number: int) -> bool:
        """Whether a number is one of them."""
        return number & self.mask == self.value

    def overlaps(self, other: Pattern) -> bool:
        """Whether some number is in both."""
        return not (self.value ^ other.value) & self.mask & other.mask


def all_but(excluded: Iterable[int], *, mask: int) -> tuple[Pattern, ...]:
    """Patterns that together match a number exactly when, masked with `mask`, it is none of `excluded`.

    They may overlap each other. Raise ValueError when a value has bits outside of the mask, or the values
    differ from each other in more than MAX_VARYING_BITS bits.
    """
    return _patterns_without(frozenset(excluded), mask)


@functools.lru_cache(maxsize=1024)
def _patterns_without(points: frozenset[int], mask: int) -> tuple[Pattern, ...]:
    if not points or any(point & ~mask for point in points):
        raise ValueError("there must be values, and all within the mask")
    first = min(points)
    varying = 0
    for point in points:
        varying |= point ^ first
    single = [Pattern(bit, ~first & bit) for bit in _bits(mask & ~varying)]
    return tuple(single + _cover_points(points, _bits(varying)))


def _cover_points(points: frozenset[int], bits: list[int]) -> list[Pattern]:
    """Few patterns over `bits` that hold every combination of them except those of the points."""
    if len(bits) > MAX_VARYING_BITS:
        raise ValueError(f"the values differ in more than {MAX_VARYING_BITS} bits")
    everything = sum(bits)
    taken = {point & everything for point in points}
    remaining = {number for number in _subset_sums(bits) if number not in taken}
    usable = [
        pattern for pattern in _all_patterns(bits) if not any(pattern.matches(point) for point in taken)
    ]
    usable.sort(key=lambda pattern: (pattern.mask.bit_count(), pattern))
    chosen = []
    while remaining:
        best = max(usable, key=lambda pattern: sum(map(pattern.matches, remaining)))
        chosen.append(best)
        remaining = {number for number in remaining if not best.matches(number)}
    return chosen


def _all_patterns(bits: list[int]) -> Iterator[Pattern]:
    """Each bit one, zero or any."""
    for choice in itertools.product(*(((bit, bit), (bit, 0), (0, 0)) for bit in bits)):
        yield Pattern(sum(mask for mask, _ in choice), sum(value for _, value in choice))


def _subset_sums(bits: list[int]) -> Iterator[int]:
    return map(sum, itertools.product(*((0, bit) for bit in bits)))


def _bits(mask: int) -> list[int]:
    return [1 << position for position in range(mask.bit_length()) if mask >> position & 1]
