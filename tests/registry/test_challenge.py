"""Requests of registries for logins: challenges and scopes as real registries write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandwright.registry.challenge import AuthChallenge, parse_challenges
from sandwright.registry.scope import repository_scope, united

CHALLENGES: dict[str, list[tuple[str, dict[str, str]]]] = {
    "": [],
    "Basic": [("basic", {})],
    'Basic realm="Registry Realm"': [("basic", {"realm": "Registry Realm"})],
    'Bearer realm="https://auth.docker.io/token",service="registry.docker.io"': [
        ("bearer", {"realm": "https://auth.docker.io/token", "service": "registry.docker.io"})
    ],
    'Bearer realm="https://a/t",service="s",scope="repository:a/b:pull,push",error="invalid_token"': [
        (
            "bearer",
            {
                "realm": "https://a/t",
                "service": "s",
                "scope": "repository:a/b:pull,push",
                "error": "invalid_token",
            },
        )
    ],
    "BEARER Realm=https://a/t , Service = s": [("bearer", {"realm": "https://a/t", "service": "s"})],
    'Basic realm="x", Bearer realm="y",service="z"': [
        ("basic", {"realm": "x"}),
        ("bearer", {"realm": "y", "service": "z"}),
    ],
    'Basic realm="a \\"quoted\\" word"': [("basic", {"realm": 'a "quoted" word'})],
    'Bearer realm="one",realm="two"': [("bearer", {"realm": "one"})],
    'Negotiate YIIabc==, Basic realm="x"': [("negotiate", {}), ("basic", {"realm": "x"})],
    'Bearer realm="never closed': [("bearer", {})],
    '="x"': [],
    'realm="x"': [],
}


@pytest.mark.parametrize("header", CHALLENGES)
def test_challenges(header: str) -> None:
    assert parse_challenges(header) == [AuthChallenge(*each) for each in CHALLENGES[header]]


@given(st.text(alphabet='Bb=" ,\\ae', max_size=60))
def test_any_header_comes_to_an_end(header: str) -> None:
    for challenge in parse_challenges(header):
        assert challenge.scheme == challenge.scheme.lower()


def test_a_long_header_is_not_read_for_ever() -> None:
    assert len(parse_challenges("Basic, " * 1_000_000)) < 3000


@pytest.mark.parametrize(
    ("scopes", "expected"),
    [
        (["repository:a/b:pull"], ("repository:a/b:pull",)),
        (["repository:a/b:push,pull", "repository:a/b:pull"], ("repository:a/b:pull,push",)),
        (
            ["repository:b:pull", "repository:a:pull,push"],
            ("repository:a:pull,push", "repository:b:pull"),
        ),
        (["registry:catalog:*"], ("registry:catalog:*",)),
        (["repository(plugin):a:pull"], ("repository(plugin):a:pull",)),
        (["", "nonsense", "repository::pull", "repository:a:pull x"], ()),
        (["repository:host:5000/a:pull"], ("repository:host:5000/a:pull",)),
    ],
)
def test_scopes(scopes: list[str], expected: tuple[str, ...]) -> None:
    assert united(scopes) == expected


def test_the_scope_of_a_repository() -> None:
    assert repository_scope("a/b", ("push", "pull")) == "repository:a/b:pull,push"
