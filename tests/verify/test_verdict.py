"""The sum of verdicts: only tried probes count, and the worst of them decides."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandwright.verify.verdict import Verdict, combine

P, F, U, S = Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.SKIPPED


@pytest.mark.parametrize(
    ("parts", "whole"),
    [
        pytest.param([], S, id="nothing-tried-is-no-pass"),
        pytest.param([S, S], S, id="skips-are-no-pass"),
        pytest.param([P], P, id="one-pass"),
        pytest.param([P, S], P, id="a-skip-beside-a-pass"),
        pytest.param([P, U], U, id="undecided-beats-pass"),
        pytest.param([P, U, F, S], F, id="fail-beats-all"),
        pytest.param([S, F], F, id="fail-beats-skip"),
    ],
)
def test_combine(parts: list[Verdict], whole: Verdict) -> None:
    assert combine(parts) is whole


@given(st.lists(st.sampled_from(list(Verdict))))
def test_a_pass_needs_a_pass_and_nothing_worse(parts: list[Verdict]) -> None:
    assert (combine(parts) is P) == (P in parts and F not in parts and U not in parts)


def test_names() -> None:
    assert [str(verdict) for verdict in Verdict] == [
        "pass",
        "fail",
        "inconclusive",
        "skipped",
        "not-promised",
    ]
