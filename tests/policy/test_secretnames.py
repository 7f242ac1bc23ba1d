"""Values of variables that look like secrets, in texts about paths. Tests of policy/secretnames.py."""

from __future__ import annotations

import pytest

from sandwright.policy.secretnames import without_values

SHOWN = [
    pytest.param("/home/u/s3cret/x", "writes ~/s3cret/x", id="in the home directory"),
    pytest.param("/home/u/p/s3cret", "writes $PROJECT/s3cret", id="in the project"),
    pytest.param("/home/u/s3cret//x", "connects to ~/s3cret/x", id="normalized"),
    pytest.param("/home/u/a/../s3cret", "writes ~/s3cret", id="with a parent"),
    pytest.param("a/../s3cret", "writes $PROJECT/s3cret", id="relative, with a parent"),
]


@pytest.mark.parametrize(("value", "text"), SHOWN)
def test_a_value_in_a_shortened_path_is_not_shown(value: str, text: str) -> None:
    assert "s3cret" not in without_values(text, {"MY_TOKEN": value})


def test_other_paths_are_shown() -> None:
    assert without_values("writes ~/other", {"MY_TOKEN": "/home/u/s3cret"}) == "writes ~/other"
