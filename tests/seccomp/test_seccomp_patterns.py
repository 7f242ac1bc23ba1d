"""Patterns for "anything but" contain exactly the right values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandwright.seccomp.patterns import Pattern, all_but


@st.composite
def excluded_and_mask(draw: st.DrawFn) -> tuple[list[int], int]:
    """A mask, and values within it that differ in at most six bits."""
    mask = draw(st.integers(1, 0xFFFFFFFF))
    base = draw(st.integers(0, 0xFFFFFFFF)) & mask
    bits = [1 << position for position in range(32) if mask >> position & 1]
    varying = draw(st.lists(st.sampled_from(bits), max_size=6, unique=True))
    count = draw(st.integers(1, 6))
    values = [
        base ^ sum(draw(st.lists(st.sampled_from(varying), unique=True)) if varying else [])
        for _ in range(count)
    ]
    return values, mask


@given(excluded_and_mask(), st.integers(0, 0xFFFFFFFF))
def test_a_number_is_matched_exactly_when_it_is_not_excluded(
    case: tuple[list[int], int], number: int
) -> None:
    excluded, mask = case
    patterns = all_but(excluded, mask=mask)
    for probe in [
        number,
        *excluded,
        *(value ^ 1 for value in excluded),
        *(value | ~mask & 0xFFFFFFFF for value in excluded),
    ]:
        matched = any(pattern.matches(probe) for pattern in patterns)
        assert matched == (probe & mask not in excluded)


def test_small_cases_in_full() -> None:
    patterns = all_but([1, 2, 10, 16], mask=0x3F)
    assert {n for n in range(64) if any(p.matches(n) for p in patterns)} == set(range(64)) - {1, 2, 10, 16}
    assert len(patterns) == 7
    assert all_but([0], mask=0x5) == (Pattern(1, 1), Pattern(4, 4))
    assert all_but([0, 1], mask=0x1) == ()


@pytest.mark.parametrize(
    ("excluded", "mask"),
    [([], 1), ([2], 1), ([0, 0xFFFFFFFF], 0xFFFFFFFF)],
    ids=["none", "outside", "too-many-bits"],
)
def test_what_can_not_be_said_is_refused(excluded: list[int], mask: int) -> None:
    with pytest.raises(ValueError, match=r"must|differ"):
        all_but(excluded, mask=mask)


def test_overlap() -> None:
    assert Pattern(0xF0, 0x10).overlaps(Pattern(0x0F, 0x01))
    assert not Pattern(0xF0, 0x10).overlaps(Pattern(0xFF, 0x21))
