"""Retries of requests to a registry or mirror: backoff, Retry-After.

Tests of registry/retries.py.
"""

from __future__ import annotations

import time
from email.utils import formatdate

import pytest

from sandwright.registry.retries import RetryPolicy, causes, retry_after


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        pytest.param("5", 5.0, id="seconds"),
        pytest.param(" 7 ", 7.0, id="blanks"),
        pytest.param("9" * 30, 999_999_999.0, id="more digits than a time has"),
        pytest.param("Wed, 21 Oct 2015 07:28:00 GMT", 0.0, id="a date that has passed"),
        pytest.param("-1", 0.0, id="negative"),
        pytest.param("soon", 0.0, id="a word"),
        pytest.param("", 0.0, id="nothing"),
    ],
)
def test_retry_after(value: str, seconds: float) -> None:
    assert retry_after(value) == seconds


def test_a_date_to_come() -> None:
    assert 50 < retry_after(formatdate(time.time() + 60, usegmt=True)) <= 60


def test_pauses_double_up_to_the_longest() -> None:
    policy = RetryPolicy(pause=0.5, longest=3.0)
    assert [policy.backoff(failures) for failures in range(1, 6)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    assert [policy.backoff(1, wish) for wish in (0.1, 2.5, 100.0)] == [0.5, 2.5, 3.0]


def test_slow_is_judged_after_the_grace() -> None:
    policy = RetryPolicy(grace=10.0, slowest=100.0)
    assert not policy.is_slow(0, 10.0)
    assert policy.is_slow(999, 10.1)
    assert not policy.is_slow(2000, 10.1)


def test_the_innermost_cause_is_the_last() -> None:
    inner = OSError(111, "Connection refused")
    wrapped = RuntimeError("outer", ValueError(inner))
    assert list(causes(wrapped))[-1] is inner
    inner.args = (inner,)
    assert list(causes(wrapped))[-1] is inner, "one that holds itself ends it"
