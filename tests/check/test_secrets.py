"""Quick checks before the patterns for secrets lose no secret that the patterns alone would find."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandwright.check.secrets import FILES, TOKENS, secret_file, secrets_in

MARKS = [mark for marks, _, _ in TOKENS for mark in marks]


@pytest.mark.parametrize("row", range(len(TOKENS)))
@given(data=st.data())
def test_marks_find_what_the_patterns_find(data: st.DataObject, row: int) -> None:
    """The preliminary marks change no result: not in parts of tokens, nor in several at once."""
    texts = st.from_regex(TOKENS[row][1]) | st.sampled_from([b"\n", *MARKS])
    content = b" ".join(data.draw(st.lists(texts, min_size=1, max_size=3)))
    content = content[data.draw(st.integers(0, 3)) :]
    expected = dict.fromkeys(what for _, pattern, what in TOKENS if pattern.search(content))
    assert list(secrets_in(content)) == list(expected)


@pytest.mark.parametrize(("pattern", "what"), FILES)
@given(data=st.data())
def test_paths_of_secrets_are_found_as_by_each_pattern(
    data: st.DataObject, pattern: re.Pattern[bytes], what: str
) -> None:
    path = data.draw(st.from_regex(pattern, fullmatch=True))
    assert secret_file(path) == next(what for each, what in FILES if each.fullmatch(path))
    assert secret_file(path + b"~") == next((what for each, what in FILES if each.fullmatch(path + b"~")), "")
