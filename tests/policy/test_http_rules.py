"""Requests that rules allow, and spellings that no rule allows.

Tests of policy/http_rules.py.
"""

from __future__ import annotations

import re

import pytest

from sandwright.policy.http_rules import (
    OVERRIDES,
    OVERRIDING_QUERY,
    SEGMENTS,
    HttpHost,
    HttpRule,
    git_rules,
    header_regex,
    http_method,
    http_path,
    lookalike_regex,
    path_regex,
    pattern_regex,
    tools_regex,
)
from sandwright.policy.provenance import PolicySource

HERE = PolicySource("here")


def host(*paths: str, methods: frozenset[str] | None = None) -> HttpHost:
    return HttpHost("api.example", 443, private=False, rules=(HttpRule(methods, paths or None, HERE),))


@pytest.mark.parametrize(
    ("pattern", "matches", "others"),
    [
        ("/a/*", ("/a/b", "/a/", "/a/b%20c"), ("/a", "/a/b/c", "/a/b/", "/a/b%2fc", "/a/b%2Fc", "/A/b")),
        ("/a/**", ("/a/b", "/a/b/c", "/a/", "/a/b%2fc"), ("/a", "/ab/c")),
        ("/**/c", ("/c", "/a/c", "/a/b/c"), ("/a/c/d", "/ac")),
        ("/@s%2f*", ("/@s%2fx", "/@s%2Fx"), ("/@s/x", "/@s%2fx%2fy", "/@s%2f..%2fx")),
        ("/a.b", ("/a.b",), ("/aXb",)),
        ("/a'b", ("/a'b",), ("/ab",)),
        ("/*-*", ("/a-b", "/-"), ("/ab", "/a%2f-")),
    ],
)
def test_what_a_pattern_matches(pattern: str, matches: tuple[str, ...], others: tuple[str, ...]) -> None:
    found = re.compile(pattern_regex(http_path(pattern)))
    assert [each for each in matches if not found.search(each)] == []
    assert [
        each for each in others if found.search(each.rstrip("\n") + "\n" * 2 if "\n" in each else each)
    ] == []


@pytest.mark.parametrize(
    "target",
    [
        "/a/../b", "/a/.", "//a", "/a//", "/a;b", "/a\\b", "/%2e", "/%61", "/%2f", "/a%00", "/%c0%af",
        "/\xe9", "a", "",
        "/a?\xe9", "/a?b c", "/a?b#c", "/a#b",
    ],
)  # fmt: skip
def test_no_rule_allows_a_second_spelling(target: str) -> None:
    assert host().decide("GET", target) == "spelling"
    assert isinstance(host().decide("GET", "/a%20b?c=%2e#"[:-1]), HttpRule)


def test_an_escaped_slash_counts_as_one() -> None:
    """This holds even if only one rule of the host has such a slash."""
    npm = host("/@s%2f*", "/a/**")
    assert isinstance(npm.decide("GET", "/@s%2fx"), HttpRule)
    assert isinstance(npm.decide("GET", "/a/b%2fc"), HttpRule)
    for target in ("/@s%2f..", "/@s%2f.", "/@s%2f%2fx", "/a%2f../b", "/a/b%2f/c", "/a/..%2fb"):
        assert npm.decide("GET", target) == "spelling", target


REFUSING = {
    "another method in the query": OVERRIDING_QUERY,
    "segments": SEGMENTS,
    "headers": header_regex(OVERRIDES),
    "headers like one": lookalike_regex("x-api-key"),
    "a path": path_regex(slashes=True),
    **{
        path: tools_regex(path) for path in ("/mcp", "/*/mcp", "/**/a*b/**/c", "/a/**", "/**", "/", "/@a%2f*")
    },
}


@pytest.mark.parametrize("name", REFUSING)
def test_no_regex_that_refuses_repeats_a_group(name: str) -> None:
    """Each turn of a group uses PCRE's stack; without stack, a pattern finds and so refuses nothing."""
    assert re.findall(r"(?<!\\)\)(?:[*+](?!\+)|\{)", REFUSING[name]) == []


@pytest.mark.parametrize(
    "query",
    [
        "_method=PUT",
        "a&_method",
        "a;_METHOD=x",
        "%5fmethod=x",
        "%5Fm%65thod=x",
        ".method=x",
        "[method]=x",
        " method",
        "%20_method=x",
        "_httpMethod=x",
        "x-http-method-override=x",
        "X_HTTP_Method=x",
        "x-method-override",
        "?_method",
        "a%26_method=x",
        "_method[]=x",
        "_method%00=x",
        "$method=x",
    ],
)
def test_queries_that_ask_for_another_method(query: str) -> None:
    assert re.search(OVERRIDING_QUERY, query, re.IGNORECASE)


@pytest.mark.parametrize(
    "query",
    [
        "method=x",
        "a=_method",
        "payment_method=card",
        "a_b_method=x",
        "_methods=x",
        "x=y&method=z",
        "methodic",
    ],
)
def test_queries_that_do_not(query: str) -> None:
    assert not re.search(OVERRIDING_QUERY, query, re.IGNORECASE)
    assert isinstance(host().decide("GET", f"/a?{query}"), HttpRule)


def test_names_of_headers_that_servers_confuse() -> None:
    overriding = re.compile(header_regex(OVERRIDES), re.IGNORECASE)
    for names in ("host,x-http-method", "x_http.method~override", "X-Original-URL,host", "forwarded"):
        assert overriding.search(names), names
    for names in ("host,accept", "x-http-methods", "x-forwarded-for", "my-forwarded", "xhttpmethod"):
        assert not overriding.search(names), names
    alike = re.compile(lookalike_regex("x-api-key"), re.IGNORECASE)
    for names in ("x_api_key", "host,x.api-key", "x-api-key,x_api-key"):
        assert alike.search(names), names
    for names in ("x-api-key", "x-api-keys", "my-x_api_key", "host"):
        assert not alike.search(names), names
    assert not re.search(lookalike_regex("authorization"), "authorization")


def test_no_rule_allows_an_echo() -> None:
    assert host().decide("TRACE", "/a") == "rule"
    with pytest.raises(
        ValueError, match=r"^TRACE is never allowed: its answer is the request, with its secrets$"
    ):
        http_method("TRACE")


def test_git_needs_its_query_and_no_other() -> None:
    found = HttpHost("git.example", 443, private=False, rules=tuple(git_rules("read", ("a/*",), HERE)))
    allowed = ("GET", "/a/b/info/refs?service=git-upload-pack"), ("POST", "/a/b.git/git-upload-pack")
    assert all(isinstance(found.decide(*each), HttpRule) for each in allowed)
    for method, target in (
        ("GET", "/a/b/info/refs"),
        ("GET", "/a/b/info/refs?service=git-receive-pack"),
        ("GET", "/a/b/info/refs?service=git-upload-pack&service=git-receive-pack"),
        ("POST", "/a/b/git-receive-pack"),
        ("POST", "/a/b/git-upload-pack?x"),
    ):
        assert found.decide(method, target) == "rule"
