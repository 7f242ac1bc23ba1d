"""Secrets are masked in a stream wherever it is split, and nothing else changes.

Tests of bridge/secret.py: secrets are masked wherever a stream is cut.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandwright.bridge.secret import Redactor

SECRET = b"aab-aac"


def _passed(pieces: list[bytes], *secrets: bytes) -> bytes:
    redactor = Redactor(secrets)
    return b"".join(redactor.feed(piece) for piece in pieces) + redactor.end()


@given(
    st.lists(st.sampled_from([SECRET, b"a", b"aab", b"-aac", b"ab-", b"\0", b"x" * 40]), max_size=12),
    st.data(),
)
def test_however_it_is_cut(parts: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    pieces = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert _passed(pieces, SECRET) == stream.replace(SECRET, b"[secret]")


@given(st.lists(st.binary(max_size=60), max_size=8))
def test_without_a_secret_in_it_nothing_changes(pieces: list[bytes]) -> None:
    assert _passed(pieces, b"a-secret-that-is-not-in-there") == b"".join(pieces)
    assert _passed(pieces) == b"".join(pieces)


@pytest.mark.parametrize(
    ("pieces", "passed"),
    [
        ([b"one-secret two-secret"], b"[secret] [secret]"),
        ([b"one-sec", b"ret"], b"[secret]"),
        ([b"one-secret-longer"], b"[secret]"),
        ([b"one-sec", b"ond"], b"one-second"),
    ],
)
def test_several_secrets(pieces: list[bytes], passed: bytes) -> None:
    assert _passed(pieces, b"one-secret", b"two-secret", b"one-secret-longer") == passed


def test_a_prompt_is_not_held_back() -> None:
    """Only bytes that may begin a secret wait for the bytes that follow."""
    redactor = Redactor([SECRET])
    assert redactor.feed(b"Continue? ") == b"Continue? "
    assert redactor.feed(b"b aa") == b"b "
    assert redactor.feed(b"?") == b"aa?"
